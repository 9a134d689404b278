"""Changing the shape of one array: reshaping, transposing, turning, repeating."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import lax
from curta.api.inner import inner_jit
from curta.numpy.arguments import (
    canonical_axis,
    canonical_shape,
    check_arraylike,
    concrete,
    concrete_index,
    ensure_arraylike,
    ensure_arraylikes,
    index_tuple,
    static_axes,
)
from curta.numpy.arithmetic import remainder
from curta.numpy.constructors import asarray
from curta.numpy.promotion import broadcast_to_shape, cast
from curta.numpy.selection import broadcast_all

# ---- shapes


def shape(a: Any) -> tuple[int, ...]:
    """The shape of an array or scalar.

    >>> from curta import numpy as jnp
    >>> jnp.shape(jnp.zeros((2, 3)))
    (2, 3)
    """
    return a.shape if hasattr(a, "shape") else ensure_arraylike("shape", a).shape


def ndim(a: Any) -> int:
    """The number of dimensions.

    >>> from curta import numpy as jnp
    >>> jnp.ndim(3.0)
    0
    """
    return a.ndim if hasattr(a, "ndim") else ensure_arraylike("ndim", a).ndim


def size(a: Any, axis: int | Sequence[int] | None = None) -> int:
    """The number of elements, or their number along some axes.

    >>> from curta import numpy as jnp
    >>> jnp.size(jnp.zeros((2, 3))), jnp.size(jnp.zeros((2, 3)), 0)
    (6, 2)
    """
    sizes = shape(a)
    axes = range(len(sizes)) if axis is None else index_tuple(axis)
    return math.prod(sizes[canonical_axis(i, len(sizes))] for i in axes)


def reshape(
    a: Any,
    shape: Any,
    order: str = "C",
    *,
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Any:
    """The elements in another shape; one dim may be -1, which is computed.

    `order` is "C" (the last index runs fastest) or "F" (the first). Raises TypeError
    if the sizes do not fit.

    >>> from curta import numpy as jnp
    >>> jnp.reshape(jnp.arange(6), (2, -1))
    Array([[0, 1, 2],
           [3, 4, 5]], dtype=int32)
    """
    a = ensure_arraylike("reshape", a)
    sizes = _known_sizes(a, shape)
    if order == "C":
        return lax.reshape(a, sizes)
    if order == "F":
        backwards = tuple(range(a.ndim))[::-1]
        return transpose(lax.reshape(a, sizes[::-1], backwards))
    if order == "A":
        raise NotImplementedError("np.reshape order=A is not implemented.")
    raise ValueError(f"Unexpected value for 'order' argument: {order}.")


def _known_sizes(a: Any, shape: Any) -> tuple[int, ...]:
    sizes = canonical_shape(shape)
    place = [i for i, d in enumerate(sizes) if d == -1]
    if len(place) > 1:
        raise TypeError(
            "can only specify one unknown axis size with a `-1` value, got"
            f" {shape if np.ndim(shape) else sizes}"
        )
    given = math.prod(d for d in sizes if d != -1)
    if place:
        if given == 0 or a.size % given:
            raise TypeError(
                f"cannot reshape array of shape {a.shape} (size {a.size}) into shape"
                f" {shape} because the product of specified axis sizes ({given}) does"
                f" not evenly divide {a.size}"
            )
        return tuple(a.size // given if d == -1 else d for d in sizes)
    if given != a.size:
        raise TypeError(
            f"cannot reshape array of shape {a.shape} (size {a.size}) into shape"
            f" {shape} (size {given})"
        )
    return sizes


def ravel(a: Any, order: str = "C", *, out_sharding: Any = None) -> Any:
    """The elements in one dimension.

    >>> from curta import numpy as jnp
    >>> jnp.ravel(jnp.array([[1, 2], [3, 4]]))
    Array([1, 2, 3, 4], dtype=int32)
    """
    a = ensure_arraylike("ravel", a)
    if order == "K":
        raise NotImplementedError("Ravel not implemented for order='K'.")
    return reshape(a, (a.size,), order)


def squeeze(a: Any, axis: int | Sequence[int] | None = None) -> Any:
    """Without dims of size 1: all of them, or those of `axis`.

    Raises ValueError for an axis of another size.

    >>> from curta import numpy as jnp
    >>> jnp.squeeze(jnp.zeros((1, 3, 1))).shape
    (3,)
    """
    a = ensure_arraylike("squeeze", a)
    if axis is None:
        return lax.squeeze(a, tuple(i for i, d in enumerate(a.shape) if d == 1))
    return lax.squeeze(a, index_tuple(axis))


def expand_dims(a: Any, axis: int | Sequence[int]) -> Any:
    """With new dims of size 1 at the places `axis` of the result.

    >>> from curta import numpy as jnp
    >>> jnp.expand_dims(jnp.zeros(3), (0, 2)).shape
    (1, 3, 1)
    """
    return lax.expand_dims(ensure_arraylike("expand_dims", a), index_tuple(axis))


@inner_jit
def atleast_1d(*arys: Any) -> Any:
    """Scalars as arrays of rank 1; a list for several arguments.

    >>> from curta import numpy as jnp
    >>> jnp.atleast_1d(3.0).shape
    (1,)
    """
    arrays = ensure_arraylikes("atleast_1d", *arys)
    return _one_or_all([_with_rank(x, 1) for x in arrays])


@inner_jit
def atleast_2d(*arys: Any) -> Any:
    """Arrays with dims in front up to rank 2; a list for several arguments.

    >>> from curta import numpy as jnp
    >>> jnp.atleast_2d(jnp.zeros(3)).shape
    (1, 3)
    """
    arrays = ensure_arraylikes("atleast_2d", *arys)
    return _one_or_all([_with_rank(x, 2) for x in arrays])


@inner_jit
def atleast_3d(*arys: Any) -> Any:
    """Arrays of rank 3: vectors become (1, n, 1), matrices (n, m, 1).

    >>> from curta import numpy as jnp
    >>> jnp.atleast_3d(jnp.zeros(3)).shape
    (1, 3, 1)
    """
    new = {0: (0, 1, 2), 1: (0, 2), 2: (2,)}
    arrays = ensure_arraylikes("atleast_3d", *arys)
    return _one_or_all(
        [lax.expand_dims(x, new[x.ndim]) if x.ndim in new else x for x in arrays]
    )


def _with_rank(x: Any, rank: int) -> Any:
    return lax.expand_dims(x, range(rank - x.ndim)) if x.ndim < rank else x


def _one_or_all(arrays: list[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else arrays


def broadcast_to(array: Any, shape: Any, *, out_sharding: Any = None) -> Any:
    """The array repeated to a shape; ValueError if it does not fit.

    >>> from curta import numpy as jnp
    >>> jnp.broadcast_to(jnp.arange(2), (2, 2))
    Array([[0, 1],
           [0, 1]], dtype=int32)
    """
    array = ensure_arraylike("broadcast_to", array)
    return broadcast_to_shape(array, canonical_shape(shape))


def broadcast_arrays(*args: Any) -> list[Any]:
    """The arrays repeated to their common shape.

    >>> from curta import numpy as jnp
    >>> [x.shape for x in jnp.broadcast_arrays(jnp.zeros((2, 1)), jnp.zeros(3))]
    [(2, 3), (2, 3)]
    """
    arrays = ensure_arraylikes("broadcast_arrays", *args)
    return broadcast_all(*arrays) if arrays else []


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The shape to which shapes broadcast; ValueError if they do not.

    >>> from curta import numpy as jnp
    >>> jnp.broadcast_shapes((2, 1), 3)
    (2, 3)
    """
    if not shapes:
        return ()
    return lax.broadcast_shapes(*map(canonical_shape, shapes))


