"""Arrays as sets: union, intersection, differences, membership."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import lax
from curta.api.inner import inner_jit, new_arrays
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import (
    canonical_axes,
    concrete,
    ensure_arraylike,
    ensure_arraylikes,
)
from curta.numpy.binning import searchsorted
from curta.numpy.creation import full_like
from curta.numpy.distinct import FILL, HINT, unique, unique_sorted_mask
from curta.numpy.indexing import getitem
from curta.numpy.joining import concatenate
from curta.numpy.promotion import const, promote_dtypes
from curta.numpy.ranges import arange
from curta.numpy.reductions import sum
from curta.numpy.searching import nonzero
from curta.numpy.selection import select_where
from curta.numpy.shapes import ravel, reshape
from curta.numpy.sorting import lexsort


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Whether each element occurs among the test elements (or not, with `invert`).

    Args:
      element: an array of any shape and dtype.
      test_elements: an array of any shape, which is flattened.
      assume_unique: a hint that spares nothing here: the results are the same. Default
        False.
      invert: whether each does not occur. Default False.
      method: "compare_all", "binary_search", "sort", or "auto" (default), which chooses
        by the sizes.

    Returns:
      Booleans, of the shape of `element`.

    Raises:
      TypeError: `element` or `test_elements` is a list, a string or None.
      ValueError: `method` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.isin(jnp.array([1, 2, 3]), jnp.array([2, 5]))
    Array([False,  True, False], dtype=bool)
    """
    element, tests = ensure_arraylikes("isin", element, test_elements)
    out = _in1d(element, tests, invert=invert, method=method)
    return reshape(out, element.shape)


@inner_jit(static_argnames=("invert", "method"))
def _in1d(x: Any, tests: Any, invert: bool, method: str) -> Any:
    if method not in ("auto", "compare_all", "binary_search", "sort"):
        raise ValueError(
            f"method={method!r} is not implemented; options are 'compare_all',"
            " 'binary_search', 'sort', and 'auto'"
        )
    x, tests = promote_dtypes(ravel(x), ravel(tests))
    if x.size == 0 or tests.size == 0:
        return lax.full(x.shape, invert, np.bool_)
    if method in ("auto", "compare_all"):
        rows, columns = lax.expand_dims(x, (1,)), lax.expand_dims(tests, (0,))
        if invert:
            return lax.reduce_and(lax.ne(rows, columns), (1,))
        return lax.reduce_or(lax.eq(rows, columns), (1,))
    tests = lax.sort(tests)
    result = getitem(tests, searchsorted(tests, x))
    return lax.ne(x, result) if invert else lax.eq(x, result)


