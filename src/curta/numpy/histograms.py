"""Histograms, and interpolation between points."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence, Sized
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import (
    check_but_strings,
    check_operands,
    concrete_index,
    ensure_arraylike,
    ensure_arraylikes,
    is_complex,
)
from curta.numpy.arithmetic import absolute, remainder, true_divide
from curta.numpy.binning import bincount, searchsorted
from curta.numpy.constructors import asarray
from curta.numpy.creation import zeros
from curta.numpy.differences import diff
from curta.numpy.extrema import clip
from curta.numpy.index_update import IndexedUpdate
from curta.numpy.indexing import getitem
from curta.numpy.promotion import (
    const,
    promote_args,
    promote_dtypes,
    promote_dtypes_inexact,
)
from curta.numpy.ranges import linspace
from curta.numpy.reductions import max, min, ptp, sum
from curta.numpy.searching import ravel_multi_index
from curta.numpy.selection import select_where
from curta.numpy.shapes import expand_dims, reshape


def histogram_bin_edges(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Array | Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
) -> Array:
    """The edges of `bins` equal bins over the range of the data; or `bins` itself.

    Args:
      a: an array of any shape, which is flattened.
      bins: the number of bins, static; or a vector of edges. Default 10.
      range: (lower, upper) end of the bins. None (default) is the range of `a`.
      weights: not used, as no rule needs it here. Default None.

    Returns:
      The edges, (bins + 1,), in floats.

    Raises:
      TypeError: `a` is a list, a string or None; `bins` is not an integer and no
          vector.
      ValueError: `range` is not a pair.
      NotImplementedError: `bins` is a string.

    >>> from curta import numpy as jnp
    >>> jnp.histogram_bin_edges(jnp.array([0.0, 4.0]), 2)
    Array([0., 2., 4.], dtype=float32)
    """
    if isinstance(bins, str):
        raise NotImplementedError("string values for `bins` not implemented.")
    check_but_strings("histogram_bin_edges", a, bins)
    a = asarray(a)
    dtype = dtypes.to_inexact_dtype(a.dtype)
    if np.ndim(bins) == 1:
        return asarray(bins, dtype=dtype)
    count = concrete_index(bins, "bins argument of histogram_bin_edges")
    if range is None:
        range = [min(a), max(a)] if a.size else [0, 1]
    ends = asarray(range, dtype=dtype)
    if ends.shape != (2,):
        raise ValueError(
            f"`range` must be either None or a sequence of scalars, got {range}"
        )
    point = lax.eq(ptp(ends), const(ends, 0))
    low, high = getitem(ends, 0), getitem(ends, 1)
    half = const(low, 0.5)
    low = select_where(point, lax.sub(low, half), low)
    high = select_where(point, lax.add(high, half), high)
    return linspace(low, high, count + 1, dtype=dtype)


def histogram(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
    out_sharding: Any = None,
) -> tuple[Any, Any]:
    """How many elements (or what weight) fall into each bin, and the bins' edges.

    A bin contains its lower edge; the last one its upper edge too.

    Args:
      a: an array of any shape, which is flattened.
      bins: the number of bins, static; or a vector of their n + 1 edges, ascending.
        Default 10.
      range: (lower, upper) end of the bins, if `bins` is a number. None (default) is
        the range of `a`.
      weights: numbers of the shape of `a`. None (default) counts each as 1.
      density: divide so that the integral over the bins is 1. None (default) stands for
        False.
      out_sharding: how the counts are split over explicit axes of the mesh. None
        (default) lets it follow from `a`.

    Returns:
      Counts or densities (n,), in floats, and edges (n + 1,).

    Raises:
      TypeError: `a` or `weights` is a list or a string; `bins` is not an integer and no
        vector.
      ValueError: `range` is not a pair, or `weights` has another shape than `a`.
      IndexError: `bins` is negative.

    >>> from curta import numpy as jnp
    >>> jnp.histogram(jnp.array([0.0, 1.0, 4.0]), 2)
    (Array([2., 1.], dtype=float32), Array([0., 2., 4.], dtype=float32))
    """
    if weights is None:
        a, _ = ensure_arraylikes("histogram", a, bins)
        (a,) = promote_dtypes_inexact(a)
        weights = lax.full_like(a, 1)
    else:
        a, _, weights = ensure_arraylikes("histogram", a, bins, weights)
        if a.shape != weights.shape:
            raise ValueError("weights should have the same shape as a.")
        a, weights = promote_dtypes_inexact(a, weights)
    edges = histogram_bin_edges(a, bins, range, weights)
    count = edges.shape[0]
    bin_numbers = searchsorted(edges, a, side="right")
    last = lax.eq(*promote_args("equal", a, getitem(edges, -1)))
    bin_numbers = select_where(last, count - 1, bin_numbers)
    counts = _histogram_counts(bin_numbers, weights, count, out_sharding=out_sharding)
    if density:
        counts = true_divide(true_divide(counts, diff(edges)), sum(counts))
    return counts, edges


@takes_out_sharding
def _histogram_counts(
    bin_numbers: Any, weights: Any, count: int, *, out_sharding: Any = None
) -> Array:
    """The weights of each bin but the first, which is before the lowest edge."""
    counts = IndexedUpdate(zeros(count, weights.dtype), bin_numbers).add(weights)
    return getitem(counts, np.s_[1:])


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: ArrayLike | Sequence[ArrayLike] = 10,
    range: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Any, Any, Any]:
    """The histogram of points in the plane, and the edges of the bins.

    Args:
      x, y: coordinates of the points, vectors (points,).
      bins: the number of bins, or a vector of edges, for both dims; or a pair of these.
        Default 10.
      range: a pair of (lower, upper). None (default) is the range of the points.
      weights: numbers (points,). None (default) counts each as 1.
      density: divide so that the integral over the bins is 1. None (default) stands for
        False.

    Returns:
      Counts or densities (nx, ny), edges (nx + 1,), edges (ny + 1,).

    Raises:
      TypeError: `x`, `y` or `weights` is a list or a string; `x` and `y` differ in
        shape, or `bins` is not an integer and no vector.
      ValueError: `range` is not two pairs, `bins` not for two dims, or `weights` of
        another length.
      IndexError: `bins` is negative.

    >>> from curta import numpy as jnp
    >>> x = jnp.array([0.0, 1.0])
    >>> jnp.histogram2d(x, x, bins=2)[0]
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    x, y = ensure_arraylikes("histogram2d", x, y)
    if isinstance(bins, Sized):
        try:
            count = len(bins)
        except TypeError:
            count = 1
        if count not in (1, 2):
            bins = [asarray(bins)] * 2
    x, y = promote_dtypes(x, y)
    sample = lax.concatenate([lax.expand_dims(x, (0,)), lax.expand_dims(y, (0,))], 0)
    if x.ndim != 1:
        amount = "too many" if x.ndim else "not enough"
        raise ValueError(
            f"{amount} values to unpack (expected 2): histogram2d takes two vectors,"
            f" got arrays of shape {x.shape}"
        )
    sample = lax.transpose(sample, (1, 0))
    counts, edges = histogramdd(sample, bins, range, weights, density)
    return counts, edges[0], edges[1]


