"""Functions along a named axis of `vmap` or `pmap`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import tree_util
from curta.core.avals import is_python_scalar
from curta.core.trace import current_trace, typeof
from curta.primitives.collective import (
    AllGather,
    AllToAll,
    AxisIndex,
    Pmax,
    Pmin,
    Ppermute,
    Psum,
    PsumScatter,
)

AxisName = Any


def _names(axis_name: AxisName) -> tuple[Any, ...]:
    return tuple(axis_name) if isinstance(axis_name, (tuple, list)) else (axis_name,)


def axis_size(axis_name: AxisName) -> int:
    """The number of examples along the named axis.

    Raises NameError if no enclosing map has that name.

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x: x * curta.lax.axis_size("i"), axis_name="i")(jnp.ones(2))
    Array([2., 2.], dtype=float32)
    """
    sizes = current_trace().axis_sizes()
    for name in _names(axis_name):
        if name not in sizes:
            raise NameError(
                f"unbound axis name: {name}. Call the function under vmap or pmap with"
                f" axis_name={name!r}."
            )
    return math.prod(sizes[name] for name in _names(axis_name))


def _refuse_groups(groups: Any) -> None:
    if groups is not None:
        raise NotImplementedError(
            "axis_index_groups not supported in vmap collectives: split the axis into"
            " two named ones instead"
        )


def _reduced(make: Callable[..., Any], x: Any, axis_name: AxisName, groups: Any) -> Any:
    _refuse_groups(groups)
    axis_size(axis_name)
    op = make(_names(axis_name))
    return tree_util.tree_map(op, x)


def psum(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The sum over the named axis, for each leaf of `x`.

    Args:
      x: a tree of arrays; a Python number gives that number times the axis size.
      axis_name: one name, or several.

    >>> import curta, curta.numpy as jnp
    >>> share = lambda x: x / curta.lax.psum(x, "i")
    >>> curta.vmap(share, axis_name="i")(jnp.array([1.0, 3.0]))
    Array([0.25, 0.75], dtype=float32)
    """
    size = axis_size(axis_name)
    _refuse_groups(axis_index_groups)
    op = Psum(_names(axis_name))

    def leaf(v: Any) -> Any:
        if is_python_scalar(v):
            return v * size
        return op(v if v.dtype != np.bool_ else v.astype("int32"))

    return tree_util.tree_map(leaf, x)


def pmean(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The mean over the named axis, for each leaf of `x`.

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x: curta.lax.pmean(x, "i"), axis_name="i")(jnp.arange(3.0))
    Array([1., 1., 1.], dtype=float32)
    """
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    size = axis_size(axis_name)
    return tree_util.tree_map(lambda v: v / size, total)


def pmax(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The largest along the named axis, for each leaf of `x`.

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x: curta.lax.pmax(x, "i"), axis_name="i")(jnp.arange(3.0))
    Array([2., 2., 2.], dtype=float32)
    """
    return _reduced(Pmax, x, axis_name, axis_index_groups)


def pmin(x: Any, axis_name: AxisName, *, axis_index_groups: Any = None) -> Any:
    """The smallest along the named axis, for each leaf of `x`.

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x: curta.lax.pmin(x, "i"), axis_name="i")(jnp.arange(3.0))
    Array([0., 0., 0.], dtype=float32)
    """
    return _reduced(Pmin, x, axis_name, axis_index_groups)


def axis_index(axis_name: AxisName) -> Any:
    """The place of the example along the named axis, an int32 scalar.

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x: curta.lax.axis_index("i"), axis_name="i")(jnp.ones(3))
    Array([0, 1, 2], dtype=int32)
    """
    axis_size(axis_name)
    index: Any = 0
    for name in _names(axis_name):
        index = index * axis_size(name) + AxisIndex(name)()
    return index


