"""Arrays as sets: unique elements, union, intersection, membership."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import (
    canonical_axes,
    canonical_axis,
    concrete,
    concrete_index,
    ensure_arraylike,
    ensure_arraylikes,
    is_complex,
)
from curta.numpy.binning import searchsorted
from curta.numpy.constructors import asarray
from curta.numpy.creation import full_like, zeros
from curta.numpy.cumulative import cumsum, diff
from curta.numpy.index_update import IndexedUpdate
from curta.numpy.indexing import getitem
from curta.numpy.joining import append, concatenate
from curta.numpy.promotion import cast, const, promote_dtypes
from curta.numpy.ranges import arange
from curta.numpy.reductions import any, sum
from curta.numpy.searching import nonzero
from curta.numpy.selection import select_where
from curta.numpy.shapes import moveaxis, ravel, reshape, transpose
from curta.numpy.sorting import lexsort

_HINT = (
    "To make jnp.unique() compatible with JIT and other transforms, you can specify a"
    " concrete value for the size argument, which will determine the output size."
)


_FILL = "The fill_value"


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

    >>> from curta import numpy as jnp
    >>> jnp.unique(jnp.array([3, 1, 3]), return_counts=True)
    (Array([1, 3], dtype=int32), Array([1, 2], dtype=int32))
    """
    ar = ensure_arraylike("unique", ar)
    if size is None:
        concrete(ar, f"The error arose for the first argument of jnp.unique(). {_HINT}")
    else:
        where = f"The error arose for the size argument of jnp.unique(). {_HINT}"
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
        results.append(out.first_places())
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
        self.sorted, self.new, self.order = _unique_sorted_mask(ar, axis, equal_nan)
        if size is None:
            known = concrete(self.new, f"The error arose in jnp.unique(). {_HINT}")
            self.starts = asarray(np.flatnonzero(np.asarray(known)), int)
        else:
            self.starts = nonzero(self.new, size=size)[0]

    @property
    def _empty(self) -> bool:
        return not self.sorted.size

    def values(self, fill_value: Any) -> Any:
        out = self.sorted if self._empty else getitem(self.sorted, self.starts)
        if self.size is not None and fill_value is not None:
            fill_value = cast(ensure_arraylike(_FILL, fill_value), out.dtype)
            if out.shape[0]:
                valid = lax.lt(arange(self.size, dtype=int), sum(self.new))
                valid = lax.expand_dims(valid, range(1, out.ndim))
                out = select_where(valid, out, fill_value)
            else:
                shape = (self.size, *out.shape[1:])
                out = lax.full_like(out, fill_value, shape=shape)
        return moveaxis(out, 0, self.axis)

    def first_places(self) -> Any:
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
def _unique_sorted_mask(ar: Any, axis: int, equal_nan: bool) -> tuple[Any, Any, Any]:
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
    """What `unique_all` returns."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """What `unique_counts` returns."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """What `unique_inverse` returns."""

    values: Any
    inverse_indices: Any


def unique_all(
    x: ArrayLike, /, *, size: int | None = None, fill_value: ArrayLike | None = None
) -> UniqueAllResult:
    """Distinct elements with first places, inverse and counts; every NaN is one.

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

    >>> from curta import numpy as jnp
    >>> jnp.unique_values(jnp.array([3, 1, 3]))
    Array([1, 3], dtype=int32)
    """
    x = ensure_arraylike("unique_values", x)
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


# ---- several sets


def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Whether each element occurs among the test elements (or not, with `invert`).

    `assume_unique` is a hint that spares nothing here: the results are the same.

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
    found = getitem(tests, searchsorted(tests, x))
    return lax.ne(x, found) if invert else lax.eq(x, found)


def union1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The distinct elements of both arrays.

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

    With `size`, exactly that many, filled up with `fill_value` (by default the
    smallest of them). With `assume_unique` no array is searched for elements that it
    has twice, which would be taken for common ones.

    >>> from curta import numpy as jnp
    >>> jnp.intersect1d(jnp.array([1, 3, 3]), jnp.array([2, 3]))
    Array([3], dtype=int32)
    """
    a, b = (
        ravel(x) for x in promote_dtypes(*ensure_arraylikes("intersect1d", ar1, ar2))
    )
    if size is not None and not a.size:
        out = lax.full((size,), 0 if fill_value is None else fill_value, a.dtype)
        places = [lax.full((size,), x.size, np.int32) for x in (a, b)]
        return (out, *places) if return_indices else out
    if assume_unique:
        return _common_neighbours(a, b, return_indices, size, fill_value)
    values, first = unique(a, return_index=True, size=None if size is None else a.size)
    common = _in1d(values, b, invert=False, method="auto")
    if size is not None:
        count = sum(_unique_sorted_mask(a, 0, True)[1])
        common = lax.bitwise_and(common, lax.lt(arange(a.size), count))
    out, (first,) = _selected(values, common, size, fill_value, (first,), a.size)
    if not return_indices:
        return out
    order = lexsort((b,))
    places = searchsorted(getitem(b, order), out)
    second = getitem(order, lax.min(places, const(places, b.size - 1)))
    if size is not None:
        valid = lax.lt(arange(size, dtype=int), sum(common))
        second = select_where(valid, second, b.size)
    return out, first, second