# ---- order of dims


def transpose(a: Any, axes: Sequence[int] | None = None) -> Any:
    """The dims in another order: reversed by default.

    >>> from curta import numpy as jnp
    >>> jnp.transpose(jnp.zeros((2, 3, 4)), (1, 0, 2)).shape
    (3, 2, 4)
    """
    a = ensure_arraylike("transpose", a)
    order = range(a.ndim)[::-1] if axes is None else axes
    return lax.transpose(a, tuple(canonical_axis(i, a.ndim) for i in order))


def permute_dims(a: Any, /, axes: tuple[int, ...]) -> Any:
    """The dims in the order of `axes`.

    >>> from curta import numpy as jnp
    >>> jnp.permute_dims(jnp.zeros((2, 3)), (1, 0)).shape
    (3, 2)
    """
    a = ensure_arraylike("permute_dims", a)
    return lax.transpose(a, tuple(canonical_axis(i, a.ndim) for i in axes))


def matrix_transpose(x: Any, /) -> Any:
    """The last two dims exchanged; ValueError for rank 0 and 1.

    >>> from curta import numpy as jnp
    >>> jnp.matrix_transpose(jnp.zeros((5, 2, 3))).shape
    (5, 3, 2)
    """
    x = ensure_arraylike("matrix_transpose", x)
    if x.ndim < 2:
        raise ValueError(
            "x must be at least two-dimensional for matrix_transpose; got"
            f" ndim={x.ndim}"
        )
    return lax.transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def swapaxes(a: Any, axis1: int, axis2: int) -> Any:
    """Two dims exchanged.

    >>> from curta import numpy as jnp
    >>> jnp.swapaxes(jnp.zeros((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    a = ensure_arraylike("swapaxes", a)
    i, j = canonical_axis(axis1, a.ndim), canonical_axis(axis2, a.ndim)
    order = list(range(a.ndim))
    order[i], order[j] = order[j], order[i]
    return lax.transpose(a, order)


def moveaxis(
    a: Any, source: int | Sequence[int], destination: int | Sequence[int]
) -> Any:
    """The dims `source` moved to the places `destination`.

    >>> from curta import numpy as jnp
    >>> jnp.moveaxis(jnp.zeros((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    a = ensure_arraylike("moveaxis", a)
    origin = [canonical_axis(i, a.ndim) for i in index_tuple(source)]
    target = [canonical_axis(i, a.ndim) for i in index_tuple(destination)]
    if len(origin) != len(target):
        raise ValueError(
            f"Inconsistent number of elements: {len(origin)} vs {len(target)}"
        )
    order = [i for i in range(a.ndim) if i not in origin]
    for place, axis in sorted(zip(target, origin)):
        order.insert(place, axis)
    return lax.transpose(a, order)


@inner_jit(static_argnames=("axis", "start"))
def rollaxis(a: Any, axis: int, start: int = 0) -> Any:
    """The dim `axis` moved in front of the dim `start`.

    >>> from curta import numpy as jnp
    >>> jnp.rollaxis(jnp.zeros((2, 3, 4)), 2).shape
    (4, 2, 3)
    """
    a = ensure_arraylike("rollaxis", a)
    start = concrete_index(start, "'start' argument of jnp.rollaxis()")
    axis = canonical_axis(axis, a.ndim)
    if not -a.ndim <= start <= a.ndim:
        raise ValueError(f"start={start} must satisfy {-a.ndim}<=start<={a.ndim}")
    start += a.ndim if start < 0 else 0
    return moveaxis(a, axis, start - (start > axis))


# ---- turning


def flip(m: Any, axis: int | Sequence[int] | None = None) -> Any:
    """The elements in reversed order along axes: along all by default.

    >>> from curta import numpy as jnp
    >>> jnp.flip(jnp.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    return _flip(ensure_arraylike("flip", m), static_axes(axis))


@inner_jit(static_argnames=("axis",))
def _flip(m: Any, axis: Any) -> Any:
    if axis is None:
        return lax.rev(m, tuple(range(m.ndim)))
    return lax.rev(m, tuple(canonical_axis(i, m.ndim) for i in index_tuple(axis)))


def fliplr(m: Any) -> Any:
    """The elements in reversed order along the second axis.

    >>> from curta import numpy as jnp
    >>> jnp.fliplr(jnp.array([[1, 2]]))
    Array([[2, 1]], dtype=int32)
    """
    return _flip(ensure_arraylike("fliplr", m), 1)


def flipud(m: Any) -> Any:
    """The elements in reversed order along the first axis.

    >>> from curta import numpy as jnp
    >>> jnp.flipud(jnp.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    return _flip(ensure_arraylike("flipud", m), 0)


@inner_jit(static_argnames=("k", "axes"))
def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Any:
    """`m` turned by k right angles, from the first axis to the second.

    >>> from curta import numpy as jnp
    >>> jnp.rot90(jnp.array([[1, 2], [3, 4]]))
    Array([[2, 4],
           [1, 3]], dtype=int32)
    """
    m = ensure_arraylike("rot90", m)
    if m.ndim < 2:
        raise ValueError(
            "rot90 requires its first argument to have ndim at least two, but got first"
            f" argument of shape {m.shape}, which has ndim {m.ndim}"
        )
    first, second = (canonical_axis(i, m.ndim) for i in axes)
    if first == second:
        raise ValueError("Axes must be different")
    k %= 4
    if k == 0:
        return m
    if k == 2:
        return flip(flip(m, first), second)
    if k == 1:
        return swapaxes(flip(m, second), first, second)
    return flip(swapaxes(m, first, second), second)


def roll(a: Any, shift: Any, axis: int | Sequence[int] | None = None) -> Any:
    """The elements moved along axes, those that fall off coming back in front.

    Without an axis the flattened array is rolled. `shift` may be traced.

    >>> from curta import numpy as jnp
    >>> jnp.roll(jnp.arange(4), 1)
    Array([3, 0, 1, 2], dtype=int32)
    """
    a = ensure_arraylike("roll", a)
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), a.shape)
    axes = tuple(canonical_axis(i, a.ndim) for i in index_tuple(axis))
    try:
        shifts = index_tuple(shift)
    except TypeError:
        return _roll_dynamic(a, asarray(shift), axes)
    return _roll_static(a, shifts, axes)


@inner_jit(static_argnames=("shift", "axis"))
def _roll_static(a: Any, shift: tuple[int, ...], axis: tuple[int, ...]) -> Any:
    for i, s in zip(*np.broadcast_arrays(axis, shift)):
        size = a.shape[i]
        if size == 0:
            continue
        start = int(-s % size)
        parts = (start, size), (0, start)
        a = lax.concatenate(
            [lax.slice_in_dim(a, *part, axis=int(i)) for part in parts], int(i)
        )
    return a


@inner_jit(static_argnames=("axis",))
def _roll_dynamic(a: Any, shift: Any, axis: tuple[int, ...]) -> Any:
    count = lax.broadcast_shapes(shift.shape, (len(axis),))
    if len(count) != 1:
        raise ValueError(
            "'shift' and 'axis' arguments to roll must be scalars or 1D arrays"
        )
    shifts = lax.unstack(broadcast_to(shift, count))
    for s, i in zip(shifts, np.broadcast_to(axis, count)):
        size = a.shape[i]
        s = remainder(lax.convert_element_type(s, np.int32), max(size, 1))
        start = lax.sub(np.int32(size), cast(s, np.dtype(np.int32)))
        twice = lax.concatenate([a, a], int(i))
        a = lax.dynamic_slice_in_dim(twice, start, size, axis=int(i))
    return a


# ---- repeating


def tile(A: Any, reps: Any) -> Any:
    """Copies of the whole array side by side, `reps` along each dim.

    >>> from curta import numpy as jnp
    >>> jnp.tile(jnp.arange(2), 3)
    Array([0, 1, 0, 1, 0, 1], dtype=int32)
    """
    A = ensure_arraylike("tile", A)
    counts = index_tuple(reps)
    counts = (1,) * (A.ndim - len(counts)) + counts
    return lax.tile(_with_rank(A, len(counts)), counts)


def repeat(
    a: Any,
    repeats: Any,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Any:
    """Every element `repeats` times in a row; a number for all, or one for each.

    `total_repeat_length` makes the size of the result static, so that `repeats` may
    be traced: the result is cut, or the last element repeated, to that size.

    >>> from curta import numpy as jnp
    >>> jnp.repeat(jnp.array([1, 2]), jnp.array([1, 3]))
    Array([1, 2, 2, 2], dtype=int32)
    """
    check_arraylike("repeat", a, repeats)
    a = asarray(a)
    if axis is None:
        a, axis = ravel(a), 0
    axis = canonical_axis(concrete_index(axis, "'axis' argument of jnp.repeat()"), a.ndim)
    if total_repeat_length is None:
        repeats = concrete(
            repeats,
            "When jit-compiling jnp.repeat, the total number of repeats must be static."
            " To fix this, either specify a static value for `repeats`, or pass a"
            " static value to `total_repeat_length`.",
            np.asarray,
        )
        if repeats.ndim == 0:
            return _repeat_each(a, operator.index(repeats[()]), axis)
        repeats = np.broadcast_to(np.ravel(repeats), (a.shape[axis],))
        places = np.repeat(np.arange(a.shape[axis]), repeats)
        return _take_rows(a, asarray(places.astype(np.int32)), axis)
    counts = broadcast_to(ravel(asarray(repeats)), (a.shape[axis],))
    if total_repeat_length == 0 or a.shape[axis] == 0:
        empty = (*a.shape[:axis], 0, *a.shape[axis + 1 :])
        return lax.full(empty, 0, a.dtype)
    ends = lax.cumsum(counts, 0)
    slots = lax.broadcasted_iota(ends.dtype, (total_repeat_length, ends.shape[0]), 0)
    passed = lax.le(broadcast_to(ends, slots.shape), slots)
    places = lax.reduce_sum(lax.convert_element_type(passed, np.int32), (1,))
    return _take_rows(a, lax.min(places, np.int32(a.shape[axis] - 1)), axis)


def _repeat_each(a: Any, count: int, axis: int) -> Any:
    shape = list(a.shape)
    shape.insert(axis + 1, count)
    kept = tuple(i for i in range(len(shape)) if i != axis + 1)
    wide = lax.broadcast_in_dim(a, tuple(shape), kept)
    shape[axis : axis + 2] = [a.shape[axis] * count]
    return lax.reshape(wide, tuple(shape))


def _take_rows(a: Any, places: Any, axis: int) -> Any:
    """Rows of `a` at `places`, which lie within bounds and ascend."""
    sizes = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    if 0 in places.shape or 0 in a.shape:
        shape = (*a.shape[:axis], places.shape[0], *a.shape[axis + 1 :])
        return lax.full(shape, 0, a.dtype)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(i for i in range(a.ndim) if i != axis),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    return lax.gather(
        a, lax.expand_dims(places, (1,)), numbers, sizes, indices_are_sorted=True
    )


@inner_jit(static_argnames=("new_shape",))
def resize(a: Any, new_shape: Any) -> Any:
    """The elements in a new shape, repeated from the start if there are too few.

    >>> from curta import numpy as jnp
    >>> jnp.resize(jnp.arange(3), (2, 2))
    Array([[0, 1],
           [2, 0]], dtype=int32)
    """
    a = ravel(ensure_arraylike("resize", a))
    sizes = index_tuple(new_shape)
    if any(d < 0 for d in sizes):
        raise ValueError("all elements of `new_shape` must be non-negative")
    count = math.prod(sizes)
    if a.size == 0 or count == 0:
        return lax.full(sizes, 0, a.dtype)
    a = tile(a, -(-count // a.size))
    return reshape(lax.slice_in_dim(a, 0, count), sizes)
