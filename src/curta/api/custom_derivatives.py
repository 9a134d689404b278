"""`custom_jvp` and `custom_vjp`: functions of pytrees with derivatives of their own."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes, tree_util
from curta.api.arguments import as_result, check_callable, leaf_names
from curta.api.custom_function import CustomFunction, PrimalFunction
from curta.api.signatures import P, R
from curta.config import config, enable_x64
from curta.control.custom_jvp import CustomJVP, SymbolicZero
from curta.control.custom_vjp import Backward, CustomVJP
from curta.core.avals import typed
from curta.core.flat import debug_info, function_name
from curta.core.refs import Ref, refuse_aliases, refuse_custom_refs
from curta.core.stage import stage
from curta.core.tangents import Zero
from curta.core.trace import Tracer, typeof
from curta.core.tracebacks import api_boundary
from curta.errors import UnexpectedTracerError
from curta.primitives.structure import add_tangents, instantiate


class custom_jvp(CustomFunction[P, R]):
    """A decorator for functions whose forward derivative is given by a rule.

    Args:
      fun: function of pytrees of arrays.
      nondiff_argnums: positional arguments that are not differentiated and may be
        anything (functions, say); the rule gets them first.

    >>> import curta, curta.numpy as jnp
    >>> @curta.custom_jvp
    ... def f(x):
    ...     return jnp.sin(x)
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     (x,), (t,) = primals, tangents
    ...     return f(x), 2.0 * t
    >>> curta.grad(f)(1.0)
    Array(2., dtype=float32, weak_type=True)
    """

    jvp: Callable[..., Any] | None = None
    symbolic_zeros: bool = False

    # Its own, so that what Python says of a wrong call names this class.
    def __init__(
        self,
        fun: Callable[P, R],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)

    def defjvp(
        self, jvp: Callable[..., Any], symbolic_zeros: bool = False
    ) -> Callable[..., Any]:
        """Set the rule `(primals, tangents) -> (out, out_tangent)`; returns it.

        With `symbolic_zeros` tangents that are zero are shown as `SymbolicZero`.
        """
        if jvp is not None:
            check_callable(jvp)
        self.jvp = jvp
        self.symbolic_zeros = symbolic_zeros
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set one rule `(tangent, out, *primals) -> out_tangent` per argument."""
        if self.nondiff_argnums:
            raise TypeError("Can't use ``defjvps`` with ``nondiff_argnums``.")

        primal: Callable[..., R] = self

        def jvp(primals: Any, tangents: Any) -> Any:
            if len(jvps) != len(primals):
                raise ValueError(
                    f"defjvps was given {len(jvps)} rules for a function of"
                    f" {len(primals)} arguments: give one for each, None where the"
                    " derivative is zero."
                )
            out = primal(*primals)
            parts = [
                rule(t, out, *primals)
                for t, rule in zip(tangents, jvps, strict=True)
                if rule is not None
            ]
            if not parts:
                return out, tree_util.tree_map(
                    lambda x: instantiate(Zero(typeof(x).to_tangent_aval())), out
                )
            return out, functools.reduce(
                lambda a, b: tree_util.tree_map(add_tangents, a, b), parts
            )

        self.defjvp(jvp)

    @api_boundary
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.jvp is None:
            raise AttributeError(
                f"No JVP defined for custom_jvp function {self._name()} using defjvp."
            )
        fixed, traced = self._split(self.resolve("custom_jvp", args, kwargs))
        with_fixed = self._merged(fixed)
        leaves, in_tree = tree_util.tree_flatten((traced, {}))
        flat = PrimalFunction(with_fixed(self.fun), in_tree)
        rule = _FlatJVP(self, self.jvp, fixed, in_tree)
        info = debug_info("custom_jvp fun", self.fun)
        call = CustomJVP(flat, rule, info, function_name(self.jvp), self.symbolic_zeros)
        rule.primal = flat
        outs = call(*leaves)
        out_tree = flat.out_tree if flat.out_tree is not None else rule.out_tree
        return tree_util.tree_unflatten(out_tree, outs)