def _common_neighbours(
    a: Any, b: Any, return_indices: bool, size: int | None, fill_value: Any
) -> Any:
    """What stands twice in the sorted elements of both arrays, and its places."""
    joined = concatenate((a, b))
    joined, places = lax.sort((joined, arange(joined.size)), num_keys=1)
    common = lax.eq(getitem(joined, np.s_[1:]), getitem(joined, np.s_[:-1]))
    values = getitem(joined, np.s_[:-1])
    first = getitem(places, np.s_[:-1])
    second = lax.sub(getitem(places, np.s_[1:]), const(places, a.size))
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

    With `size`, exactly that many, filled up with `fill_value` (by default 0). With
    `assume_unique` elements keep their order, and come as often as in the first array.

    >>> from curta import numpy as jnp
    >>> jnp.setdiff1d(jnp.array([1, 3, 3]), jnp.array([2, 3]))
    Array([1], dtype=int32)
    """
    a, b = map(ravel, ensure_arraylikes("setdiff1d", ar1, ar2))
    if size is None:
        concrete(a, f"The error arose in setdiff1d(). {_HINT}")
    fill_value = full_like(a, 0 if fill_value is None else fill_value, shape=())
    if a.size == 0:
        return lax.full_like(a, fill_value, shape=(size or 0,))
    values, count = a, const(arange(1), a.size)
    if not assume_unique:
        values = unique(a, size=None if size is None else a.size)
        count = sum(_unique_sorted_mask(a, 0, True)[1])
    keep = _in1d(values, b, invert=True, method="auto")
    if size is not None:
        keep = lax.bitwise_and(keep, lax.lt(arange(values.size), count))
    return _selected(values, keep, size, fill_value, (), 0)[0]


def setxor1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: ArrayLike | None = None,
) -> Array:
    """The distinct elements that occur in exactly one of two arrays.

    With `assume_unique` no array is searched for elements that it has twice, which
    would be taken for common ones.

    >>> from curta import numpy as jnp
    >>> jnp.setxor1d(jnp.array([1, 3]), jnp.array([2, 3]))
    Array([1, 2], dtype=int32)
    """
    a, b = (ravel(x) for x in promote_dtypes(*ensure_arraylikes("setxor1d", ar1, ar2)))
    if size is None:
        for x in a, b:
            concrete(x, f"The error arose for the arguments of jnp.setxor1d(). {_HINT}")
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
    places = nonzero(keep, size=size)[0]
    valid = lax.lt(arange(size, dtype=int), sum(keep))
    out = getitem(values, places) if values.size else lax.full((size,), 0, values.dtype)
    if fill is None:
        fill = const(out, 0)
        fill = select_where(getitem(valid, 0), getitem(out, 0), fill) if size else fill
    rest = tuple(select_where(valid, getitem(x, places), missing) for x in others)
    out, fill = promote_dtypes(out, ensure_arraylike(_FILL, fill))
    return select_where(valid, out, fill), rest


def trim_zeros(
    filt: ArrayLike, trim: str = "fb", axis: int | Sequence[int] | None = None
) -> Array:
    """A known array without the zeros at its front ("f") and back ("b") along axes.

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
        (places,) = np.nonzero((known != 0).any(axis=others))
        if not places.size:
            index[i] = slice(0, 0)
            continue
        start = int(places[0]) if "f" in trim.lower() else 0
        stop = int(places[-1]) + 1 if "b" in trim.lower() else filt.shape[i]
        index[i] = slice(start, stop)
    return getitem(filt, tuple(index))
