"""Reductions along a named axis of `vmap`, `pmap` or `shard_map`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from curta import tree_util
from curta.api.arguments import as_result
from curta.api.signatures import T
from curta.core.avals import is_python_scalar
from curta.core.shapes import (
    canonicalize_axes,
)
from curta.core.trace import Tracer, operand_type, typeof
from curta.lax.control_flow.tracing import flat_arrays
from curta.lax.conversion import convert_element_type
from curta.lax.named_axes import (
    AxisName,
    Groups,
    checked_groups,
    group_size,
    is_unreduced,
    manual_names,
    require_bound,
    split_names,
)
from curta.lax.reduction import reduce_max, reduce_min
from curta.primitives.collective import (
    Pmax,
    Pmin,
    Psum,
    PsumInvariant,
)
from curta.primitives.structure import reduce_sum
from curta.primitives.unreduced import (
    UnreducedPsum,
)


def _reduced(
    make: Any,
    local: Callable[..., Any],
    x: Any,
    axis_name: AxisName,
    groups: Any,
) -> Any:
    """The leaves of `x` reduced, over dims of their own by `local`."""
    names, dims = split_names(axis_name)
    groups = checked_groups(names, groups)

    def leaf(v: Any) -> Any:
        operand_type(make.name, 0, v)
        require_bound(names, make.name)
        v = local(v, dims) if dims else v
        return make(names, groups)(v) if names else as_result(v)

    return tree_util.tree_map(leaf, x)


def psum(x: T, axis_name: AxisName, *, axis_index_groups: Groups = None) -> T:
    """The sum over the named axis, for each leaf of `x`.

    Args:
      x: a tree of arrays; a Python number gives that number times the axis size.
      axis_name: one name, or several; an int is a dim of `x`.
      axis_index_groups: lists of the indices that are summed with each other; all by
        default.

    Returns:
      A tree like `x`; integers for booleans.

    Raises:
      NameError: if an axis name is not bound.
      ValueError: for groups that do not cover all indices once, and dims not there.
      TypeError: if leaves are not arrays.

    >>> import curta, curta.numpy as jnp
    >>> share = lambda x: x / curta.lax.psum(x, "i")
    >>> curta.vmap(share, axis_name="i")(jnp.array([1.0, 3.0]))
    Array([0.25, 0.75], dtype=float32)
    """
    leaves, _ = flat_arrays(x)
    if not leaves:
        return x
    names, dims = split_names(axis_name)
    if not names and not dims:
        return x
    if any(isinstance(v, Tracer) for v in leaves):
        require_bound(names, "psum")
    groups = checked_groups(names, axis_index_groups)
    size = group_size(names, groups)
    manual = manual_names(names)
    rest = tuple(n for n in names if n not in manual)

    def leaf(v: Any) -> Any:
        if typeof(v).dtype == np.bool_:
            v = convert_element_type(v, np.int32)
        axes = canonicalize_axes(dims, typeof(v).ndim)
        if is_python_scalar(v):
            return v * size
        if is_unreduced(v, names, groups, "jax.lax.psum"):
            return UnreducedPsum(names)(v)
        if dims:
            v = reduce_sum(v, axes)
        if rest:
            v = Psum(rest, groups)(v)
        return PsumInvariant(manual, groups)(v) if manual else v

    return tree_util.tree_map(leaf, x)


def pmean(x: T, axis_name: AxisName, *, axis_index_groups: Any = None) -> T:
    """The mean over the named axis, for each leaf of `x`.

    Args:
      x: a tree of arrays.
      axis_name, axis_index_groups: as for `psum`.

    Returns:
      A tree like `x`; floats for integers.

    Raises:
      NameError, ValueError, TypeError: where `psum` does.

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x: curta.lax.pmean(x, "i"), axis_name="i")(jnp.arange(3.0))
    Array([1., 1., 1.], dtype=float32)
    """
    if any(isinstance(v, Tracer) for v in flat_arrays(x)[0]):
        require_bound(split_names(axis_name)[0], "pmean")
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    size = psum(1, axis_name, axis_index_groups=axis_index_groups)
    return tree_util.tree_map(lambda v: v / size, total)


def pmax(x: T, axis_name: AxisName, *, axis_index_groups: Any = None) -> T:
    """The largest along the named axis, for each leaf of `x`.

    Args:
      x: a tree of arrays.
      axis_name, axis_index_groups: as for `psum`.

    Returns:
      A tree like `x`.

    Raises:
      NameError, ValueError, TypeError: where `psum` does.

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x: curta.lax.pmax(x, "i"), axis_name="i")(jnp.arange(3.0))
    Array([2., 2., 2.], dtype=float32)
    """
    return _reduced(Pmax, reduce_max, x, axis_name, axis_index_groups)


def pmin(x: T, axis_name: AxisName, *, axis_index_groups: Any = None) -> T:
    """The smallest along the named axis, for each leaf of `x`.

    Args:
      x: a tree of arrays.
      axis_name, axis_index_groups: as for `psum`.

    Returns:
      A tree like `x`.

    Raises:
      NameError, ValueError, TypeError: where `psum` does.

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x: curta.lax.pmin(x, "i"), axis_name="i")(jnp.arange(3.0))
    Array([0., 0., 0.], dtype=float32)
    """
    return _reduced(Pmin, reduce_min, x, axis_name, axis_index_groups)
