"""`custom_jvp` and `custom_vjp`: functions of pytrees with derivatives of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from curta import tree_util
from curta.api.arguments import check_callable, leaf_names
from curta.api.backward_rules import after_rematerializing, logging_rule
from curta.api.custom_function import CustomFunction, PrimalFunction
from curta.api.flat_vjp import (
    CustomVJPPrimal as CustomVJPPrimal,
    FlatVJP,
    custom_vjp_primal_tree_values as custom_vjp_primal_tree_values,
)
from curta.api.signatures import P, R
from curta.config import config, enable_x64
from curta.control.custom_jvp import CustomJVP, SymbolicZero
from curta.control.custom_vjp import CustomVJP
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
    generic_batching: bool = False
    with_accums: bool = False
    remat_rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

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
        generic_batching: bool = False,
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
            generic_batching: under `vmap`, give outputs once that are the same for all
                examples; their cotangents go to the first example. Default False: if
                one output has a batch dim, so have all.

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
        self.generic_batching = generic_batching
        self.with_accums = False
        if symbolic_zeros and optimize_remat:
            raise NotImplementedError(
                "remat optimization for custom_vjp does not support symbolic zeros"
            )

    def defvjp_with_logs(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
        generic_batching: bool = False,
    ) -> None:
        """Set the rules as `defvjp`, with a `bwd` that logs.

        It returns a pair of the cotangents and a dict of named values, or None. The
        pullback of `vjp` gives them by `with_logs`.

        >>> import curta
        >>> @curta.custom_vjp
        ... def f(x):
        ...     return x
        >>> f.defvjp_with_logs(lambda x: (x, None), lambda _, g: ((g,), {"ct": g}))
        >>> curta.vjp(f, 1.0)[1].with_logs(3.0)[1]
        {'ct': Array(3., dtype=float32, weak_type=True)}
        """
        flags = symbolic_zeros, optimize_remat, generic_batching
        self.defvjp(fwd, logging_rule(bwd), *flags)

    def defvjp_with_accums(
        self,
        fwd: Callable[..., Any],
        bwd: Callable[..., Any],
        symbolic_zeros: bool = False,
        optimize_remat: bool = False,
        generic_batching: bool = False,
    ) -> None:
        """Set the rules as `defvjp`, with a `bwd` that adds to accumulators.

        `bwd(residuals, cotangent, *accums)` has an accumulator for each argument, a
        `NullAccum` where no cotangent is wanted. It returns None, or a dict of named
        values to log.

        >>> import curta
        >>> @curta.custom_vjp
        ... def f(x):
        ...     return x
        >>> f.defvjp_with_accums(lambda x: (x, None), lambda _, g, x: x.accum(2 * g))
        >>> curta.grad(f)(1.0)
        Array(2., dtype=float32, weak_type=True)
        """
        self.defvjp(fwd, bwd, symbolic_zeros, optimize_remat, generic_batching)
        self.with_accums = True

    def defremat(
        self,
        fwd: Callable[..., Any],
        rem: Callable[..., Any],
        bwd: Callable[..., Any],
        generic_batching: bool = False,
    ) -> None:
        """Set rules with a rematerialization between the passes.

        `fwd` is as for `defvjp`; `rem(residuals, *args)` gives the output and the
        residuals of `bwd`. Unless `defvjp` sets others, they are the rules of the
        derivative, with `jax_custom_vjp3` enabled. `checkpoint` computes `fwd` and
        `rem` again.
        """
        for rule in (fwd, rem, bwd):
            check_callable(rule)
        self.remat_rules = after_rematerializing(fwd, rem), bwd
        self.generic_batching = generic_batching

    def defremat_with_logs(
        self,
        fwd: Callable[..., Any],
        rem: Callable[..., Any],
        bwd: Callable[..., Any],
        generic_batching: bool = False,
    ) -> None:
        """Set rules as `defremat`, with a `bwd` that logs: see `defvjp_with_logs`."""
        self.defremat(fwd, rem, logging_rule(bwd), generic_batching)

    def _take_remat_rules(self) -> None:
        """Let the rules of `defremat` be those of the derivative."""
        if self.remat_rules is None or self.fwd is not None:
            return
        if not config.jax_custom_vjp3:
            raise NotImplementedError(
                "custom_vjp.defremat requires the jax_custom_vjp3 implementation,"
                " enabled with jax.config.update('jax_custom_vjp3', True)."
            )
        self.defvjp(*self.remat_rules, generic_batching=self.generic_batching)

    @api_boundary
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        self._take_remat_rules()
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
        rules = FlatVJP(self, fixed, in_tree, leaves, flat)
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
            self.generic_batching,
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
