"""Functions along a named axis of `vmap` or `pmap`."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import tree_util
from curta.api.arguments import as_result
from curta.api.signatures import T
from curta.core.array import Array
from curta.core.mesh_scope import get_abstract_mesh
from curta.core.shapes import (
    canonicalize_axis,
    dim_of,
    integer,
)
from curta.core.trace import operand_type, typeof
from curta.lax.arithmetic import max
from curta.lax.dynamic_slices import dynamic_index_in_dim
from curta.lax.named_axes import (
    AxisName,
    Groups,
    axis_size,
    checked_groups,
    group_size,
    is_unreduced,
    manual_names,
    names_of,
    require_bound,
)
from curta.lax.selection import select
from curta.primitives.collective import (
    AxisIndex,
)
from curta.primitives.exchange import (
    AllGather,
    AllGatherInvariant,
    AllToAll,
    Pbroadcast,
    Ppermute,
    PsumScatter,
)
from curta.primitives.structure import Reshape, Transpose, full
from curta.primitives.unreduced import (
    AllGatherReduced,
    UnreducedReduceScatter,
    require_varying,
)


def axis_index(axis_name: AxisName) -> Array:
    """The index of the example along the named axis, an int32 scalar.

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x: curta.lax.axis_index("i"), axis_name="i")(jnp.ones(3))
    Array([0, 1, 2], dtype=int32)
    """
    require_bound(axis_name, "axis_index")
    names = names_of(axis_name)
    varying = manual_names(names)
    index: Any = as_result(0)
    for k, name in enumerate(names):
        number = AxisIndex(name, name in varying)()
        index = index * axis_size(name) + number if k else number
    return index


def all_gather(
    x: T,
    axis_name: AxisName,
    *,
    axis_index_groups: Groups = None,
    axis: int = 0,
    tiled: bool = False,
    to: str = "varying",
) -> T:
    """The values of all examples, stacked along a new axis (or `tiled`, joined).

    Args:
      x: a tree of arrays.
      axis_name: one name, or several; the index along the first varies slowest.
      axis_index_groups: lists of the indices that gather from each other.
      axis: the position of the new dim in the result; first by default.
      tiled: join them along an existing axis.
      to: in a `shard_map`, whether the result counts as "varying", as "invarying", or
        as "reduced": its cotangent is then left to be summed.

    Returns:
      A tree like `x`, each array with one more dim, or with a greater one.

    Raises:
      NameError: if an axis name is not bound.
      ValueError: if the groups do not cover every index once, `axis` is out of range,
        or `to` is unknown or used outside of a `shard_map`.

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x: curta.lax.all_gather(x, "i"), axis_name="i")(jnp.arange(2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    if to not in _GATHERS:
        raise ValueError(
            "Got unexpected `to` value for `jax.lax.all_gather`. Allowed `to` values"
            f" are: {', '.join(map(repr, _GATHERS))}; got {to!r}"
        )
    names = names_of(axis_name)
    if not names:
        return x
    groups = checked_groups(names, axis_index_groups)
    kind = _GATHERS[to] if manual_names(names) else AllGather
    axis_size(names)
    if to == "invarying" and {*names} - {*get_abstract_mesh().manual_axes}:
        raise ValueError(
            "pvary should be called under jax.shard_map. There alone can all_gather"
            f" give results that are the same for all of {names}."
        )

    def leaf(v: Any) -> Any:
        if to == "reduced":
            require_varying(typeof(v), frozenset(names))
        rank = operand_type(kind.name, 0, v).ndim
        dim = canonicalize_axis(axis, rank + (not tiled))
        out = v
        for name in reversed(names):
            size = group_size(name, groups)
            out = kind((name,), size, dim, tiled, groups)(out)
        return out if tiled else _merged(out, dim, len(names))

    return tree_util.tree_map(leaf, x)


_GATHERS = {
    "varying": AllGather,
    "reduced": AllGatherReduced,
    "invarying": AllGatherInvariant,
}


def _merged(x: Any, dim: int, count: int) -> Any:
    """`count` dims from `dim` on as one."""
    if count == 1:
        return x
    shape = typeof(x).shape
    size = math.prod(shape[dim : dim + count])
    return Reshape((*shape[:dim], size, *shape[dim + count :]))(x)


def _parted(x: Any, dim: int, sizes: Sequence[int]) -> Any:
    """Dim `dim` as several dims."""
    shape = typeof(x).shape
    return Reshape((*shape[:dim], *sizes, *shape[dim + 1 :]))(x)


def psum_scatter(
    x: T,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> T:
    """Sum over the named axis and give each example one slice of the result.

    Args:
      x: a tree of arrays.
      axis_name: one name, or several.
      scatter_dimension: the dim that is cut; 0 by default.
      axis_index_groups: lists of the indices that are summed with each other.
      tiled: if True, slices keep the dim, and its size is divided by the size of the
        axis. Otherwise the dim has the size of the axis and is dropped.

    Returns:
      A tree like `x`, of slices.

    Raises:
      NameError: if an axis name is not bound.
      ValueError: if a dim has another size.
      IndexError: if a dim is out of range.

    >>> import curta, curta.numpy as jnp
    >>> scatter = lambda x: curta.lax.psum_scatter(x, "i")
    >>> curta.vmap(scatter, axis_name="i")(jnp.arange(4).reshape(2, 2))
    Array([2, 4], dtype=int32)
    """
    names = names_of(axis_name)
    if not names:
        return x
    tree_util.tree_map(functools.partial(operand_type, "psum_scatter", 0), x)
    groups = checked_groups(names, axis_index_groups)
    total = group_size(names, groups)

    def leaf(v: Any) -> Any:
        shape = typeof(v).shape
        dim = dim_of("psum_scatter scatter_dimension", scatter_dimension, shape)
        if tiled and shape[dim] % total:
            raise ValueError(
                f"tiled reduce_scatter operand scatter dimension size {shape[dim]} must"
                f" be divisible by shard_count {total}"
            )
        if not tiled and shape[dim] != total:
            raise ValueError(
                f"reduce_scatter operand scatter dimension size {shape[dim]} must match"
                f" shard count {total}"
            )
        if not tiled and len(names) > 1:
            v = _parted(v, dim, [axis_size(n) for n in names])
        unreduced = is_unreduced(v, names, groups, "jax.lax.psum_scatter")
        kind = UnreducedReduceScatter if unreduced else PsumScatter
        for name in names:
            v = kind((name,), group_size(name, groups), dim, tiled, groups)(v)
        return v

    return tree_util.tree_map(leaf, x)


class Future:
    """The result of a collective that was started; `done()` is the array.

    It has the `shape` and `dtype` of the array.
    """

    def __init__(self, value: Any):
        self._value = value

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the array's dims."""
        shape: tuple[Any, ...] = typeof(self._value).shape
        return shape

    @property
    def dtype(self) -> Any:
        """The dtype of the array."""
        return typeof(self._value).dtype

    def done(self) -> Any:
        """The array, after the collective."""
        return self._value


def psum_scatter_start(
    x: Any,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> Any:
    """Start a `psum_scatter`; `done()` of each result is the array.

    The collective is one op, which runs in the order of the program: nothing runs at
    the same time here.

    Args:
      x: a tree of arrays.
      axis_name, scatter_dimension, axis_index_groups: as for `psum_scatter`.
      tiled: must be True, as in JAX.

    Returns:
      A tree like `x`, with a `Future` for each array.

    Raises:
      NotImplementedError: `tiled` is False.
      NameError: an axis name is not bound.
      ValueError: a dim has another size.
      IndexError: a dim is out of range.

    >>> import curta, curta.numpy as jnp
    >>> start = lambda x: curta.lax.psum_scatter_start(x, "i", tiled=True).done()
    >>> curta.vmap(start, axis_name="i")(jnp.arange(4).reshape(2, 2))
    Array([[2],
           [4]], dtype=int32)
    """
    if not tiled:
        raise NotImplementedError("psum_scatter_start takes only tiled=True.")
    out = psum_scatter(
        x,
        axis_name,
        scatter_dimension=scatter_dimension,
        axis_index_groups=axis_index_groups,
        tiled=True,
    )
    return tree_util.tree_map(Future, out)


def ppermute(x: T, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> T:
    """Values handed from example to example.

    Args:
      x: a tree of arrays.
      axis_name: the axis; of several, the first varies slowest.
      perm: pairs of source and destination; those that get nothing have zeros.

    Returns:
      A tree like `x`.

    Raises:
      NameError: if an axis name is not bound.
      ValueError: if sources or destinations are not unique or not there.
      TypeError: if those are not integers.

    >>> import curta, curta.numpy as jnp
    >>> shift = lambda x: curta.lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)])
    >>> curta.vmap(shift, axis_name="i")(jnp.arange(3))
    Array([2, 0, 1], dtype=int32)
    """
    require_bound(axis_name, "ppermute")
    names = names_of(axis_name)
    size = axis_size(names)
    pairs = tuple(tuple(integer("ppermute perm", i) for i in pair) for pair in perm)
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(
            f"ppermute perm must be pairs (source, destination), got {perm}"
        )
    for k, what in enumerate(("sources", "destinations")):
        result = [pair[k] for pair in pairs]
        if len(set(result)) != len(result) or not all(0 <= i < size for i in result):
            raise ValueError(
                f"ppermute sources and destinations must be unique and below the axis"
                f" size {size}, got {what} {result}"
            )
    if len(names) == 1:
        return tree_util.tree_map(Ppermute(names, pairs), x)
    return tree_util.tree_map(lambda v: _permuted(v, names, pairs), x)


def _permuted(x: Any, names: tuple[Any, ...], pairs: Sequence[Any]) -> Any:
    """`ppermute` along several axes: all values gathered, one chosen."""
    rows = all_gather(x, names)
    source = np.full(axis_size(names), -1, np.int32)
    for s, t in pairs:
        source[t] = s
    mine = dynamic_index_in_dim(np.asarray(source), axis_index(names), 0, False)
    result = dynamic_index_in_dim(rows, max(mine, np.int32(0)), 0, False)
    return select(mine >= 0, result, full(typeof(result).unplaced(), 0))


def pshuffle(x: T, axis_name: AxisName, perm: Sequence[int]) -> T:
    """`ppermute` with destination i taking from `perm[i]`.

    Args:
      x: a tree of arrays.
      axis_name: the axis; of several, the first varies slowest.
      perm: a permutation of the indices.

    Returns:
      A tree like `x`.

    Raises:
      NameError: if an axis name is not bound.
      ValueError: if the argument is not a permutation.

    >>> import curta, curta.numpy as jnp
    >>> shuffle = lambda x: curta.lax.pshuffle(x, "i", [2, 0, 1])
    >>> curta.vmap(shuffle, axis_name="i")(jnp.arange(3))
    Array([2, 0, 1], dtype=int32)
    """
    if set(perm) != set(range(len(perm))):
        raise ValueError(f"`perm` does not represent a permutation: {perm}")
    return ppermute(x, axis_name, [(s, t) for t, s in enumerate(perm)])


def pbroadcast(x: T, axis_name: AxisName, source: int) -> T:
    """The value of the example number `source`, for all.

    Args:
      x: a tree of arrays.
      axis_name: the axis; of several, the first varies slowest.
      source: a known integer.

    Returns:
      A tree like `x`.

    Raises:
      NameError: if an axis name is not bound.
      ValueError: if the example is out of range.
      TypeError: if an argument is not an integer.

    >>> import curta, curta.numpy as jnp
    >>> first = lambda x: curta.lax.pbroadcast(x, "i", 1)
    >>> curta.vmap(first, axis_name="i")(jnp.arange(3))
    Array([1, 1, 1], dtype=int32)
    """
    names = names_of(axis_name)
    require_bound(names, "pbroadcast")
    size = axis_size(names)
    if not 0 <= integer("pbroadcast source", source) < size:
        raise ValueError(
            f"pbroadcast source {source} is not below the axis size {size}"
        )
    coordinates = np.unravel_index(source, [axis_size(n) for n in names])

    def leaf(v: Any) -> Any:
        for name, coordinate in zip(names, coordinates, strict=True):
            v = Pbroadcast((name,), int(coordinate))(v)
        return v

    return tree_util.tree_map(leaf, x)


def all_to_all(
    x: T,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Groups = None,
    tiled: bool = False,
) -> T:
    """Slices along `split_axis` handed out; what comes in stacked at `concat_axis`.

    Args:
      x: a tree of arrays.
      axis_name: one name, or several; the index along the first varies slowest.
      split_axis: the dim that is cut, as large as the named axis.
      concat_axis: the dim along which received slices are stacked.
      axis_index_groups: lists of the indices that exchange with each other.
      tiled: if True, both dims stay, and the size of `split_axis` is a multiple of the
        axis.

    Returns:
      A tree like `x`.

    Raises:
      NameError: if an axis name is not bound.
      ValueError: if a dim has another size or `concat_axis` is not there.
      IndexError: if `split_axis` is not there.

    >>> import curta, curta.numpy as jnp
    >>> swap = lambda x: curta.lax.all_to_all(x, "i", 0, 0)
    >>> curta.vmap(swap, axis_name="i")(jnp.arange(4).reshape(2, 2))
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    names = names_of(axis_name)
    groups = checked_groups(names, axis_index_groups)
    size = group_size(names, groups)

    def leaf(v: Any) -> Any:
        shape = typeof(v).shape
        split = dim_of("all_to_all split_axis", split_axis, shape)
        concat = canonicalize_axis(concat_axis, len(shape))
        if tiled and shape[split] % size:
            raise ValueError(
                f"The size of all_to_all split_axis ({shape[split]}) has to be"
                f" divisible by the size of the named axis {axis_name} ({size})"
            )
        if not tiled and shape[split] != size:
            raise ValueError(
                "all_to_all requires the size of the mapped axis axis_name to equal"
                f" x.shape[split_axis], but they are {size} and {shape[split]}"
                " respectively."
            )
        if len(names) > 1:
            return _all_to_all(v, names, split, concat, tiled)
        return AllToAll(names, split, concat, tiled, groups)(v)

    return tree_util.tree_map(leaf, x)


def _all_to_all(
    x: Any, names: Sequence[Any], split: int, concat: int, tiled: bool
) -> Any:
    """`all_to_all` along several axes, one after the other."""
    sizes = [axis_size(n) for n in names]
    count = len(sizes)
    rest = [typeof(x).shape[split] // math.prod(sizes)] if tiled else []
    x = _parted(x, split, [*sizes, *rest])
    for k, name in enumerate(names):
        at = split + k
        x = AllToAll((name,), at, at, False)(x)
    # Move the dims over senders in front of `concat`, with which they are merged.
    senders = [*range(split, split + count)]
    others = [d for d in range(typeof(x).ndim) if d not in senders]
    order = [*others[:concat], *senders, *others[concat:]]
    x = Transpose(tuple(order))(x)
    return _merged(x, concat, count + tiled)


def pswapaxes(
    x: T, axis_name: AxisName, axis: int, *, axis_index_groups: Groups = None
) -> T:
    """The named axis and an axis of `x` exchanged.

    Args:
      x: a tree of arrays.
      axis_name: the name.
      axis: the dim, as large as the named axis.
      axis_index_groups: lists of the indices that exchange with each other.

    Returns:
      A tree like `x`.

    Raises:
      NameError, ValueError, IndexError: where `all_to_all` does.

    >>> import curta, curta.numpy as jnp
    >>> swap = lambda x: curta.lax.pswapaxes(x, "i", 0)
    >>> curta.vmap(swap, axis_name="i")(jnp.arange(4).reshape(2, 2))
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)
