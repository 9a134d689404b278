"""Functions along a named axis of `vmap` or `pmap`."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import tree_util
from curta.api.arguments import as_result
from curta.api.signatures import T
from curta.core.array import Array
from curta.core.avals import is_python_scalar
from curta.core.mesh import get_abstract_mesh
from curta.core.shapes import (
    canonicalize_axes,
    canonicalize_axis,
    dim_of,
    integer,
)
from curta.core.trace import Tracer, current_trace, operand_type, typeof
from curta.lax.arithmetic import max
from curta.lax.control_flow.tracing import flat_arrays
from curta.lax.conversion import convert_element_type
from curta.lax.indexing import dynamic_index_in_dim
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
    split_names,
    state,
)
from curta.lax.reduction import reduce_max, reduce_min
from curta.lax.selection import select
from curta.primitives.collective import (
    AxisIndex,
    Pmax,
    Pmin,
    Psum,
    PsumInvariant,
    PVary,
)
from curta.primitives.exchange import (
    AllGather,
    AllGatherInvariant,
    AllToAll,
    Pbroadcast,
    Ppermute,
    PsumScatter,
)
from curta.primitives.structure import Reshape, Transpose, full, reduce_sum
from curta.primitives.unreduced import (
    AllGatherReduced,
    Preduced,
    ReducedVaryCast,
    UnreducedPsum,
    UnreducedReduceScatter,
    VaryUnreducedCast,
    require_varying,
)


def _reduced(
    make: Callable[..., Any],
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
      axis_index_groups: lists of the indices that are summed with each other.

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

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x: curta.lax.pmean(x, "i"), axis_name="i")(jnp.arange(3.0))
    Array([1., 1., 1.], dtype=float32)
    """
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    size = psum(1, axis_name, axis_index_groups=axis_index_groups)
    return tree_util.tree_map(lambda v: v / size, total)


def pmax(x: T, axis_name: AxisName, *, axis_index_groups: Any = None) -> T:
    """The largest along the named axis, for each leaf of `x`.

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x: curta.lax.pmax(x, "i"), axis_name="i")(jnp.arange(3.0))
    Array([2., 2., 2.], dtype=float32)
    """
    return _reduced(Pmax, reduce_max, x, axis_name, axis_index_groups)


def pmin(x: T, axis_name: AxisName, *, axis_index_groups: Any = None) -> T:
    """The smallest along the named axis, for each leaf of `x`.

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x: curta.lax.pmin(x, "i"), axis_name="i")(jnp.arange(3.0))
    Array([0., 0., 0.], dtype=float32)
    """
    return _reduced(Pmin, reduce_min, x, axis_name, axis_index_groups)