def histogramdd(
    sample: ArrayLike,
    bins: ArrayLike | Sequence[ArrayLike] = 10,
    range: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Any, list[Any]]:
    """The histogram of the rows of a matrix, and the edges of the bins of each dim.

    Args:
      sample: points, (points, dims).
      bins: the number of bins for all dims, or a sequence of numbers or vectors of
        edges for each. Default 10.
      range: a sequence of (lower, upper) for each dim. None (default) is the range of
        the points.
      weights: numbers (points,). None (default) counts each as 1.
      density: divide so that the integral over the bins is 1. None (default) stands for
        False.

    Returns:
      Counts or densities, an axis for each dim, and a list of the edges of each.

    Raises:
      TypeError: `sample` or `weights` is a list or a string; `bins` is not an integer
        and no sequence.
      ValueError: `sample` is not a matrix, `range` or `bins` not for each dim, or
        `weights` of another length.
      IndexError: `bins` is negative.

    >>> from curta import numpy as jnp
    >>> jnp.histogramdd(jnp.array([[0.0], [1.0], [1.0]]), bins=2)[0]
    Array([1, 2], dtype=int32)
    """
    if weights is None:
        (sample,) = promote_dtypes_inexact(ensure_arraylike("histogramdd", sample))
    else:
        sample, weights = ensure_arraylikes("histogramdd", sample, weights)
        if weights.shape != sample.shape[:1]:
            raise ValueError("should have one weight for each sample.")
        sample, weights = promote_dtypes_inexact(sample, weights)
    count, dims = sample.shape
    ranges = [None] * dims if range is None else range
    if not _are_pairs(ranges, dims):
        raise ValueError(
            f"For sample.shape={(count, dims)}, range must be a sequence of {dims}"
            f" pairs or Nones; got range={range!r}"
        )
    each: list[Any] = [bins] * dims
    if isinstance(bins, Iterable) and (isinstance(bins, Sequence) or np.ndim(bins)):
        each = list(bins)
    if len(each) != dims or isinstance(bins, str):
        raise ValueError("should be a bin for each dimension.")
    columns = lax.unstack(sample, 1)
    edges = [histogram_bin_edges(x, b, r) for x, b, r in zip(columns, each, ranges)]
    bin_numbers = [_bin_of(x, e) for x, e in zip(columns, edges)]
    sizes = tuple(e.shape[0] + 1 for e in edges)
    flat = ravel_multi_index(tuple(bin_numbers), sizes, mode="clip")
    counts = reshape(bincount(flat, weights, length=math.prod(sizes)), sizes)
    counts = getitem(counts, (slice(1, -1),) * dims)
    if density:
        counts = true_divide(counts, sum(counts))
        for i, e in enumerate(edges):
            others = [j for j, _ in enumerate(edges) if j != i]
            counts = true_divide(counts, expand_dims(diff(e), others))
        counts = lax.convert_element_type(counts, sample.dtype)
    return counts, edges


