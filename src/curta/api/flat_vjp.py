"""The rules of `custom_vjp` on flat leaves, with their outputs checked."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes, tree_util
from curta.api.arguments import as_result
from curta.api.backward_rules import accumulated
from curta.api.custom_function import PrimalFunction
from curta.config import config, enable_x64
from curta.control.custom_jvp import SymbolicZero
from curta.control.custom_vjp import Backward
from curta.core.avals import typed
from curta.core.flat import function_name
from curta.core.refs import Ref, refuse_custom_refs
from curta.core.tangents import Zero
from curta.core.trace import typeof


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


class FlatVJP:
    """A user's forward and backward rule on flat leaves, with their outputs checked."""

    def __init__(
        self,
        owner: Any,
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
                typeof(x)  # TypeError if it is not an array
        refuse_custom_refs(f"fwd function {rule}", outs)
        refuse_custom_refs(f"fwd function {rule}", residuals, self.given(primals))
        trees = residual_tree, self.out_tree
        bwd = functools.partial(self.backward, *trees, tuple(perturbed))
        return outs, residuals, bwd

    def given(self, primals: Sequence[Any]) -> list[Any]:
        """The values of the arguments of a forward rule."""
        return [x.value if isinstance(x, CustomVJPPrimal) else x for x in primals]

    def backward(
        self,
        residual_tree: Any,
        out_tree: Any,
        perturbed: Sequence[bool],
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
            if owner.with_accums:
                given = *self.fixed, res, ct
                where = self.in_tree, self.avals, perturbed
                return accumulated(owner.bwd, given, *where)
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