def union1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The distinct elements of both arrays.

    Args:
      ar1: an array of any shape, which is flattened.
      ar2: an array of any shape, which is flattened.
      size: static int, which jit needs: the result is cut to that many, or filled up.
        None (default) for as many as there are.
      fill_value: the element beyond the last. None (default) is the smallest of them.

    Returns:
      The elements in ascending order, (count,), of the promoted dtype.

    Raises:
      TypeError: `ar1` or `ar2` is a list, a string or None; `size` is not an integer or
        negative.
      ConcretizationTypeError: an array is traced and `size` is not given.

    >>> from curta import numpy as jnp
    >>> jnp.union1d(jnp.array([1, 3]), jnp.array([2, 3]))
    Array([1, 2, 3], dtype=int32)
    """
    arrays = ensure_arraylikes("union1d", ar1, ar2)
    if size is None:
        for x in arrays:
            concrete(x, "The error arose in union1d()")
    joined = concatenate(arrays, axis=None)
    return unique(joined, size=size, fill_value=fill_value)


def intersect1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array | tuple[Array, Array, Array]:
    """The distinct elements that occur in both arrays, and where they occur first.

    Args:
      ar1: an array of any shape, which is flattened.
      ar2: an array of any shape, which is flattened.
      assume_unique: neither array has an element twice: none is searched for, and one
        that there is would be taken for common. Default False.
      return_indices: return where the elements first occur, in each array. Default
        False.
      size: static int, which jit needs: the result is cut to that many, or filled up.
        None (default) for as many as there are.
      fill_value: the element beyond the last. None (default) is the smallest of them.

    Returns:
      The elements in ascending order, (count,), of the promoted dtype; with
      `return_indices` a tuple of them and of two index vectors, (count,), integers.

    Raises:
      TypeError: `ar1` or `ar2` is a list, a string or None; `size` is not an integer or
        negative.
      ConcretizationTypeError: an array is traced and `size` is not given.

    >>> from curta import numpy as jnp
    >>> jnp.intersect1d(jnp.array([1, 3, 3]), jnp.array([2, 3]))
    Array([3], dtype=int32)
    """
    a, b = (
        ravel(x) for x in promote_dtypes(*ensure_arraylikes("intersect1d", ar1, ar2))
    )
    if size is not None and not a.size:
        out = lax.full((size,), 0 if fill_value is None else fill_value, a.dtype)
        first, second = (lax.full((size,), x.size, np.int32) for x in (a, b))
        return (out, first, second) if return_indices else out
    if assume_unique:
        return _common_neighbours(a, b, return_indices, size, fill_value)
    values, first = unique(a, return_index=True, size=None if size is None else a.size)
    common = _in1d(values, b, invert=False, method="auto")
    if size is not None:
        count = sum(unique_sorted_mask(a, 0, True)[1])
        common = lax.bitwise_and(common, lax.lt(arange(a.size), count))
    out, (first,) = _selected(values, common, size, fill_value, (first,), a.size)
    if not return_indices:
        return out
    order = lexsort((b,))
    indices = searchsorted(getitem(b, order), out)
    second = getitem(order, lax.min(indices, const(indices, b.size - 1)))
    if size is not None:
        valid = lax.lt(arange(size, dtype=int), sum(common))
        second = select_where(valid, second, b.size)
    return out, first, second


def _common_neighbours(
    a: Any, b: Any, return_indices: bool, size: int | None, fill_value: Any
) -> Any:
    """What stands twice in the sorted elements of both arrays, and its indices."""
    joined = concatenate((a, b))
    joined, indices = lax.sort((joined, arange(joined.size)), num_keys=1)
    common = lax.eq(getitem(joined, np.s_[1:]), getitem(joined, np.s_[:-1]))
    values = getitem(joined, np.s_[:-1])
    first = getitem(indices, np.s_[:-1])
    second = lax.sub(getitem(indices, np.s_[1:]), const(indices, a.size))
    out, (first,) = _selected(values, common, size, fill_value, (first,), a.size)
    if not return_indices:
        return out
    _, (second,) = _selected(values, common, size, fill_value, (second,), b.size)
    return out, first, second


def setdiff1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The distinct elements of the first array that do not occur in the second.

    Args:
      ar1: an array of any shape, which is flattened.
      ar2: an array of any shape, which is flattened.
      assume_unique: keep the order of the elements, and as many as `ar1` has. Default
        False.
      size: static int, which jit needs: the result is cut to that many, or filled up.
        None (default) for as many as there are.
      fill_value: the element beyond the last. None (default) for 0.

    Returns:
      The elements, (count,), of the promoted dtype; ascending unless `assume_unique`.

    Raises:
      TypeError: `ar1` or `ar2` is a list, a string or None; `size` is not an integer or
        negative; `fill_value` is not a scalar.
      ConcretizationTypeError: an array is traced and `size` is not given.

    >>> from curta import numpy as jnp
    >>> jnp.setdiff1d(jnp.array([1, 3, 3]), jnp.array([2, 3]))
    Array([1], dtype=int32)
    """
    a, b = map(ravel, ensure_arraylikes("setdiff1d", ar1, ar2))
    if size is None:
        concrete(a, f"The error arose in setdiff1d(). {HINT}")
    fill_value = full_like(a, 0 if fill_value is None else fill_value, shape=())
    if a.size == 0:
        return lax.full_like(a, fill_value, shape=(size or 0,))
    values, count = a, const(arange(1), a.size)
    if not assume_unique:
        values = unique(a, size=None if size is None else a.size)
        count = sum(unique_sorted_mask(a, 0, True)[1])
    keep = _in1d(values, b, invert=True, method="auto")
    if size is not None:
        keep = lax.bitwise_and(keep, lax.lt(arange(values.size), count))
    return _selected(values, keep, size, fill_value, (), 0)[0]


