"""`jit`: trace a function once for each signature, compile it, and run that."""

from __future__ import annotations

import functools
import inspect
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, Concatenate, Generic, Self, Unpack, overload

import numpy as np

from curta import tree_util
from curta._base.advisor import advise_of_float64
from curta._base.import_pause import rare_collections
from curta._base.on_demand import late
from curta.api.aot import Lowered, Traced, check_compiler_options
from curta.api.arguments import (
    as_result,
    aval_of,
    check_callable,
    check_outputs,
    leaf_names,
    not_an_array,
)
from curta.api.compiler_options import Inline, is_inlined_early
from curta.api.jit_advice import advise_of_keys, advise_of_tracing
from curta.api.jit_cache import CacheStatistics, Staged, shared_plans
from curta.api.jit_log import Signature, explain_miss
from curta.api.jit_options import (
    LEFT_OUT,
    Arguments,
    JitOptions,
    chosen_device,
    donated_leaves,
    library_options,
    make_options,
    plan_key,
    split_arguments,
    wrong_call,
)
from curta.api.jit_shardings import (
    check_fits,
    flat_shardings,
    layout_of_argument,
    placed_avals,
    sharding_of_argument,
    sharding_tree,
)
from curta.api.lowered import result_names
from curta.api.signatures import P2, R2, Instance, JitKeywords, P, R
from curta.config import config
from curta.control.call import JitCall
from curta.core.avals import ShapedArray
from curta.core.compile_log import timed
from curta.core.flat import debug_info, function_name
from curta.core.jaxpr import ClosedJaxpr, eval_jaxpr
from curta.core.mesh import Mesh
from curta.core.mesh_scope import scope
from curta.core.recorder import current as recorder_now
from curta.core.refs import Ref
from curta.core.shape_struct import (
    ShapeDtypeStruct,
    is_like_array,
    no_value_message,
)
from curta.core.stage import axes_in_scope, stage
from curta.core.trace import TracedValue, current_trace, thread_state, typeof
from curta.core.tracebacks import api_boundary, is_boundary, shorten_traceback
from curta.core.wrapping import SignatureOf, update_wrapper
from curta.runtime.array import ArrayImpl
from curta.runtime.debug_checks import refuse_execution
from curta.runtime.dispatch import CompiledCall
from curta.runtime.eager import BASE
from curta.runtime.key_use import call_with_key_checks
from curta.runtime.native_call import MISS, entry_of_call
from curta.runtime.relayout import check_layout
from curta.runtime.transfer import refuse_strings
from curta.transforms.partial_eval import hoist_constants

# Few programs ask for them.
open_sizes: Any = late("curta.api.abstracted_axes")
kernel_trace: Any = late("curta.api.kernel_trace")  # for profiles


