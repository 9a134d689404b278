"""The distinct elements of an array."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import (
    STATIC_SIZE,
    canonical_axis,
    concrete,
    concrete_index,
    ensure_arraylike,
    is_complex,
)
from curta.numpy.constructors import asarray
from curta.numpy.creation import zeros
from curta.numpy.cumulative import cumsum
from curta.numpy.differences import diff
from curta.numpy.index_update import IndexedUpdate
from curta.numpy.indexing import getitem
from curta.numpy.joining import append
from curta.numpy.promotion import cast, const
from curta.numpy.ranges import arange
from curta.numpy.reductions import any, sum
from curta.numpy.searching import nonzero
from curta.numpy.selection import select_where
from curta.numpy.shapes import moveaxis, ravel, reshape, transpose
from curta.numpy.sorting import lexsort

HINT = (
    "To make jnp.unique() compatible with JIT and other transforms, you can specify a"
    " concrete value for the size argument, which will determine the output size."
)


FILL = "The fill_value"


def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
    sorted: bool = True,
) -> Any:
    """The distinct elements in ascending order, or the distinct slices along an axis.

    Also, if asked for: where each occurs first, which of them makes up each element,
    and how often each occurs. Their number is known only with the values, so that
    inside jit `size` has to be given: the result is cut to it, or filled up with
    `fill_value` (by default the smallest element).

    Args:
      ar: an array, of any shape and dtype.
      return_index: return where each first occurs. Default False.
      return_inverse: return which of them makes up each element. Default False.
      return_counts: return how often each occurs. Default False.
      axis: int, whose slices are compared. None (default) compares the elements of the
        flattened array.
      equal_nan: take every NaN for the same. Default True.
      size: static int: the result is cut to that many, or filled up. None (default) for
        as many as there are.
      fill_value: the element beyond the last. None (default) is the smallest element.
      sorted: must order the elements; they always come in ascending order. Default
        True.

    Returns:
      The distinct elements, (count,), or slices along `axis`, of `ar`'s dtype; if asked
      for, a tuple of them and of integer arrays: first indices (count,), inverse (the
      shape of `ar`, or (ar.shape[axis],)), counts (count,).

    Raises:
      TypeError: `ar` is a list, a string or None; `axis` is not an integer; `size` is
        not an integer or is negative.
      ValueError: `axis` is out of bounds; `fill_value` has another shape than an
        element or slice.
      ConcretizationTypeError: `ar` is traced and `size` is not given.

    >>> from curta import numpy as jnp
    >>> jnp.unique(jnp.array([3, 1, 3]), return_counts=True)
    (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    """
    ar = ensure_arraylike("unique", ar)
    if size is None:
        where = f"The error arose for the first argument of jnp.unique(). {HINT}"
        concrete(ar, where, remedy=STATIC_SIZE)
    else:
        where = f"The error arose for the size argument of jnp.unique(). {HINT}"
        size = concrete_index(size, where)
    shape = ar.shape
    flat = axis is None
    ar = ravel(ar) if axis is None else ar
    axis = 0 if axis is None else canonical_axis(axis, ar.ndim)
    if ar.shape[axis] == 0 and size and fill_value is None:
        raise ValueError(
            "jnp.unique: for zero-sized input with nonzero size argument, fill_value"
            " must be specified"
        )
    out = _Unique(ar, axis, equal_nan, size)
    results = [out.values(fill_value)]
    if return_index:
        results.append(out.first_indices())
    if return_inverse:
        inverse = out.inverse()
        results.append(reshape(inverse, shape) if flat else inverse)
    if return_counts:
        results.append(out.counts())
    return results[0] if len(results) == 1 else tuple(results)


class _Unique:
    """The slices of an array sorted along an axis, and which of them are new."""

    def __init__(self, ar: Any, axis: int, equal_nan: bool, size: int | None):
        self.axis, self.size = axis, size
        self.count = ar.shape[axis]
        self.sorted, self.new, self.order = unique_sorted_mask(ar, axis, equal_nan)
        if size is None:
            where = f"The error arose in jnp.unique(). {HINT}"
            known = concrete(self.new, where, remedy=STATIC_SIZE)
            self.starts = asarray(np.flatnonzero(np.asarray(known)), int)
        else:
            self.starts = nonzero(self.new, size=size)[0]

    @property
    def _empty(self) -> bool:
        return not self.sorted.size

    def values(self, fill_value: Any) -> Any:
        out = self.sorted if self._empty else getitem(self.sorted, self.starts)
        if self.size is not None and fill_value is not None:
            fill_value = cast(ensure_arraylike(FILL, fill_value), out.dtype)
            if out.shape[0]:
                valid = lax.lt(arange(self.size, dtype=int), sum(self.new))
                valid = lax.expand_dims(valid, range(1, out.ndim))
                out = select_where(valid, out, fill_value)
            else:
                shape = (self.size, *out.shape[1:])
                out = lax.full_like(out, fill_value, shape=shape)
        return moveaxis(out, 0, self.axis)

    def first_indices(self) -> Any:
        return self.order if self._empty else getitem(self.order, self.starts)

    def inverse(self) -> Any:
        if self._empty:
            return zeros(self.count, int)
        number = lax.sub(cumsum(self.new), const(cumsum(self.new), 1))
        return IndexedUpdate(zeros(self.count, int), self.order).set(number)

    def counts(self) -> Any:
        if self._empty:
            return asarray([self.count] if self.count else [], int)
        if self.size is None:
            return diff(append(self.starts, self.count))
        ends = nonzero(self.new, size=self.size + 1, fill_value=self.count)[0]
        return diff(ends)


@inner_jit(static_argnames=("axis", "equal_nan"))
def unique_sorted_mask(ar: Any, axis: int, equal_nan: bool) -> tuple[Any, Any, Any]:
    x = moveaxis(ar, axis, 0)
    if is_complex(x):
        x = select_where(lax.ne(x, x), const(x, np.nan), x)
    count, *rest = x.shape
    width = math.prod(rest)
    if width == 0:
        order = zeros(1, int)
        return getitem(x, order) if count else x, zeros(1, bool), order
    columns = transpose(reshape(x, (count, width)))
    order = lexsort(lax.rev(columns, (0,)))
    x = getitem(x, order)
    if not x.size:
        return x, zeros(count, bool), order
    new = lax.full((count,), True, np.bool_)
    after, before = getitem(x, np.s_[1:]), getitem(x, np.s_[:-1])
    differs = lax.ne(after, before)
    if equal_nan and dtypes.issubdtype(x.dtype, np.inexact):
        both = lax.bitwise_and(lax.ne(after, after), lax.ne(before, before))
        differs = lax.bitwise_and(differs, lax.bitwise_not(both))
    differs = any(differs, tuple(range(1, x.ndim)))
    return x, IndexedUpdate(new, np.s_[1:]).set(differs), order


class UniqueAllResult(NamedTuple):
    """The result of `unique_all`."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """The result of `unique_counts`."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """The result of `unique_inverse`."""

    values: Any
    inverse_indices: Any


def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueAllResult:
    """Distinct elements with first indices, inverse and counts; every NaN is one.

    Args:
      x: an array, of any shape and dtype; every NaN is an element of its own.
      size: static int, which jit needs: the result is cut to that many, or filled up.
        None (default) for as many as there are.
      fill_value: the element beyond the last. None (default) is the smallest element.

    Returns:
      A named tuple: `values` (count,) of the dtype of `x`, and the integer arrays
      `indices` (count,), `inverse_indices` of the shape of `x`, and `counts` (count,).

    Raises:
      TypeError: `x` is a list, a string or None; `size` is not an integer or negative.
      ConcretizationTypeError: `x` is traced and `size` is not given.

    >>> from curta import numpy as jnp
    >>> jnp.unique_all(jnp.array([3, 1, 3])).inverse_indices
    Array([1, 0, 1], dtype=int32)
    """
    x = ensure_arraylike("unique_all", x)
    out = unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueAllResult(*out)


def unique_counts(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueCountsResult:
    """Distinct elements with counts; every NaN is one of them.

    Args:
      x: an array, of any shape and dtype; every NaN is an element of its own.
      size: static int, which jit needs: the result is cut to that many, or filled up.
        None (default) for as many as there are.
      fill_value: the element beyond the last. None (default) is the smallest element.

    Returns:
      A named tuple `values`, `counts`: (count,), of `x`'s dtype, and (count,) int32.

    Raises:
      TypeError: `x` is a list, a string or None; `size` is not an integer or negative.
      ConcretizationTypeError: `x` is traced and `size` is not given.

    >>> from curta import numpy as jnp
    >>> jnp.unique_counts(jnp.array([3, 1, 3])).counts
    Array([1, 2], dtype=int32)
    """
    x = ensure_arraylike("unique_counts", x)
    out = unique(
        x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value
    )
    return UniqueCountsResult(*out)


def unique_inverse(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueInverseResult:
    """Distinct elements with the inverse; every NaN is one of them.

    Args:
      x: an array, of any shape and dtype; every NaN is an element of its own.
      size: static int, which jit needs: the result is cut to that many, or filled up.
        None (default) for as many as there are.
      fill_value: the element beyond the last. None (default) is the smallest element.

    Returns:
      A named tuple `values`, `inverse_indices`: (count,), of `x`'s dtype, and integers,
      of the shape of `x`.

    Raises:
      TypeError: `x` is a list, a string or None; `size` is not an integer or negative.
      ConcretizationTypeError: `x` is traced and `size` is not given.

    >>> from curta import numpy as jnp
    >>> jnp.unique_inverse(jnp.array([3, 1, 3])).values
    Array([1, 3], dtype=int32)
    """
    x = ensure_arraylike("unique_inverse", x)
    out = unique(
        x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value
    )
    return UniqueInverseResult(*out)


def unique_values(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> Array:
    """Distinct elements; every NaN is one of them.

    Args:
      x: an array, of any shape and dtype; every NaN is an element of its own.
      size: static int, which jit needs: the result is cut to that many, or filled up.
        None (default) for as many as there are.
      fill_value: the element beyond the last. None (default) is the smallest element.

    Returns:
      The distinct elements in ascending order, (count,), of `x`'s dtype.

    Raises:
      TypeError: `x` is a list, a string or None; `size` is not an integer or negative.
      ConcretizationTypeError: `x` is traced and `size` is not given.

    >>> from curta import numpy as jnp
    >>> jnp.unique_values(jnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    x = ensure_arraylike("unique_values", x)
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)