def all_gather(
    x: Any,
    axis_name: AxisName,
    *,
    axis_index_groups: Any = None,
    axis: int = 0,
    tiled: bool = False,
) -> Any:
    """The values of all examples, stacked along a new axis (or `tiled`, joined).

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x: curta.lax.all_gather(x, "i"), axis_name="i")(jnp.arange(2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    _refuse_groups(axis_index_groups)
    (name,) = _names(axis_name)
    size = axis_size(name)

    def leaf(v: Any) -> Any:
        rank = typeof(v).ndim + (not tiled)
        return AllGather((name,), size, axis % rank, tiled)(v)

    return tree_util.tree_map(leaf, x)


def psum_scatter(
    x: Any,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """The sum over the named axis, of which each example gets one slice.

    >>> import curta, curta.numpy as jnp
    >>> scatter = lambda x: curta.lax.psum_scatter(x, "i")
    >>> curta.vmap(scatter, axis_name="i")(jnp.arange(4).reshape(2, 2))
    Array([2, 4], dtype=int32)
    """
    _refuse_groups(axis_index_groups)
    (name,) = _names(axis_name)
    size = axis_size(name)

    def leaf(v: Any) -> Any:
        shape = typeof(v).shape
        dim = scatter_dimension % len(shape)
        if shape[dim] % size or (not tiled and shape[dim] != size):
            raise ValueError(
                f"psum_scatter scatters dimension {dim} of {typeof(v).str_short()} over"
                f" {size} examples: its size must be {size}, or with tiled=True a"
                " multiple of it"
            )
        return PsumScatter((name,), size, dim, tiled)(v)

    return tree_util.tree_map(leaf, x)


def ppermute(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Values handed from example to example.

    Args:
      x: a tree of arrays.
      axis_name: the axis.
      perm: pairs of source and destination; those that get nothing have zeros.

    >>> import curta, curta.numpy as jnp
    >>> shift = lambda x: curta.lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)])
    >>> curta.vmap(shift, axis_name="i")(jnp.arange(3))
    Array([2, 0, 1], dtype=int32)
    """
    (name,) = _names(axis_name)
    size = axis_size(name)
    pairs = tuple((int(s), int(t)) for s, t in perm)
    for k, what in enumerate(("sources", "destinations")):
        found = [pair[k] for pair in pairs]
        if len(set(found)) != len(found) or not all(0 <= i < size for i in found):
            raise ValueError(
                f"ppermute sources and destinations must be unique and below the axis"
                f" size {size}, got {what} {found}"
            )
    op = Ppermute((name,), pairs)
    return tree_util.tree_map(op, x)


def pshuffle(x: Any, axis_name: AxisName, perm: Sequence[int]) -> Any:
    """`ppermute` with destination i taking from `perm[i]`.

    >>> import curta, curta.numpy as jnp
    >>> shuffle = lambda x: curta.lax.pshuffle(x, "i", [2, 0, 1])
    >>> curta.vmap(shuffle, axis_name="i")(jnp.arange(3))
    Array([2, 0, 1], dtype=int32)
    """
    if set(perm) != set(range(len(perm))):
        raise ValueError(f"`perm` does not represent a permutation: {perm}")
    return ppermute(x, axis_name, [(s, t) for t, s in enumerate(perm)])


def all_to_all(
    x: Any,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Any = None,
    tiled: bool = False,
) -> Any:
    """Slices along `split_axis` handed out; what comes in stacked at `concat_axis`.

    >>> import curta, curta.numpy as jnp
    >>> swap = lambda x: curta.lax.all_to_all(x, "i", 0, 0)
    >>> curta.vmap(swap, axis_name="i")(jnp.arange(4).reshape(2, 2))
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    _refuse_groups(axis_index_groups)
    (name,) = _names(axis_name)
    size = axis_size(name)

    def leaf(v: Any) -> Any:
        shape = typeof(v).shape
        split, concat = split_axis % len(shape), concat_axis % len(shape)
        if shape[split] % size or (not tiled and shape[split] != size):
            raise ValueError(
                "all_to_all requires the size of the mapped axis axis_name to equal"
                f" x.shape[split_axis], but they are {size} and {shape[split]}"
                " respectively."
            )
        return AllToAll((name,), size, split, concat, tiled)(v)

    return tree_util.tree_map(leaf, x)


def pswapaxes(
    x: Any, axis_name: AxisName, axis: int, *, axis_index_groups: Any = None
) -> Any:
    """The named axis and an axis of `x` exchanged.

    >>> import curta, curta.numpy as jnp
    >>> swap = lambda x: curta.lax.pswapaxes(x, "i", 0)
    >>> curta.vmap(swap, axis_name="i")(jnp.arange(4).reshape(2, 2))
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)