class PjitFunction(Generic[P, R]):
    """A function compiled by `jit`; see there."""

    __signature__: ClassVar[SignatureOf] = SignatureOf("_fun")

    def __init__(
        self, fun: Callable[P, R], options: JitOptions, name: str | None = None
    ):
        update_wrapper(self, fun)
        self._fun = fun
        self._options = options
        self._plans = shared_plans(fun, options)
        self._native = self._plans.native
        self._name = name or function_name(fun)

    @is_boundary
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            out = self._native(*args, **kwargs)
            if out is not MISS:
                return out
            if thread_state.trace is BASE:
                leaves, key = plan_key(self._options, (), args, kwargs)
                plan = self._plans.get(key)
                if plan is not None and plan.call is not None:
                    outs = plan.call(leaves)
                    if not plan.repeated:
                        self._make_native(args, kwargs, leaves, plan)
                    return outs[0] if plan.build is None else plan.build(outs)
            return self._call(args, kwargs)
        except Exception as error:
            shorten_traceback(error)
            raise

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call of a signature that was not run, or under a transformation."""
        if config.jax_disable_jit:
            return self._fun(*args, **kwargs)
        with rare_collections():
            plan, leaves = self._plan(args, kwargs)
            if evaluating := current_trace().is_evaluating():
                refuse_execution(f"jit({self._name})")
                compiled = plan.compiled(self._name)
        if evaluating:
            if config.jax_debug_key_reuse:
                closed = plan.closed
                outs: Sequence[Any] = call_with_key_checks(compiled, closed, leaves)
                return tree_util.tree_unflatten(plan.out_tree, outs)
            plan.executed = True
            if recorder := recorder_now():
                run = kernel_trace.with_kernels(recorder, compiled, leaves)
                outs = recorder.call(self._name, run, leaves)
            else:
                outs = compiled(leaves)
                # The next call with these types of arguments goes straight there.
                plan.call, plan.repeated = compiled, False
                if isinstance(compiled, CompiledCall):
                    # Calls on other devices get native entries, too.
                    compiled.on_other_devices = weakref.WeakMethod(plan.tell_again)
        elif self._options.inline:
            inputs = [*plan.captured, *leaves]
            outs = eval_jaxpr(plan.closed.jaxpr, plan.closed.consts, *inputs)
            outs = [as_result(x) for x in outs]
        else:
            leaves = plan.arguments(leaves)
            outs = plan.results(self._call_op(plan)(*plan.captured, *leaves))
        return tree_util.tree_unflatten(plan.out_tree, outs)

    def _make_native(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        leaves: Sequence[Any],
        plan: Staged,
    ) -> None:
        """At a second call, let native code make the next ones of this signature."""
        if any(isinstance(x, np.ndarray) for x in leaves):
            return  # native calls take no NumPy arrays; the next call may have none
        plan.repeated = True
        call = plan.call
        if isinstance(call, CompiledCall):
            given = self._options.given(args, kwargs)
            if (entry := entry_of_call(given, leaves, call, plan.build)) is not None:
                self._plans.call_natively(plan, entry)

    def _call_op(self, staged: Staged) -> JitCall:
        donated = staged.donated
        if donated:
            donated = (False,) * len(staged.captured) + donated
        options = self._options
        return JitCall(
            staged.closed, self._name, donated, options.inline, options.keep_unused
        )

    # ---- tracing

    def _plan(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Staged, Sequence[Any]]:
        """The plan of a call, for which the function is traced if need be; the leaves.

        What closes over values of a running trace is good for that trace only.
        """
        leaves, key = plan_key(self._options, axes_in_scope(), args, kwargs)
        plan = self._plans.lookup(key, current_trace().memo())
        if plan is None:
            arguments = split_arguments(self._options, args, kwargs)
            avals = [self._leaf_aval(x, arguments) for x in leaves]
            plan = self._make_plan(key, arguments, avals)
        return plan, leaves

    def _make_plan(
        self, key: Any, arguments: Arguments, avals: Sequence[ShapedArray]
    ) -> Staged:
        in_tree = tree_util.tree_structure((arguments.dynamic, arguments.options))
        plan = None
        if self._options.in_shardings is not None:
            avals = placed_avals(tuple(avals), self._in_shardings(arguments))
        surroundings = config.context, axes_in_scope()
        signature = Signature(in_tree, tuple(avals), arguments.static, *surroundings)
        if self._options.in_shardings is not None:  # types may now be equal
            plan = self._plans.of_signature(signature)
        variants = None
        if plan is None and self._options.abstracted_axes is not None:
            plan, variants = open_sizes.plan_of(self, arguments, signature)
        if plan is None:
            plan = self._trace(arguments, signature)
        if variants is not None:
            variants.tell()
        trace = current_trace()
        memo = None if trace.is_evaluating() else trace.memo()
        return self._plans.keep_first(key, plan, memo)

    def _trace(self, arguments: Arguments, signature: Signature) -> Staged:
        self._plans.traces += 1
        if config.jax_no_tracing:
            raise RuntimeError(
                f"re-tracing function {self._name} for `jit`, but 'no_tracing' is set"
            )
        out_tree: list[Any] = []
        argnums = [*arguments.argnums]
        names = leaf_names(self._fun, arguments.dynamic, arguments.options, argnums)
        info = debug_info("jit", self._fun, names)
        in_tree = signature.in_tree
        if config.jax_explain_cache_misses:
            explain_miss(self._fun, names, signature, self._plans.signatures())
        advise_of_tracing(self._fun, names, signature, self._plans)

        def run(*leaves: Any) -> list[Any]:
            dynamic, options = tree_util.tree_unflatten(in_tree, leaves)
            args, kwargs = arguments.merge(dynamic, options)
            result = self._fun(*args, **kwargs)
            outs, tree = tree_util.tree_flatten(result)
            check_outputs(result, outs, info)
            out_tree.append(tree)
            return outs

        with timed(f"tracing {self._name} for jit"):
            closed = stage(run, signature.avals, info)
        advise_of_keys(self._fun, closed.jaxpr)
        captured: Sequence[Any] = ()
        if any(isinstance(c, (TracedValue, Ref)) for c in closed.consts):
            captured = closed.consts
            closed = ClosedJaxpr(hoist_constants(closed.jaxpr), ())
        else:  # copies, as the program may write to a NumPy array later
            closed = ClosedJaxpr(closed.jaxpr, [*map(_own, closed.consts)])
        donated = donated_leaves(self._options, arguments)
        wanted = self._options.out_shardings
        out_leaves = tree_util.tree_unflatten(out_tree[-1], closed.out_avals)
        mesh = self._mesh()
        whole = mesh if self._options.uses_resources else None
        out = flat_shardings("out_shardings", wanted, out_leaves, whole)
        avals = signature.avals
        shapes = [() if a.is_high else a.shape for a in closed.out_avals]
        paths = functools.partial(result_names, out_tree[-1])
        check_fits("pjit outputs", out, shapes, paths)
        given = self._in_shardings(arguments)
        options, tree = self._options, out_tree[-1]
        keep, moves = options.keep_unused, options.moves
        plan = Staged(closed, captured, tree, donated, given, out, mesh, keep, moves)
        plan.signature = signature
        plan.lay_out(options, arguments.dynamic, out_leaves, avals, names)
        return plan

    def _in_shardings(self, arguments: Arguments) -> list[Any]:
        """A sharding or None for each leaf of the arguments; [] if none was given."""
        given = self._options.in_shardings
        if given is not None and arguments.options:
            raise ValueError(
                "pjit does not support kwargs when in_shardings is specified."
            )
        mesh = self._mesh() if self._options.uses_resources else None
        args = arguments.dynamic
        result = flat_shardings("in_shardings", given, args, mesh)
        names = functools.partial(leaf_names, self._fun, args, {}, [*arguments.argnums])
        leaves = tree_util.tree_leaves(args) if result else ()
        shapes = [getattr(x, "shape", ()) for x in leaves]
        check_fits("pjit arguments", result, shapes, names)
        return result

    def _mesh(self) -> Mesh | None:
        """The mesh in scope: that of `with mesh:`, if this function heeds it."""
        result = scope()
        return result.resources if self._options.uses_resources else result.concrete

    def _leaf_aval(self, x: Any, arguments: Arguments) -> ShapedArray:
        if type(x) is ArrayImpl:
            refuse_strings([x], [x.aval])
            return x.aval
        try:
            if type(x) is np.ndarray and x.dtype == np.float64:
                advise_of_float64(x)
            return typeof(x)
        except OverflowError:
            raise OverflowError(
                "An overflow was encountered while parsing an argument to a jitted"
                f" computation, whose argument path is {self._path(x, arguments)}. Got"
                f" {type(x)} with value {x}"
            ) from None
        except TypeError:
            if is_like_array(x):
                path = self._path(x, arguments)
                raise TypeError(no_value_message(x, path)) from None
            raise TypeError(
                not_an_array(self._fun, x, self._path(x, arguments))
            ) from None

    def _abstract_aval(self, arguments: Arguments, x: Any) -> ShapedArray:
        if isinstance(x, ShapeDtypeStruct):
            x = aval_of(x)
        return x if isinstance(x, ShapedArray) else self._leaf_aval(x, arguments)

    def misuse(self, args: Any, kwargs: dict[str, Any]) -> Exception | None:
        """The error that these arguments raise before the function is traced, if
        any."""
        try:
            arguments = split_arguments(self._options, args, kwargs)
        except ValueError as error:
            return error
        try:
            inspect.signature(self._fun).bind(*args, **kwargs)
        except TypeError:
            return wrong_call(self._fun, args, kwargs)
        try:
            for x in tree_util.tree_leaves((arguments.dynamic, arguments.options)):
                self._leaf_aval(x, arguments)
        except Exception as error:
            return error
        return None

    def _path(self, x: Any, arguments: Arguments) -> str:
        leaves = tree_util.tree_leaves((arguments.dynamic, arguments.options))
        names = leaf_names(
            self._fun, arguments.dynamic, arguments.options, [*arguments.argnums]
        )
        return next((n for n, leaf in zip(names, leaves) if leaf is x), "?")

    # ---- ahead of time

    @api_boundary
    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """The function traced for arguments of these shapes and dtypes."""
        arguments = split_arguments(self._options, args, kwargs)
        leaves, in_tree = tree_util.tree_flatten((arguments.dynamic, arguments.options))
        avals = [self._abstract_aval(arguments, x) for x in leaves]
        given = self._in_shardings(arguments) or [None] * len(leaves)
        arg_shardings = [
            s or sharding_of_argument(x) for s, x in zip(given, leaves, strict=True)
        ]
        layouts = [*map(layout_of_argument, leaves)]
        type_of = functools.partial(self._abstract_aval, arguments)
        _, key = plan_key(self._options, axes_in_scope(), args, kwargs, type_of)
        staged = self._plans.lookup(key, current_trace().memo())
        if staged is None:
            with rare_collections():
                staged = self._make_plan(key, arguments, avals)
        names = leaf_names(
            self._fun, arguments.dynamic, arguments.options, [*arguments.argnums]
        )
        traced = Traced(self._name, staged, in_tree, names, arg_shardings)
        traced.layouts = staged.layouts_with(layouts)
        for x, layout in zip(leaves, staged.in_layouts):
            if layout is not None and type(x) is ArrayImpl and x.committed:
                check_layout(layout, x)
        traced.abstract_shardings = [
            p or (x.sharding if isinstance(x, ShapeDtypeStruct) else None)
            for x, p in zip(leaves, arg_shardings, strict=True)
        ]
        return traced

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """The function lowered for arguments of these shapes and dtypes."""
        return self.trace(*args, **kwargs).lower()

    def eval_shape(self, *args: Any, **kwargs: Any) -> Any:
        """The shapes and dtypes of the output, as a tree of `ShapeDtypeStruct`."""
        return self.trace(*args, **kwargs).out_info

    # ---- the cache

    def _cache_size(self) -> int:
        return self._plans.statistics().executables

    def clear_cache(self) -> None:
        """Forget what was traced and compiled."""
        self._plans.clear()

    def cache_statistics(self) -> CacheStatistics:
        """How often the function was traced, and for how many signatures it is kept.

        >>> import curta
        >>> f = curta.jit(lambda x: x + 1)
        >>> _ = f(1.0), f(2.0), f(3)
        >>> f.cache_statistics()
        CacheStatistics(traces=2, signatures=2, executables=2)
        """
        return self._plans.statistics()

    # ---- pickling: the function by reference, and compiled anew

    def __getstate__(self) -> dict[str, Any]:
        return {
            "fun": self._fun,
            "options": self._options,
            "function_name": self._name,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        given = state["fun"], state["options"], state["function_name"]
        PjitFunction.__init__(self, *given)

    # ---- methods

    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: PjitFunction[Concatenate[Instance, P2], R2],
        instance: Instance,
        owner: type | None = None,
    ) -> PjitFunction[P2, R2]: ...
    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<PjitFunction of {self._fun!r}>"


def _own(x: Any) -> Any:
    return np.array(x) if isinstance(x, np.ndarray) else x


@overload
def jit(
    fun: Callable[P, R], /, **options: Unpack[JitKeywords]
) -> PjitFunction[P, R]: ...
@overload
def jit(
    **options: Unpack[JitKeywords],
) -> Callable[[Callable[P, R]], PjitFunction[P, R]]: ...
def jit(
    fun: Callable[..., Any] = LEFT_OUT,
    /,
    *,
    in_shardings: Any = None,
    out_shardings: Any = None,
    static_argnums: int | Iterable[int] | None = None,
    static_argnames: str | Iterable[str] | None = None,
    donate_argnums: int | Iterable[int] | None = None,
    donate_argnames: str | Iterable[str] | None = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool | Inline = False,
    abstracted_axes: Any = None,
    compiler_options: dict[str, Any] | None = None,
) -> Any:
    """Compile a function once per input signature.

    Args:
      fun: function of pytrees of arrays to a pytree of arrays, without side effects.
        Left out, `jit` returns a decorator.
      static_argnums, static_argnames: arguments that are compile-time constants, by
        number or name; they must be hashable, and the function is compiled for each
        value.
      donate_argnums, donate_argnames: arguments whose buffers may be reused for
        outputs.
      keep_unused: keep the inputs that the function does not read.
      inline: put the equations into the enclosing jaxpr instead of a call; or an
        `Inline`.
      in_shardings, out_shardings: the placement of arguments and results: a `Sharding`,
        a `PartitionSpec` over the mesh in scope, or trees of them that are prefixes of
        the arguments' and the result's. None leaves the placement open.
      abstracted_axes: names of dims whose sizes share one compilation: a tree that is a
        prefix of the arguments, with a dict from axes to names (`{0: "n"}`), a tuple of
        names, or None. A function that cannot be compiled this way is compiled for each
        size, and a warning gives the reason.
      compiler_options: options of XLA are ignored.
      device, backend: where to run; `device_put` of the arguments is preferred.

    Returns:
      A function of the same arguments. It has `lower`, `trace`, `eval_shape`,
      `cache_statistics` and `clear_cache`.

    Raises:
      TypeError: if arguments or outputs are not arrays.
      JaxRuntimeError: if a compiler option is unknown.
      ValueError: if a static argument is not hashable, `fun` does not have an argument
        of this number or name, or, in a call, a name of dims has two sizes.

    >>> import curta, curta.numpy as jnp
    >>> @curta.jit
    ... def selu(x, alpha=1.67, scale=1.05):
    ...     return scale * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)
    >>> selu(jnp.arange(3.0))
    Array([0.  , 1.05, 2.1 ], dtype=float32)
    """
    check_compiler_options(compiler_options)
    given = sharding_tree("jit", "in_shardings", in_shardings)
    wanted = sharding_tree("jit", "out_shardings", out_shardings)
    if device is not None or backend is not None:
        default = chosen_device(device, backend, given, wanted)
        # As if the arguments were put there first, wherever they are.
        given = sharding_tree("jit", "in_shardings", default)
        wanted = sharding_tree("jit", "out_shardings", default)

    axes = (
        None if abstracted_axes is None else open_sizes.AbstractedAxes(abstracted_axes)
    )

    def compile_function(fun: Callable[..., Any]) -> PjitFunction[..., Any]:
        check_callable(fun)
        options = make_options(
            fun,
            static_argnums,
            static_argnames,
            donate_argnums,
            donate_argnames,
            keep_unused=keep_unused,
            inline=is_inlined_early(inline),
            in_shardings=given,
            out_shardings=wanted,
            abstracted_axes=axes,
            moves=device is not None or backend is not None,
        )
        return PjitFunction(fun, options)

    return compile_function if fun is LEFT_OUT else compile_function(fun)


def named_jit(
    fun: Callable[..., Any], name: str | None, static_argnames: Any, inline: bool
) -> PjitFunction[..., Any]:
    """`jit` for the library's own functions, under another name if one is given."""
    return PjitFunction(fun, library_options(fun, static_argnames, inline=inline), name)
