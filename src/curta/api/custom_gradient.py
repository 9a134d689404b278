"""`custom_gradient`, `closure_convert` and `linear_call`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from curta import dtypes, tree_util
from curta._base.once import once
from curta.api.arguments import check_callable
from curta.api.backward_rules import accumulated
from curta.api.custom_derivatives import custom_vjp
from curta.control.accumulators import RefAccum, ValAccum
from curta.control.linear_call import LinearCall
from curta.core.flat import FlatFunction, debug_info
from curta.core.jaxpr import ClosedJaxpr, eval_jaxpr
from curta.core.stage import JitTracer, stage
from curta.core.tangents import Zero
from curta.core.trace import Tracer, typeof
from curta.core.wrapping import update_wrapper, wraps
from curta.transforms.jvp import JVPTracer
from curta.transforms.partial_eval import residuals_as_inputs
from curta.transforms.vmap import BatchTracer


def custom_gradient(
    fun: Callable[..., Any] | None = None,
    *,
    with_logs: bool = False,
    remat: bool = False,
    with_accums: Any = None,
) -> Any:
    """A decorator for functions that return their value together with their VJP.

    Args:
      fun: returns a pair of the output and a function from its cotangent to a tuple of
        cotangents of the arguments (for one argument, not necessarily a tuple). Left
        out, the result is a decorator.
      with_logs: whether the VJP returns a pair of cotangents and a dict of named
        values, or None, to log: see `custom_vjp.defvjp_with_logs`. Default False.
      remat: whether `fun` returns, in place of the VJP, a function of the arguments
        that gives output and VJP: see `custom_vjp.defremat`. Default False.
      with_accums: `hijax.ValAccum`, or a tree of it that is a prefix of the arguments,
        if the VJP takes an accumulator for each argument behind the cotangent, and
        returns None or a log: see `custom_vjp.defvjp_with_accums`. Default None.

    Returns:
      A function that gives the output alone, and has that derivative.

    Raises:
      NotImplementedError: `with_accums` together with `remat`; when the derivative is
        taken, for `RefAccum`, since cotangents are added to references at the end.
      TypeError: when it is called, if `fun` returns no such pair, or accumulators are
        of other classes.

    >>> import curta
    >>> @curta.custom_gradient
    ... def f(x):
    ...     return x**2, lambda ct: (ct * x,)
    >>> f(3.0), curta.grad(f)(3.0)
    (9.0, Array(3., dtype=float32, weak_type=True))
    """

    if with_accums is not None and remat:
        raise NotImplementedError(
            "custom_gradient doesn't yet support with_accums together with remat"
        )
    if fun is None:
        return functools.partial(
            custom_gradient, with_logs=with_logs, remat=remat, with_accums=with_accums
        )
    if with_accums is not None:
        return _with_gradient(_of_values(fun, with_accums), True, False)
    return _with_gradient(fun, with_logs, remat)


def _of_values(fun: Callable[..., Any], kinds: Any) -> Callable[..., Any]:
    """The function with a VJP that returns what one with accumulators adds up."""

    @wraps(fun)
    def with_values(*args: Any) -> Any:
        out, rule = _pair(fun(*args))
        for kind in tree_util.broadcast_prefix(kinds, args):
            _check_kind(kind)
        leaves, tree = tree_util.tree_flatten((args, {}))
        avals = [typeof(x) for x in leaves]

        def of_values(cotangent: Any) -> Any:
            logs: list[Any] = []

            def logging(*given: Any) -> None:
                logs.append(rule(*given))

            wanted = [True] * len(avals)
            cts = accumulated(logging, (cotangent,), tree, avals, wanted)
            cts = [None if type(ct) is Zero else ct for ct in cts]
            return tree_util.tree_unflatten(tree, cts)[0], logs[0]

        return out, of_values

    return with_values


def _check_kind(kind: Any) -> None:
    if kind is RefAccum:
        raise NotImplementedError(
            "custom_gradient with RefAccum: backward rules add to values here, which"
            " VJP.with_refs adds to references at the end. Use ValAccum."
        )
    if kind is not ValAccum:
        raise TypeError(
            "custom_gradient's with_accums must be a pytree prefix of the function's"
            f" arguments with ValAccum or RefAccum leaves, but got a leaf {kind}."
        )


def _with_gradient(
    fun: Callable[..., Any], with_logs: bool, remat: bool
) -> custom_vjp[..., Any]:
    """The function by its value, with the VJP as its rule."""

    @custom_vjp
    def wrapped_fun(*args: Any, **kwargs: Any) -> Any:
        return _pair(fun(*args, **kwargs))[0]

    def fwd(*args: Any, **kwargs: Any) -> tuple[Any, tree_util.Partial | None]:
        out, rule = _pair(fun(*args, **kwargs))
        if remat:
            return out, None
        return out, _closed_rule(_logging(rule) if with_logs else rule, out)

    def rem(_: None, *args: Any, **kwargs: Any) -> tuple[Any, tree_util.Partial]:
        _, again = _pair(fun(*args, **kwargs))
        out, rule = _pair(again(*args, **kwargs))
        return out, _closed_rule(_logging(rule) if with_logs else rule, out)

    def bwd(rule: tree_util.Partial, cotangent: Any) -> Any:
        result, log = rule(cotangent) if with_logs else (rule(cotangent), None)
        is_leaf = tree_util.treedef_is_leaf(tree_util.tree_structure(result))
        cts = (result,) if is_leaf else result
        return (cts, log) if with_logs else cts

    update_wrapper(wrapped_fun, fun)
    if remat:
        define = wrapped_fun.defremat_with_logs if with_logs else wrapped_fun.defremat
        define(fwd, rem, bwd)
    elif with_logs:
        wrapped_fun.defvjp_with_logs(fwd, bwd)
    else:
        wrapped_fun.defvjp(fwd, bwd)
    return wrapped_fun


def _logging(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A VJP that returns cotangents and a log; TypeError if it returns others."""

    @wraps(rule)
    def checked(cotangent: Any) -> Any:
        out = rule(cotangent)
        if not isinstance(out, (tuple, list)) or len(out) != 2:
            raise TypeError(
                "custom_gradient function used with with_logs=True must return a VJP"
                f" function producing a pair (in_cts, logs), but it returned {out}."
            )
        if out[1] is not None and type(out[1]) is not dict:
            raise TypeError(
                "custom_gradient function used with with_logs=True must return a VJP"
                " function whose second output is None or a dict of backward-pass log"
                f" entries, but got {type(out[1]).__name__}."
            )
        return tuple(out)

    return checked