def _are_pairs(ranges: Any, count: int) -> bool:
    try:
        return len(ranges) == count and all(r is None or len(r) == 2 for r in ranges)
    except TypeError:
        return False


def _bin_of(x: Any, edges: Any) -> Any:
    number = searchsorted(edges, x, side="right")
    last = lax.eq(*promote_args("equal", x, getitem(edges, -1)))
    return select_where(last, lax.sub(number, const(number, 1)), number)


# ---- interpolation


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | str | None = None,
    right: ArrayLike | str | None = None,
    period: ArrayLike | None = None,
) -> Array:
    """The values at `x` of the piecewise linear function through (xp, fp).

    Args:
      x: points, an array of any shape, real.
      xp: the known points, a vector (n,), ascending unless `period` is given.
      fp: values at `xp`, a vector (n,).
      left: the value before xp[0], or "extrapolate". None (default) is fp[0].
      right: the value after xp[-1], or "extrapolate". None (default) is fp[-1].
      period: makes the function periodic, with this period; `left` and `right` are not
        used then. None (default) for none.

    Returns:
      The values, of the shape of `x`, in floats or complex numbers.

    Raises:
      TypeError: `x`, `xp`, `fp`, `left` or `right` is a list or a string.
      ValueError: `xp` and `fp` are not vectors of one length, `x` is complex, `left` or
        `right` is another string, or `period` no scalar.

    >>> from curta import numpy as jnp
    >>> jnp.interp(jnp.array([0.5, 9.0]), jnp.array([0.0, 1.0]), jnp.array([0.0, 10.0]))
    Array([ 5., 10.], dtype=float32)
    """
    for side, value in (("left", left), ("right", right)):
        if isinstance(value, str) and value != "extrapolate":
            raise ValueError(
                f"the only valid string value of `{side}` is 'extrapolate', but got:"
                f" {value!r}"
            )
    names = [
        name
        for name, value in (("left", left), ("right", right), ("period", period))
        if value is None or isinstance(value, str)
    ]
    function = _INTERPOLATIONS[tuple(names)]
    return function(x, xp, fp, left=left, right=right, period=period)


def _interp(x: Any, xp: Any, fp: Any, left: Any, right: Any, period: Any) -> Any:
    ends = [x for x in (left, right) if x is not None and not isinstance(x, str)]
    check_operands("interp, arguments left and right,", *ends)
    x, xp, fp = ensure_arraylikes("interp", x, xp, fp)
    if xp.shape != fp.shape or xp.ndim != 1:
        raise ValueError("xp and fp must be one-dimensional arrays of equal size")
    x, xp = promote_dtypes_inexact(x, xp)
    (fp,) = promote_dtypes_inexact(fp)
    if is_complex(x):
        raise ValueError("jnp.interp: complex x values not supported.")
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, period)
    i = clip(searchsorted(xp, x, side="right"), 1, xp.shape[0] - 1)
    before = lax.sub(i, const(i, 1))
    y0, x0 = getitem(fp, before), getitem(xp, before)
    rise, run = lax.sub(getitem(fp, i), y0), lax.sub(getitem(xp, i), x0)
    eps = np.spacing(np.finfo(xp.dtype).eps) if xp.dtype.kind == "f" else 0
    flat = lax.le(lax.abs(run), const(run, eps))
    share = lax.div(lax.sub(x, x0), select_where(flat, const(run, 1), run))
    value = lax.add(*promote_dtypes(y0, lax.mul(*promote_dtypes(share, rise))))
    out = select_where(flat, y0, value)
    if period is None:
        out = _beyond(out, lax.lt, x, getitem(xp, 0), left, getitem(fp, 0))
        out = _beyond(out, lax.gt, x, getitem(xp, -1), right, getitem(fp, -1))
    return out


_INTERPOLATIONS: dict[tuple[str, ...], Callable[..., Array]] = {
    names: inner_jit(_interp, static_argnames=names)
    for names in (
        *((), ("left",), ("right",), ("period",)),
        *(("left", "right"), ("left", "period"), ("right", "period")),
        ("left", "right", "period"),
    )
}


def _periodic(x: Any, xp: Any, fp: Any, period: Any) -> tuple[Any, Any, Any]:
    if np.ndim(period) != 0:
        raise ValueError(f"period must be a scalar; got {period}")
    x, xp, period = promote_dtypes(x, xp, absolute(period))
    x, xp = remainder(x, period), remainder(xp, period)
    xp, fp = lax.sort_key_val(xp, fp)
    first, last = np.s_[:1], np.s_[-1:]
    before, after = (
        lax.sub(getitem(xp, last), period),
        lax.add(getitem(xp, first), period),
    )
    xp = lax.concatenate([before, xp, after], 0)
    fp = lax.concatenate([getitem(fp, last), fp, getitem(fp, first)], 0)
    return x, xp, fp


def _beyond(
    out: Any, compare: Any, x: Any, bound: Any, value: Any, default: Any
) -> Any:
    if isinstance(value, str):
        return out
    outside = compare(*promote_args("less", x, bound))
    return select_where(outside, default if value is None else value, out)
