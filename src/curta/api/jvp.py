"""Forward-mode differentiation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

from curta import dtypes, tree_util
from curta.api.arguments import as_result, check_callable
from curta.api.linearized import FlatWithAux
from curta.api.signatures import Aux, R
from curta.core.array import Array
from curta.core.avals import ShapedArray, typed, untyped
from curta.core.source_info import Transforming
from curta.core.tangents import Zero
from curta.core.trace import typeof
from curta.core.tracebacks import api_boundary
from curta.primitives.structure import instantiate
from curta.transforms.jvp import jvp as jvp_flat
from curta.tree.mismatch import first_difference


@overload
def jvp(
    fun: Callable[..., R],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[False] = ...,
) -> tuple[R, R]: ...
@overload
def jvp(
    fun: Callable[..., tuple[R, Aux]],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: Literal[True],
) -> tuple[R, R, Aux]: ...
@overload
def jvp(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool,
) -> tuple[Any, ...]: ...
@api_boundary
def jvp(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
) -> Any:
    """Return the output of `fun` at `primals`, and its derivative along `tangents`.

    Args:
      fun: function of pytrees of arrays.
      primals: its positional arguments, a tuple or list.
      tangents: a tuple or list of the same structure and shapes, and of the dtypes of
        `primals`; float0 for those that are integers or booleans.
      has_aux: whether `fun` returns a pair whose second part is passed through.

    Returns:
      `(out, out_tangent)`, or `(out, out_tangent, aux)` with `has_aux`. The tangent is
      like the output in structure, shapes and dtypes.

    Raises:
      TypeError: if `fun` is not callable, primals or tangents are not a tuple or list,
        they differ in structure or dtype, or `fun` returns no pair despite `has_aux`.
      ValueError: if they differ in shape.

    >>> import curta
    >>> curta.jvp(lambda x: x**2, (3.0,), (1.0,))
    (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
    """
    check_callable(fun)
    if not isinstance(primals, (tuple, list)) or not isinstance(
        tangents, (tuple, list)
    ):
        raise TypeError(
            "primal and tangent arguments to jax.jvp must be tuples or lists; found"
            f" {type(primals).__name__} and {type(tangents).__name__}."
        )
    leaves, in_tree = tree_util.tree_flatten(tuple(primals))
    tangent_leaves, tangent_tree = tree_util.tree_flatten(tuple(tangents))
    if in_tree != tangent_tree or type(primals) is not type(tangents):
        raise TypeError(
            "primal and tangent arguments to jax.jvp must have the same tree"
            f" structure; primals have tree structure"
            f" {tree_util.tree_structure(primals)} whereas tangents have tree structure"
            f" {tree_util.tree_structure(tangents)}"
            f"{first_difference(in_tree, tangent_tree)}."
        )
    for p, t in zip(leaves, tangent_leaves, strict=True):
        _check_tangent(typeof(p), typeof(t))
    flat = FlatWithAux(fun, in_tree, has_aux)
    seeds = [
        Zero(typeof(t)) if _is_empty(typeof(t)) else typed(t) for t in tangent_leaves
    ]
    with Transforming("jvp"):
        outs, out_tangents = jvp_flat(flat, list(map(typed, leaves)), seeds)
    count = len(outs) - flat.aux_count

    shown = list(map(_shown, outs[:count]))
    result = tuple(
        tree_util.tree_unflatten(flat.out_tree, leaves)
        for leaves in (shown, list(map(_shown_tangent, shown, out_tangents)))
    )
    if not has_aux:
        return result
    aux = tree_util.tree_unflatten(flat.aux_tree, flat.aux(outs[count:]))
    return (*result, aux)


def _shown(x: Any) -> Any:
    """A result as the user gets it: an array, or the number that was given."""
    return as_result(instantiate(x)) if type(x) is Zero else untyped(x)


def _shown_tangent(primal: Any, tangent: Any) -> Any:
    """The tangent of a result: that of an array is one, though it was a number."""
    shown = _shown(tangent)
    return as_result(shown) if isinstance(primal, Array) else shown


def _check_tangent(primal: ShapedArray, tangent: ShapedArray) -> None:
    expected = primal.to_tangent_aval()
    if expected.is_high or tangent.is_high:
        if expected != tangent:
            raise TypeError(
                "primal and tangent arguments to jax.jvp do not match: expected a"
                f" tangent of type {expected.str_short()}, got {tangent.str_short()}"
            )
        return
    if tangent.dtype != expected.dtype:
        raise TypeError(
            "primal and tangent arguments to jax.jvp do not match; dtypes must be"
            " equal, or in case of int/bool primal dtype the tangent dtype must be"
            f" float0.Got primal dtype {primal.dtype} and so expected tangent dtype"
            f" {_name(expected.dtype)}, but got tangent dtype {_name(tangent.dtype)}"
            " instead."
        )
    if tangent.shape != primal.shape:
        raise ValueError(
            "jvp called with different primal and tangent shapes;Got primal shape"
            f" {primal.shape} and tangent shape as {tangent.shape}"
        )


def _is_empty(aval: Any) -> bool:
    """Return True if values of a type have no elements: the tangents of integers."""
    return not aval.is_high and bool(aval.dtype == dtypes.float0)


def _name(dtype: Any) -> str:
    return "float0" if dtype == dtypes.float0 else str(dtype)