@new_arrays
def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The distinct elements that occur in exactly one of two arrays.

    Args:
      ar1: an array of any shape, which is flattened.
      ar2: an array of any shape, which is flattened.
      assume_unique: neither array has an element twice: none is searched for, and one
        that there is would be taken for common. Default False.
      size: static int, which jit needs: the result is cut to that many, or filled up.
        None (default) for as many as there are.
      fill_value: the element beyond the last. None (default) is the smallest of them.

    Returns:
      The elements in ascending order, (count,), of the promoted dtype.

    Raises:
      TypeError: `ar1` or `ar2` is a list, a string or None; `size` is not an integer or
        negative.
      ConcretizationTypeError: an array is traced and `size` is not given.

    >>> from curta import numpy as jnp
    >>> jnp.setxor1d(jnp.array([1, 3]), jnp.array([2, 3]))
    Array([1, 2], dtype=int32)
    """
    a, b = (ravel(x) for x in promote_dtypes(*ensure_arraylikes("setxor1d", ar1, ar2)))
    if size is None:
        for x in a, b:
            concrete(x, f"The error arose for the arguments of jnp.setxor1d(). {HINT}")
    if a.size + b.size == 0:
        return a if size is None else lax.full_like(a, fill_value or 0, shape=(size,))
    if assume_unique:
        values = lax.sort(concatenate((a, b)))
        new = lax.ne(getitem(values, np.s_[1:]), getitem(values, np.s_[:-1]))
        end = lax.full((1,), True, np.bool_)
        keep = lax.bitwise_and(concatenate((end, new)), concatenate((new, end)))
        return _selected(values, keep, size, fill_value, (), 0)[0]
    alone = [_in1d(x, y, invert=True, method="auto") for x, y in ((a, b), (b, a))]
    values, keep = concatenate((a, b)), concatenate(alone)
    if size is None:
        return unique(getitem(values, keep))
    # Those to be kept first, in order; then those equal to the one before drop out.
    drop, values = lax.sort((lax.bitwise_not(keep), values), num_keys=2)
    keep = lax.bitwise_not(drop)
    again = lax.eq(getitem(values, np.s_[1:]), getitem(values, np.s_[:-1]))
    again = concatenate((lax.full((1,), False, np.bool_), again))
    keep = lax.bitwise_and(keep, lax.bitwise_not(again))
    return _selected(values, keep, size, fill_value, (), 0)[0]


def _selected(
    values: Any, keep: Any, size: int | None, fill: Any, others: Any, missing: int
) -> tuple[Any, tuple[Any, ...]]:
    """The values (and what else goes with them) where `keep` holds, up to `size`."""
    if size is None:
        return getitem(values, keep), tuple(getitem(x, keep) for x in others)
    indices = nonzero(keep, size=size)[0]
    valid = lax.lt(arange(size, dtype=int), sum(keep))
    out = (
        getitem(values, indices) if values.size else lax.full((size,), 0, values.dtype)
    )
    if fill is None:
        fill = const(out, 0)
        fill = select_where(getitem(valid, 0), getitem(out, 0), fill) if size else fill
    rest = tuple(select_where(valid, getitem(x, indices), missing) for x in others)
    out, fill = promote_dtypes(out, ensure_arraylike(FILL, fill))
    return select_where(valid, out, fill), rest


def trim_zeros(
    filt: ArrayLike, trim: str = "fb", axis: int | Sequence[int] | None = None
) -> Array:
    """A known array without the zeros at its front and back along axes.

    Args:
      filt: an array, whose values must be known: not traced.
      trim: "f" in it trims the front, "b" the back. Default "fb".
      axis: int or ints, along which to trim. None (default) is every axis.

    Returns:
      The part of `filt` between the first and last elements that are not 0.

    Raises:
      TypeError: an axis is not an integer.
      ValueError: an axis is out of bounds or given twice.
      ConcretizationTypeError: `filt` is traced.

    >>> from curta import numpy as jnp
    >>> jnp.trim_zeros(jnp.array([0, 1, 0, 2, 0]))
    Array([1, 0, 2], dtype=int32)
    """
    filt = ensure_arraylike("trim_zeros", filt)
    where = "Error arose in the `filt` argument of trim_zeros()"
    known = concrete(filt, where, np.asarray)
    index = [slice(None)] * filt.ndim
    for i in canonical_axes(axis, filt.ndim):
        others = tuple(j for j in range(filt.ndim) if j != i)
        (indices,) = np.nonzero((known != 0).any(axis=others))
        if not indices.size:
            index[i] = slice(0, 0)
            continue
        start = int(indices[0]) if "f" in trim.lower() else 0
        stop = int(indices[-1]) + 1 if "b" in trim.lower() else filt.shape[i]
        index[i] = slice(start, stop)
    return getitem(filt, tuple(index))
