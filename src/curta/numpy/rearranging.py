"""Turning, rolling and repeating the elements of an array."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit, new_arrays
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike, Shape
from curta.core.dim import as_dim, is_symbolic_dim
from curta.lax.index_types import fitting_indices
from curta.numpy.arguments import (
    canonical_axis,
    canonical_shape,
    check_arraylike,
    concrete,
    concrete_index,
    ensure_arraylike,
    index_tuple,
    static_axes,
)
from curta.numpy.arithmetic import remainder
from curta.numpy.constructors import asarray
from curta.numpy.promotion import cast
from curta.numpy.shapes import broadcast_to, ravel, reshape, swapaxes, with_rank


def flip(m: ArrayLike, axis: int | Sequence[int] | None = None) -> Array:
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


def fliplr(m: ArrayLike) -> Array:
    """The elements in reversed order along the second axis.

    >>> from curta import numpy as jnp
    >>> jnp.fliplr(jnp.array([[1, 2]]))
    Array([[2, 1]], dtype=int32)
    """
    return _flip(ensure_arraylike("fliplr", m), 1)


def flipud(m: ArrayLike) -> Array:
    """The elements in reversed order along the first axis.

    >>> from curta import numpy as jnp
    >>> jnp.flipud(jnp.arange(3))
    Array([2, 1, 0], dtype=int32)
    """
    return _flip(ensure_arraylike("flipud", m), 0)


@inner_jit(static_argnames=("k", "axes"))
def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """`m` turned by k right angles, from the first axis to the second.

    Args:
      m: an array of two dims or more.
      k: the number of right angles, static. Default 1.
      axes: a pair of ints, the plane, turned from the first axis to the second. Default
        (0, 1).

    Returns:
      An array of the dtype of `m`; the two sizes are exchanged for odd `k`.

    Raises:
      TypeError: `m` is a list, a string or None; `k` is not a number, or `axes` no
          pair.
      ValueError: `m` has less than two dims, `axes` are equal or out of bounds, or `k`
        is a list or traced.

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


