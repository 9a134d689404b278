"""Shapes with dimension variables, from text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta import tree_util
from curta.core.dim import as_dim
from curta.core.shape_struct import ShapeDtypeStruct
from curta.core.symbolic.dims import DimExpr, parse_shape
from curta.core.symbolic.scope import SymbolicScope


def symbolic_shape(
    shape_spec: str | None,
    *,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
    like: Sequence[int | None] | None = None,
) -> tuple[Any, ...]:
    """The shape that a text describes.

    Args:
      shape_spec: dims with commas between them, in parentheses or not. A dim is an
        integer, a name (a dimension variable, at least 1), a sum, difference or
        product of dims, a power `a^2`, or `floordiv`, `mod`, `max`, `min` of two.
        `_` stands for a dim of `like`, `...` at the end (or None) for all its others.
      constraints: what is known of the variables; see `SymbolicScope`.
      scope: where the variables belong, in place of `constraints`; a new scope by
        default. Dims of different scopes do not mix.
      like: the shape that placeholders are filled from.

    Returns:
      A tuple of integers and symbolic dims.

    Raises:
      ValueError: if a string is not a shape, or does not fit `like`.

    >>> from curta import export
    >>> batch, length = export.symbolic_shape("batch, 2*n", constraints=["n <= 64"])
    >>> batch, length, 3 * length // 2, length >= 2
    (batch, 2*n, 3*n, True)
    """
    if shape_spec is not None and not isinstance(shape_spec, str):
        raise ValueError(
            f"polymorphic shape spec should be None or a string. Found {shape_spec!r}."
        )
    text = "..." if shape_spec is None else shape_spec
    return parse_shape(text, repr(shape_spec), _scope(scope, constraints), like)


def _is_none(x: Any) -> bool:
    return x is None


def _scope(scope: SymbolicScope | None, constraints: Sequence[str]) -> SymbolicScope:
    if scope is None:
        return SymbolicScope(constraints)
    if constraints:
        raise ValueError(
            "Cannot specify both a `scope` and `constraints`. Give the constraints to"
            " the scope."
        )
    return scope


def symbolic_args_specs(
    args: Any,
    shapes_specs: Any,
    constraints: Sequence[str] = (),
    scope: SymbolicScope | None = None,
) -> Any:
    """The types of arguments, with shapes from text, for `export`.

    Args:
      args: a pytree of arrays, or of anything with shape and dtype.
      shapes_specs: None, a string, or a tree of strings that is a prefix of `args`; see
        `symbolic_shape`. Placeholders are filled from `args`.
      constraints, scope: as in `symbolic_shape`; all strings share the scope.

    Returns:
      The tree `args` with a `ShapeDtypeStruct` for each array.

    Raises:
      ValueError: if a string is not a shape, or trees do not fit.

    >>> import curta.numpy as jnp
    >>> from curta import export
    >>> export.symbolic_args_specs((jnp.ones((2, 3)), jnp.ones(3)), ("b, n", "n"))[0]
    ShapeDtypeStruct(shape=(b, n), dtype=float32)
    """
    leaves, tree = tree_util.tree_flatten(args)
    if isinstance(args, tuple) and isinstance(shapes_specs, list):
        shapes_specs = tuple(shapes_specs)
    try:
        texts = tree_util.broadcast_prefix(shapes_specs, args, _is_none)
    except ValueError as error:
        mismatch = tree_util.prefix_errors(shapes_specs, args, _is_none)[0]
        raise mismatch("export.symbolic_args_specs shapes_specs") from error
    scope = _scope(scope, constraints)
    specs = []
    for leaf, text in zip(leaves, texts, strict=True):
        given = leaf if hasattr(leaf, "shape") else ShapeDtypeStruct.like(leaf)
        shape = symbolic_shape(text, scope=scope, like=given.shape)
        specs.append(ShapeDtypeStruct(shape, given.dtype))
    return tree_util.tree_unflatten(tree, specs)


def symbolic_dim_bounds(dimension: Any) -> tuple[float, float]:
    """Numbers between which a dim surely lies, both included; they may lie too far.

    Infinite ones say that nothing is known.

    >>> from curta import export
    >>> a, b = export.symbolic_shape("a, b", constraints=["a >= 3", "b <= 7"])
    >>> export.symbolic_dim_bounds(a), export.symbolic_dim_bounds(b % 4)
    ((3, inf), (0, 3))
    >>> export.symbolic_dim_bounds(5)
    (5, 5)
    """
    dim = as_dim(dimension)
    if not isinstance(dim, DimExpr):
        return dim, dim
    return dim.scope.bounds(dim.poly)