def axis_index(axis_name: AxisName) -> Array:
    """The place of the example along the named axis, an int32 scalar.

    >>> import curta, curta.numpy as jnp
    >>> curta.vmap(lambda x: curta.lax.axis_index("i"), axis_name="i")(jnp.ones(3))
    Array([0, 1, 2], dtype=int32)
    """
    require_bound(axis_name, "axis_index")
    names = names_of(axis_name)
    varying = manual_names(names)
    index: Any = as_result(0)
    for k, name in enumerate(names):
        place = AxisIndex(name, name in varying)()
        index = index * axis_size(name) + place if k else place
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
      to: in a `shard_map`, whether the result counts as "varying", as "invarying", or
        as "reduced": its cotangent is then left to be summed.

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
    """The sum over the named axis, of which each example gets one slice.

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


def ppermute(x: T, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> T:
    """Values handed from example to example.

    Args:
      x: a tree of arrays.
      axis_name: the axis; of several, the first varies slowest.
      perm: pairs of source and destination; those that get nothing have zeros.

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
        found = [pair[k] for pair in pairs]
        if len(set(found)) != len(found) or not all(0 <= i < size for i in found):
            raise ValueError(
                f"ppermute sources and destinations must be unique and below the axis"
                f" size {size}, got {what} {found}"
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
    found = dynamic_index_in_dim(rows, max(mine, np.int32(0)), 0, False)
    return select(mine >= 0, found, full(typeof(found).unplaced(), 0))


def pshuffle(x: T, axis_name: AxisName, perm: Sequence[int]) -> T:
    """`ppermute` with destination i taking from `perm[i]`.

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
    places = np.unravel_index(source, [axis_size(n) for n in names])

    def leaf(v: Any) -> Any:
        for name, place in zip(names, places, strict=True):
            v = Pbroadcast((name,), int(place))(v)
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
        return AllToAll(names, size, split, concat, tiled, groups)(v)

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
        x = AllToAll((name,), sizes[k], at, at, False)(x)
    # The dims of the senders go in front of the dim to which they are joined.
    senders = [*range(split, split + count)]
    others = [d for d in range(typeof(x).ndim) if d not in senders]
    order = [*others[:concat], *senders, *others[concat:]]
    x = Transpose(tuple(order))(x)
    return _merged(x, concat, count + tiled)


def pswapaxes(
    x: T, axis_name: AxisName, axis: int, *, axis_index_groups: Groups = None
) -> T:
    """The named axis and an axis of `x` exchanged.

    >>> import curta, curta.numpy as jnp
    >>> swap = lambda x: curta.lax.pswapaxes(x, "i", 0)
    >>> curta.vmap(swap, axis_name="i")(jnp.arange(4).reshape(2, 2))
    Array([[0, 2],
           [1, 3]], dtype=int32)
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def pvary(x: T, axis_name: AxisName) -> T:
    """In a `shard_map`, a value that is the same for all shards as one that varies.

    Derivatives are summed over the shards then. Raises ValueError elsewhere.

    >>> import curta
    >>> from curta import lax, numpy as jnp, P
    >>> mesh = curta.make_mesh((1,), ("i",))
    >>> @curta.shard_map(mesh=mesh, in_specs=P(), out_specs=P("i"))
    ... def spread(x):
    ...     return lax.pvary(x, "i")
    >>> spread(jnp.arange(2))
    Array([0, 1], dtype=int32)
    """
    return pcast(x, names_of(axis_name), to="varying")


def pcast(x: T, axis_name: AxisName, *, to: str) -> T:
    """In a `shard_map`, a value that relates to named axes in another way.

    Args:
      x: a tree of arrays.
      axis_name: one name, or a tuple of them.
      to: "varying", each shard's own value; "unreduced", of a value that varies the
        sum over the shards; "reduced", the same for all shards, with a cotangent that
        is such a sum.

    Raises ValueError for other kinds, and for values that cannot be cast so.

    >>> import curta
    >>> from curta import lax, numpy as jnp, P
    >>> mesh = curta.make_mesh((1,), ("i",))
    >>> @curta.shard_map(mesh=mesh, in_specs=P(), out_specs=P("i"))
    ... def spread(x):
    ...     return lax.pcast(x, "i", to="varying")
    >>> spread(jnp.arange(2))
    Array([0, 1], dtype=int32)
    """
    if isinstance(axis_name, (set, frozenset)):
        raise TypeError(f"{axis_name=} must be a tuple or a str. Got {axis_name}")
    if not axis_name:
        return x
    if to not in ("varying", "unreduced", "reduced"):
        raise ValueError(
            "Got unexpected `to` value. Allowed `to` values are: 'varying',"
            f" 'unreduced', 'reduced'; got {to!r}"
        )
    names = names_of(axis_name)
    manual = manual_names(names)

    def leaf(v: Any) -> Any:
        before = state(v, manual, "jax.lax.pcast") if manual else "invarying"
        op = _CASTS.get((before, to))
        if op is None:
            raise ValueError(
                f"Unsupported pcast from={before}, to={to!r} of {typeof(v)} over"
                f" {names}"
            )
        if current_trace().is_evaluating():
            raise ValueError(f"{op.name} should be called under jax.shard_map.")
        require_bound(names, "pcast")
        if other := {*names} - {*get_abstract_mesh().manual_axes}:
            raise ValueError(
                f"{op.name} should be called under jax.shard_map. These axes are of"
                f" another map: {other}"
            )
        return op(manual)(v) if manual else v

    return tree_util.tree_map(leaf, x)


_CASTS = {
    ("invarying", "varying"): PVary,
    ("reduced", "varying"): ReducedVaryCast,
    ("varying", "unreduced"): VaryUnreducedCast,
    ("invarying", "reduced"): Preduced,
}