@new_arrays
def roll(
    a: ArrayLike,
    shift: ArrayLike | Sequence[int],
    axis: int | Sequence[int] | None = None,
) -> Array:
    """The elements moved along axes, those that fall off coming back in front.

    Args:
      a: an array of any shape and dtype.
      shift: how far to move, an int or one for each axis; may be traced.
      axis: int or ints, along which to move. None (default) moves along the flattened
        array.

    Returns:
      An array of the shape and dtype of `a`.

    Raises:
      TypeError: `a` is a list, a string or None; `shift` or `axis` is not of integers.
      ValueError: an axis is out of bounds.

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
        start = as_dim(-s % size)
        parts = (start, size), (0, start)
        a = lax.concatenate(
            [lax.slice_in_dim(a, low, high, axis=int(i)) for low, high in parts], int(i)
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


def tile(A: ArrayLike, reps: int | float | Sequence[int]) -> Array:
    """Copies of the whole array side by side, `reps` along each dim.

    >>> from curta import numpy as jnp
    >>> jnp.tile(jnp.arange(2), 3)
    Array([0, 1, 0, 1, 0, 1], dtype=int32)
    """
    A = ensure_arraylike("tile", A)
    counts = canonical_shape(reps, "argument of tile")
    counts = (1,) * (A.ndim - len(counts)) + counts
    return lax.tile(with_rank(A, len(counts)), counts)


@takes_out_sharding
def repeat(
    a: ArrayLike,
    repeats: ArrayLike,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """Every element `repeats` times in a row; a number for all, or one for each.

    Args:
      a: an array of any shape and dtype.
      repeats: integers, not negative: a scalar, or a vector (a.shape[axis],).
      axis: int, along which slices are repeated. None (default) flattens `a` first.
      total_repeat_length: static size of the result, so that `repeats` may be traced:
        it is cut, or the last element repeated, to that size. None (default) is the sum
        of the repeats.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the result; None (default)
        lets it follow from `a`.

    Returns:
      An array of the dtype of `a`.

    Raises:
      TypeError: `a` is a list, a string or None; `repeats` is not of integers or
        negative, or `axis` no integer; `out_sharding` is not a sharding.
      ValueError: `repeats` has another length than the axis, or `axis` is out of
        bounds.
      ConcretizationTypeError: `repeats` is traced and `total_repeat_length` not given.

    >>> from curta import numpy as jnp
    >>> jnp.repeat(jnp.array([1, 2]), jnp.array([1, 3]))
    Array([1, 2, 2, 2], dtype=int32)
    """
    check_arraylike("repeat", a, repeats)
    a = asarray(a)
    if axis is None or a.ndim == 0:
        a, axis = ravel(a), 0
    axis = canonical_axis(
        concrete_index(axis, "'axis' argument of jnp.repeat()"), a.ndim
    )
    if is_symbolic_dim(repeats):
        if total_repeat_length is not None:
            raise ValueError(
                "jnp.repeat with a non-constant `repeats` is supported only without"
                " `total_repeat_length`"
            )
        return _repeat_each(a, repeats, axis)
    if total_repeat_length is None:
        known = concrete(
            repeats,
            "When jit-compiling jnp.repeat, the total number of repeats must be static."
            " To fix this, either specify a static value for `repeats`, or pass a"
            " static value to `total_repeat_length`.",
            np.asarray,
        )
        _check_repeats(known)
        if known.ndim == 0:
            return _repeat_each(a, int(known), axis)
        each = np.broadcast_to(np.ravel(known), (a.shape[axis],))
        copied = np.repeat(np.arange(a.shape[axis]), each)
        return _take_rows(a, asarray(copied.astype(np.int32)), axis)
    counts = broadcast_to(ravel(asarray(repeats)), (a.shape[axis],))
    _check_repeats(counts)
    if total_repeat_length == 0 or a.shape[axis] == 0:
        empty = (*a.shape[:axis], 0, *a.shape[axis + 1 :])
        return lax.full(empty, 0, a.dtype)
    if dtypes.issubdtype(counts.dtype, np.integer):
        counts = fitting_indices(counts, np.iinfo(np.int32).max)
    ends = lax.cumsum(counts, 0)
    slots = lax.broadcasted_iota(ends.dtype, (total_repeat_length, ends.shape[0]), 0)
    passed = lax.le(broadcast_to(ends, slots.shape), slots)
    rows = lax.reduce_sum(lax.convert_element_type(passed, np.int32), (1,))
    return _take_rows(a, lax.min(rows, np.int32(a.shape[axis] - 1)), axis)


def _check_repeats(repeats: Any) -> None:
    if not any(dtypes.issubdtype(repeats.dtype, k) for k in (np.integer, np.bool_)):
        raise TypeError(
            "jnp.repeat: repeats must have every element be an integer type, got"
            f" {repeats.dtype}."
        )


def _repeat_each(a: Any, count: Any, axis: int) -> Any:
    shape = list(a.shape)
    shape.insert(axis + 1, count)
    kept = tuple(i for i in range(len(shape)) if i != axis + 1)
    wide = lax.broadcast_in_dim(a, tuple(shape), kept)
    shape[axis : axis + 2] = [a.shape[axis] * count]
    return lax.reshape(wide, tuple(shape))


def _take_rows(a: Any, rows: Any, axis: int) -> Any:
    """Rows of `a` at `rows`, which lie within bounds and ascend."""
    sizes = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    if 0 in rows.shape or 0 in a.shape:
        shape = (*a.shape[:axis], rows.shape[0], *a.shape[axis + 1 :])
        return lax.full(shape, 0, a.dtype)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(i for i in range(a.ndim) if i != axis),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    return lax.gather(
        a, lax.expand_dims(rows, (1,)), numbers, sizes, indices_are_sorted=True
    )


@inner_jit(static_argnames=("new_shape",))
def resize(a: ArrayLike, new_shape: Shape) -> Array:
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