class _FlatJVP:
    """A user's JVP rule on flat leaves, with its outputs checked."""

    def __init__(
        self,
        owner: custom_jvp[..., Any],
        rule: Callable[..., Any],
        fixed: list[Any],
        in_tree: Any,
    ):
        self.owner = owner
        self.rule = rule
        self.fixed = fixed
        self.in_tree = in_tree
        self.out_tree: Any = None
        self.primal: PrimalFunction | None = None
        self.x64 = config.jax_enable_x64  # of the call, which the rule belongs to

    def __call__(
        self, primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        args, _ = tree_util.tree_unflatten(self.in_tree, map(typed, primals))
        dots, _ = tree_util.tree_unflatten(self.in_tree, tangents)
        with enable_x64(self.x64):
            pair = self.rule(*self.fixed, args, dots)
        rule, fun = function_name(self.rule), self.owner._name()
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(
                f"Custom JVP rule {rule} for function {fun} must produce a pair (list"
                " or tuple of length two) representing primal and tangent outputs, but"
                f" got {pair}."
            )
        outs, out_tree = tree_util.tree_flatten(pair[0])
        dots_out, dots_tree = tree_util.tree_flatten(pair[1])
        if out_tree != dots_tree:
            raise TypeError(
                f"Custom JVP rule {rule} for function {fun} must produce primal and"
                " tangent outputs with equal container (pytree) structures, but got"
                f" {out_tree} and {dots_tree} respectively."
            )
        if self.primal is not None:
            self.primal.check(
                out_tree,
                outs,
                f"Custom JVP rule {rule} for function {fun} must produce a pair (list"
                " or tuple of length two) where the first element represents the"
                " primal output (equal in value to the output of the"
                f" custom_jvp-decorated function {fun}, and in particular of the same"
                " container/pytree structure, shapes and dtypes), but instead the JVP"
                " rule output's",
                f"custom_jvp-decorated function {fun}",
            )
        _check_tangents(outs, dots_out)
        self.out_tree = out_tree
        return outs, dots_out


def _check_tangents(outs: Sequence[Any], tangents: Sequence[Any]) -> None:
    wrong = []
    for out, t in zip(outs, tangents, strict=True):
        primal = typeof(out).strip_weak_type()
        expected = primal.to_tangent_aval()
        result = t.aval if isinstance(t, SymbolicZero) else typeof(t)
        if (result.shape, result.dtype) != (expected.shape, expected.dtype):
            wrong.append((primal, expected, result))
    if not wrong:
        return
    primal, expected, result = wrong[0]
    if len(outs) == 1:
        raise TypeError(
            "Custom JVP rule must produce primal and tangent outputs with"
            f" corresponding shapes and dtypes. Expected {expected.str_short()}"
            f" (tangent type of {primal.str_short()}) but got {result.str_short()}."
        )
    listing = "\n".join(
        f"  primal {p.str_short()} with tangent {f.str_short()}, expecting tangent {e}"
        for p, e, f in wrong
    )
    raise TypeError(
        "Custom JVP rule must produce primal and tangent outputs with corresponding"
        f" shapes and dtypes, but got:\n{listing}"
    )


@dataclasses.dataclass
class CustomVJPPrimal:
    """An argument leaf as a forward rule with `symbolic_zeros` sees it.

    >>> import curta
    >>> @curta.custom_vjp
    ... def product(x, y):
    ...     return x * y
    >>> def forward(x, y):
    ...     print(x.perturbed, y.perturbed)
    ...     return x.value * y.value, y.value
    >>> product.defvjp(forward, lambda y, ct: (ct * y, None), symbolic_zeros=True)
    >>> curta.grad(product)(2.0, 3.0)
    True False
    Array(3., dtype=float32, weak_type=True)
    """

    value: Any
    perturbed: bool


def custom_vjp_primal_tree_values(tree: Any) -> Any:
    """The values of a tree of arguments as a rule with `symbolic_zeros` gets them.

    >>> import curta
    >>> from curta.custom_derivatives import CustomVJPPrimal
    >>> curta.custom_derivatives.custom_vjp_primal_tree_values(
    ...     {"a": CustomVJPPrimal(1.0, perturbed=True)})
    {'a': 1.0}
    """
    return tree_util.tree_map(lambda leaf: leaf.value, tree)


class custom_vjp(CustomFunction[P, R]):
    """A decorator for functions whose reverse-mode derivative is given by rules.

    Args:
      fun: function of pytrees of arrays.
      nondiff_argnums: positional arguments that are not differentiated and may be
        anything but tracers; the backward rule gets them first.

    >>> import curta, curta.numpy as jnp
    >>> @curta.custom_vjp
    ... def f(x):
    ...     return jnp.sin(x)
    >>> f.defvjp(lambda x: (f(x), x), lambda x, ct: (2.0 * ct,))
    >>> curta.grad(f)(1.0)
    Array(2., dtype=float32, weak_type=True)
    """

    fwd: Callable[..., Any] | None = None
    bwd: Callable[..., Any] | None = None
    symbolic_zeros: bool = False
    optimize_remat: bool = False

    # Its own, so that what Python says of a wrong call names this class.
    def __init__(
        self,
        fun: Callable[P, R],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ):
        super().__init__(fun, nondiff_argnums, nondiff_argnames)

    def defvjp(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
    ) -> None:
        """Set the rules.

        Args:
            fwd: `fwd(*args) -> (out, residuals)`, called instead of the function where
                it is differentiated. `nondiff_argnums` stay where they are.
            bwd: `bwd(residuals, cotangent)` returns a tuple with a cotangent, or None
                for zeros, for each argument; `nondiff_argnums` come first.
            symbolic_zeros: `fwd` gets each argument as an object with `value` and
                `perturbed`, and `bwd` gets `SymbolicZero`s for zero cotangents.
                Default False.
            optimize_remat: leave `fwd` out where its residuals are not needed. Default
                False.

        Returns:
            None.

        Raises:
            TypeError: a rule is not callable.
            NotImplementedError: both `symbolic_zeros` and `optimize_remat`.

        >>> import curta, curta.numpy as jnp
        >>> @curta.custom_vjp
        ... def clipped(x):  # whose gradient is clipped
        ...     return x
        >>> clipped.defvjp(lambda x: (x, None), lambda _, g: (jnp.clip(g, -1, 1),))
        >>> curta.grad(lambda x: 5 * clipped(x))(2.0)
        Array(1., dtype=float32, weak_type=True)
        """
        for rule in (fwd, bwd):
            if rule is not None:
                check_callable(rule)
        self.fwd, self.bwd = fwd, bwd
        self.symbolic_zeros = symbolic_zeros
        self.optimize_remat = optimize_remat
        if symbolic_zeros and optimize_remat:
            raise NotImplementedError(
                "remat optimization for custom_vjp does not support symbolic zeros"
            )

    @api_boundary
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.fwd is None or self.bwd is None:
            raise AttributeError(
                f"No VJP defined for custom_vjp function {self._name()} using defvjp."
            )
        given = self.resolve("custom_vjp", args, kwargs)
        fixed, traced = self._split(given)
        for x in tree_util.tree_leaves(fixed):
            if isinstance(x, Tracer):
                raise UnexpectedTracerError(_TRACER_IN_NONDIFF)
        leaves, in_tree = tree_util.tree_flatten((traced, {}))
        flat = PrimalFunction(self._merged(fixed)(self.fun), in_tree)
        rules = _FlatVJP(self, fixed, in_tree, leaves, flat)
        info = debug_info("custom_vjp fun", self.fun)
        if config.jax_custom_vjp3:
            self._refuse_closed_over(flat, leaves)
        if any(isinstance(x, Ref) for x in leaves):
            names = leaf_names(self.fun, traced, {}, self._traced_argnums(given))
            refuse_aliases(leaves, info, names)
        call = CustomVJP(
            flat,
            rules.forward,
            info,
            function_name(self.fwd),
            function_name(self.bwd),
            self.symbolic_zeros,
            self.optimize_remat,
        )
        outs = call(*leaves)
        refuse_custom_refs(f"primal function {self._name()}", outs)
        out_tree = flat.out_tree if flat.out_tree is not None else rules.out_tree
        return tree_util.tree_unflatten(out_tree, outs)

    def _refuse_closed_over(self, fun: PrimalFunction, leaves: Sequence[Any]) -> None:
        for x in stage(fun, [typeof(x) for x in leaves]).consts:
            if isinstance(x, Tracer):
                raise UnexpectedTracerError(
                    f"custom_vjp-decorated function {self._name()} closed over a"
                    f" {type(x).__name__} of type {x.aval.str_short()}, but custom_vjp"
                    " functions can't close over Tracers while jax_custom_vjp3 is on."
                    f" Rewrite {self._name()} to take it as an explicit input."
                )


_TRACER_IN_NONDIFF = (
    "Found a JAX Tracer object passed as an argument to a custom_vjp function in a"
    " position indicated by nondiff_argnums as non-differentiable. Tracers cannot be"
    " passed as non-differentiable arguments to custom_vjp functions; pass the array as"
    " an ordinary argument and return None as its cotangent."
)


class _FlatVJP:
    """A user's forward and backward rule on flat leaves, with their outputs checked."""

    def __init__(
        self,
        owner: custom_vjp[..., Any],
        fixed: list[Any],
        in_tree: Any,
        leaves: Sequence[Any],
        primal: PrimalFunction,
    ):
        self.owner = owner
        self.fixed = fixed
        self.in_tree = in_tree
        self.avals = [typeof(x) for x in leaves]
        self.primal = primal
        self.out_tree: Any = None
        self.x64 = config.jax_enable_x64  # of the call, which the rules belong to

    def forward(
        self, primals: Sequence[Any], perturbed: Sequence[bool]
    ) -> tuple[list[Any], list[Any], Backward]:
        """Flat outputs and flat residuals, and the backward rule for those."""
        owner = self.owner
        assert owner.fwd is not None
        if owner.symbolic_zeros:
            primals = [
                CustomVJPPrimal(typed(x), p)
                for x, p in zip(primals, perturbed, strict=True)
            ]
        args, _ = tree_util.tree_unflatten(self.in_tree, map(typed, primals))
        with enable_x64(self.x64):
            pair = owner._merged(self.fixed)(owner.fwd)(*args)
        rule, fun = function_name(owner.fwd), owner._name()
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise TypeError(
                f"Custom VJP fwd rule {rule} for function {fun} must produce a pair"
                " (list or tuple of length two) where the first element represents the"
                " primal output (equal to those of the custom_vjp-decorated function"
                f" {fun}) and the second element represents residuals (i.e. values"
                " stored from the forward pass for use on the backward pass), but"
                f" instead of a pair the fwd rule {rule} produced {pair}."
            )
        outs, self.out_tree = tree_util.tree_flatten(pair[0])
        self.primal.check(
            self.out_tree,
            outs,
            f"Custom VJP fwd rule {rule} for function {fun} must produce a pair (list"
            " or tuple of length two) where the first element represents the primal"
            f" output (equal to the output of the custom_vjp-decorated function {fun})"
            " and the second element represents residuals (i.e. values stored from"
            " the forward pass for use on the backward pass), but instead the fwd"
            " rule output's",
            f"custom_vjp-decorated function {fun}",
        )
        residuals, residual_tree = tree_util.tree_flatten(pair[1])
        for x in residuals:
            if not isinstance(x, Ref):
                typeof(x)  # raises TypeError for what is no array
        refuse_custom_refs(f"fwd function {rule}", outs)
        refuse_custom_refs(f"fwd function {rule}", residuals, self.given(primals))
        bwd = functools.partial(self.backward, residual_tree, self.out_tree)
        return outs, residuals, bwd

    def given(self, primals: Sequence[Any]) -> list[Any]:
        """The values of the arguments of a forward rule."""
        return [x.value if isinstance(x, CustomVJPPrimal) else x for x in primals]

    def backward(
        self,
        residual_tree: Any,
        out_tree: Any,
        residuals: Sequence[Any],
        cts: Sequence[Any],
    ) -> list[Any]:
        """A cotangent or Zero per flat input."""
        owner = self.owner
        assert owner.bwd is not None
        res = tree_util.tree_unflatten(residual_tree, map(typed, residuals))
        shown = [ct if type(ct) is SymbolicZero else as_result(ct) for ct in cts]
        ct = tree_util.tree_unflatten(out_tree, shown)
        with enable_x64(self.x64):
            result = owner.bwd(*self.fixed, res, ct)
        args_tree = self.in_tree.children()[0]
        result = tuple(result) if isinstance(result, list) else result
        rule = function_name(owner.bwd)
        try:
            leaves = tree_util.broadcast_prefix(
                result,
                tree_util.tree_unflatten(args_tree, self.avals),
                is_leaf=lambda x: x is None,
            )
        except (ValueError, TypeError):
            raise TypeError(self._structure_error(rule, result, args_tree)) from None
        if not isinstance(result, tuple):
            raise TypeError(self._structure_error(rule, result, args_tree))
        return [
            self._cotangent(rule, i, x, a)
            for i, (x, a) in enumerate(zip(leaves, self.avals, strict=True))
        ]

    def _structure_error(self, rule: str, outputs: Any, args_tree: Any) -> str:
        return (
            "Custom VJP bwd rule must produce an output with the same"
            " container (pytree) structure as the args tuple of the primal function,"
            " and in particular must produce a tuple of length equal to the number of"
            " arguments to the primal function, but got bwd output structure"
            f" {tree_util.tree_structure(outputs)} for primal input structure"
            f" {args_tree}. The rule is {rule}."
        )

    def _cotangent(self, rule: str, i: int, ct: Any, aval: Any) -> Any:
        expected = aval.to_tangent_aval()
        if ct is None or expected.dtype == dtypes.float0:
            return Zero(expected)
        if isinstance(ct, SymbolicZero):
            if (ct.shape, ct.dtype) != (expected.shape, expected.dtype):
                raise ValueError(
                    "Custom VJP bwd rule produced a SymbolicZero with a"
                    " shape/dtype that does not match the corresponding input tangent"
                    f" shape/dtype: at output leaf {i} the SymbolicZero had"
                    f" shape/dtype {ct.aval.str_short()} while the corresponding input"
                    f" had shape/dtype {aval.str_short()}. Consider just returning a"
                    " None here instead of a SymbolicZero object."
                )
            return Zero(expected)
        result = typeof(ct)
        if result.dtype == dtypes.float0 and result.shape == expected.shape:
            return Zero(expected)
        # Any dtype will do for a number's cotangent: rules widen narrow floats.
        same = result.shape == expected.shape and (
            result.dtype == expected.dtype
            or dtypes.issubdtype(expected.dtype, np.inexact)
        )
        if not same and not config.jax_disable_bwd_checks:
            raise ValueError(
                "Custom VJP bwd rule must produce an output with the same"
                " type as the args tuple of the primal function, but at output leaf"
                f" {i} the bwd rule {rule} produced an output of type"
                f" {result.str_short()},"
                " corresponding to an input of type"
                f" {aval.str_short()} whose cotangent type is {expected.str_short()}."
            )
        return ct