def _pair(out: Any) -> tuple[Any, Callable[..., Any]]:
    if not isinstance(out, (tuple, list)):
        raise TypeError(
            f"cannot unpack what a custom_gradient function returned, {out}: it is to"
            " return the output and a function of its cotangent."
        )
    value, rule = out
    check_callable(rule)
    return value, rule


def _closed_rule(rule: Callable[..., Any], out: Any) -> tree_util.Partial:
    """A rule for cotangents of `out`, with all that it closes over as leaves."""
    leaves, out_tree = tree_util.tree_flatten(out)
    flat = FlatFunction(rule, tree_util.tree_structure(((out,), {})))
    avals = [typeof(x).to_cotangent_aval() for x in leaves]
    closed = stage(flat, avals, debug_info("custom_gradient fwd", rule))

    def call(consts: list[Any], cotangent: Any) -> Any:
        cts, ct_tree = tree_util.tree_flatten(cotangent)
        if ct_tree != out_tree:
            raise TypeError(f"cotangent has structure {ct_tree}, not {out_tree}")
        result = eval_jaxpr(closed.jaxpr, consts, *cts)
        return tree_util.tree_unflatten(flat.out_tree, result)

    return tree_util.Partial(call, closed.consts)


def closure_convert(
    fun: Callable[..., Any], *example_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """Return `fun` with its differentiable captured values as arguments.

    Args:
      fun: function of pytrees of arrays.
      *example_args: arguments of the types that it will be called with.

    Returns:
      A function of the same arguments followed by the hoisted values, and the list of
      those values.

    >>> import curta, curta.numpy as jnp
    >>> def f(x, y):
    ...     g, hoisted = curta.closure_convert(lambda z: x * z, y)
    ...     return g(y, *hoisted), len(hoisted)
    >>> curta.grad(f, has_aux=True)(2.0, 3.0)
    (Array(3., dtype=float32, weak_type=True), 1)
    """
    check_callable(fun)
    leaves, in_tree = tree_util.tree_flatten((example_args, {}))
    flat = FlatFunction(fun, in_tree)
    info = debug_info("closure_convert", fun)
    closed = stage(flat, [typeof(x) for x in leaves], info)
    hoisted = [_may_be_perturbed(c) for c in closed.consts]
    count = sum(hoisted)

    def converted(*args: Any) -> Any:
        split = len(args) - count
        given, values = args[:split], iter(args[split:])
        args_leaves, args_tree = tree_util.tree_flatten((given, {}))
        if args_tree != in_tree:
            raise TypeError(
                "The inputs to the closure produced by closure_convert must have the"
                " same Pytree structure as the example arguments passed when"
                f" closure_convert was called. Expected {in_tree}, but got"
                f" {args_tree}"
            )
        consts = [
            next(values) if h else c
            for c, h in zip(closed.consts, hoisted, strict=True)
        ]
        outs = eval_jaxpr(closed.jaxpr, consts, *args_leaves)
        return tree_util.tree_unflatten(flat.out_tree, outs)

    return converted, [c for c, h in zip(closed.consts, hoisted, strict=True) if h]


def _may_be_perturbed(x: Any) -> bool:
    """Return True if an enclosing transformation may differentiate in `x`."""
    if not isinstance(x, Tracer):
        return False
    if isinstance(x, JVPTracer):
        return type(x.tangent) is not Zero or _may_be_perturbed(x.primal)
    if isinstance(x, BatchTracer):
        return _may_be_perturbed(x.val)
    if isinstance(x, JitTracer):
        return typeof(x).to_tangent_aval().dtype != dtypes.float0
    return True


def linear_call(
    fun: Callable[..., Any],
    fun_transpose: Callable[..., Any],
    residual_args: Any,
    linear_args: Any,
) -> Any:
    """Call a linear function whose transpose is given.

    Args:
      fun: `fun(residual_args, linear_args)`, linear in its second argument.
      fun_transpose: `fun_transpose(residual_args, cotangent)`, linear in its second
        argument, gives the cotangent of `linear_args`.
      residual_args, linear_args: pytrees of arrays.

    Returns:
      What `fun` gives.

    Raises:
      TypeError: if `fun` or `fun_transpose` is not callable; when the result is
        transposed, if `fun_transpose` returns another structure than the structure of
        `linear_args`.

    >>> import curta
    >>> from curta.custom_derivatives import linear_call
    >>> def scaled(x):
    ...     divide = lambda r, t: t / r
    ...     return linear_call(divide, divide, 4.0, x)
    >>> scaled(8.0), curta.linear_transpose(scaled, 1.0)(2.0)[0].tolist()
    (Array(2., dtype=float32, weak_type=True), 0.5)
    """
    residuals = tree_util.tree_leaves(residual_args)
    linear, lin_tree = tree_util.tree_flatten(linear_args)
    res_avals, lin_avals = [[typeof(x) for x in xs] for xs in (residuals, linear)]
    in_tree = tree_util.tree_structure(((residual_args, linear_args), {}))
    flat = FlatFunction(fun, in_tree)
    closed = stage(flat, [*res_avals, *lin_avals], debug_info("linear_call fun", fun))
    closed, consts = residuals_as_inputs(closed)
    out = tree_util.tree_unflatten(flat.out_tree, closed.out_avals)
    backward = FlatFunction(
        fun_transpose, tree_util.tree_structure(((residual_args, out), {}))
    )

    @once
    def transposed() -> ClosedJaxpr:
        info = debug_info("linear_call fun_transpose", fun_transpose)
        avals = [*map(typeof, consts), *res_avals, *closed.out_avals]
        made = stage(lambda *args: backward(*args[len(consts) :]), avals, info)
        if backward.out_tree != lin_tree:
            raise TypeError(
                "transpose output pytree structure must match that of linear inputs,"
                f" got output structure {backward.out_tree} and input structure"
                f" {lin_tree}."
            )
        return made

    op = LinearCall(closed, transposed, len(consts) + len(residuals))
    return tree_util.tree_unflatten(flat.out_tree, op(*consts, *residuals, *linear))
