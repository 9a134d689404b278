"""Histograms, interpolation, covariance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.core.array import Array, ArrayLike, DTypeLike
from curta.numpy.arguments import (
    check_arraylike,
    check_but_strings,
    check_operands,
    concrete_index,
    ensure_arraylike,
    ensure_arraylikes,
    is_complex,
    user_dtype,
)
from curta.numpy.arithmetic import absolute, clip, multiply, remainder, true_divide
from curta.numpy.binning import bincount, searchsorted
from curta.numpy.complex_numbers import conjugate, imag, real
from curta.numpy.constructors import asarray
from curta.numpy.creation import full, zeros
from curta.numpy.cumulative import diff
from curta.numpy.index_update import IndexedUpdate
from curta.numpy.indexing import getitem
from curta.numpy.joining import concatenate
from curta.numpy.linear_algebra import diag, dot
from curta.numpy.promotion import (
    cast,
    const,
    promote_args,
    promote_args_inexact,
    promote_dtypes,
    promote_dtypes_inexact,
)
from curta.numpy.ranges import linspace
from curta.numpy.reductions import max, min, ptp, sum
from curta.numpy.searching import ravel_multi_index
from curta.numpy.selection import select_where
from curta.numpy.shapes import atleast_2d, expand_dims, reshape, squeeze, transpose
from curta.numpy.statistics import average


def histogram_bin_edges(
    a: ArrayLike,
    bins: ArrayLike = 10,
    range: Array | Sequence[ArrayLike] | None = None,
    weights: ArrayLike | None = None,
) -> Array:
    """The edges of `bins` equal bins over the range of the data; or `bins` itself.

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
) -> tuple[Any, Any]:
    """How many elements (or what weight) fall into each bin, and the bins' edges.

    The last bin includes its upper edge. With `density` the integral is 1.

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
    places = searchsorted(edges, a, side="right")
    last = lax.eq(*promote_args("equal", a, getitem(edges, -1)))
    places = select_where(last, count - 1, places)
    counts = IndexedUpdate(zeros(count, weights.dtype), places).add(weights)
    counts = getitem(counts, np.s_[1:])
    if density:
        counts = true_divide(true_divide(counts, diff(edges)), sum(counts))
    return counts, edges


def histogram2d(
    x: ArrayLike,
    y: ArrayLike,
    bins: ArrayLike | Sequence[ArrayLike] = 10,
    range: Sequence[Any] | None = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,
) -> tuple[Any, Any, Any]:
    """The histogram of points in the plane, and the edges of the bins.

    >>> from curta import numpy as jnp
    >>> x = jnp.array([0.0, 1.0])
    >>> jnp.histogram2d(x, x, bins=2)[0]
    Array([[1, 0],
           [0, 1]], dtype=int32)
    """
    x, y = ensure_arraylikes("histogram2d", x, y)
    try:
        count = len(bins)
    except TypeError:
        count = 1
    if count not in (1, 2):
        bins = [asarray(bins)] * 2
    x, y = promote_dtypes(x, y)
    sample = lax.concatenate([lax.expand_dims(x, (0,)), lax.expand_dims(y, (0,))], 0)
    if x.ndim != 1:
        found = "too many" if x.ndim else "not enough"
        raise ValueError(
            f"{found} values to unpack (expected 2): histogram2d takes two vectors, got"
            f" arrays of shape {x.shape}"
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
    several = isinstance(bins, (list, tuple)) or np.ndim(bins) > 0
    each = list(bins) if several else [bins] * dims
    if len(each) != dims or isinstance(bins, str):
        raise ValueError("should be a bin for each dimension.")
    columns = lax.unstack(sample, 1)
    edges = [histogram_bin_edges(x, b, r) for x, b, r in zip(columns, each, ranges)]
    places = [_bin_of(x, e) for x, e in zip(columns, edges)]
    sizes = tuple(e.shape[0] + 1 for e in edges)
    flat = ravel_multi_index(tuple(places), sizes, mode="clip")
    counts = reshape(bincount(flat, weights, length=math.prod(sizes)), sizes)
    counts = getitem(counts, (slice(1, -1),) * dims)
    if density:
        counts = true_divide(counts, sum(counts))
        for i, e in enumerate(edges):
            others = [j for j, _ in enumerate(edges) if j != i]
            counts = true_divide(counts, expand_dims(diff(e), others))
    return counts, edges


def _are_pairs(ranges: Any, count: int) -> bool:
    try:
        return len(ranges) == count and all(r is None or len(r) == 2 for r in ranges)
    except TypeError:
        return False


def _bin_of(x: Any, edges: Any) -> Any:
    places = searchsorted(edges, x, side="right")
    last = lax.eq(*promote_args("equal", x, getitem(edges, -1)))
    return select_where(last, lax.sub(places, const(places, 1)), places)


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

    `left` and `right` are the values outside: by default those at the ends, or the
    string "extrapolate". `period` makes the function periodic.

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


_INTERPOLATIONS = {
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


# ---- covariance


@inner_jit(static_argnames=("rowvar", "bias", "ddof", "dtype"))
def cov(
    m: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: ArrayLike | None = None,
    aweights: ArrayLike | None = None,
    dtype: DTypeLike | None = None,
) -> Array:
    """The covariance matrix of variables in rows (or columns, without `rowvar`).

    `y` has further variables; `fweights` says how often each observation counts,
    `aweights` how much. The divisor is the count less `ddof`, by default 1, or 0 with
    `bias`.

    >>> from curta import numpy as jnp
    >>> jnp.cov(jnp.array([[0.0, 2.0], [0.0, 4.0]]))
    Array([[2., 4.],
           [4., 8.]], dtype=float32)
    """
    dtype = _inexact_dtype("cov", dtype)
    x = _variables(m, y, rowvar)
    if x.shape[0] == 0:
        return zeros((0, 0))
    if x.shape[1] == 0:
        shape = () if x.shape[0] == 1 else (x.shape[0],) * 2
        return full(shape, np.nan, dtype=x.dtype)
    ddof = (0 if bias else 1) if ddof is None else ddof
    weights = _observation_weights(x, fweights, aweights)
    if dtype is not None:
        x = cast(x, dtype)
        weights = None if weights is None else cast(weights, dtype)
    avg, total = average(x, axis=1, weights=weights, returned=True)
    total = getitem(total, 0)
    if weights is None:
        divisor: Any = x.shape[1] - ddof
    elif ddof == 0:
        divisor = total
    elif aweights is None:
        divisor = lax.sub(total, const(total, ddof))
    else:
        again = multiply(weights, absolute(asarray(aweights)))
        divisor = lax.sub(total, true_divide(multiply(ddof, sum(again)), total))
    x = lax.sub(x, expand_dims(avg, 1))
    scaled = x if weights is None else multiply(x, expand_dims(weights, 0))
    return squeeze(true_divide(dot(x, conjugate(transpose(scaled))), divisor))


def _inexact_dtype(name: str, dtype: Any) -> Any:
    dtype = user_dtype(dtype, name)
    if dtype is not None and not dtypes.issubdtype(dtype, np.inexact):
        raise ValueError(
            f"{name}: dtype must be a subclass of float or complex; got dtype={dtype!r}"
        )
    return dtype


def _variables(m: Any, y: Any, rowvar: bool) -> Any:
    if y is None:
        (m,) = promote_args_inexact("cov", m)
    else:
        m, y = promote_args_inexact("cov", m, y)
        if np.ndim(y) > 2:
            raise ValueError("y has more than 2 dimensions")
    if np.ndim(m) > 2:
        raise ValueError("m has more than 2 dimensions")
    x = atleast_2d(m)
    if not rowvar and np.ndim(m) != 1:
        x = transpose(x)
    if y is None:
        return x
    y = atleast_2d(y)
    if not rowvar and y.shape[0] != 1:
        y = transpose(y)
    return concatenate((x, y), axis=0)


def _observation_weights(x: Any, fweights: Any, aweights: Any) -> Any:
    out = None
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is None:
            continue
        w = ensure_arraylike("cov", given)
        if w.ndim > 1:
            raise RuntimeError(f"cannot handle multidimensional {name}")
        if w.shape[0] != x.shape[1]:
            raise RuntimeError(f"incompatible numbers of samples and {name}")
        if name == "fweights" and not dtypes.issubdtype(w.dtype, np.integer):
            raise TypeError("fweights must be integer.")
        w = absolute(w)
        out = w if out is None else multiply(out, w)
    return out


@inner_jit(static_argnames=("rowvar", "dtype"))
def corrcoef(
    x: ArrayLike,
    y: ArrayLike | None = None,
    rowvar: bool = True,
    dtype: DTypeLike | None = None,
) -> Array:
    """The matrix of correlation coefficients.

    >>> from curta import numpy as jnp
    >>> jnp.corrcoef(jnp.array([[0.0, 2.0], [0.0, 4.0]]))
    Array([[1., 1.],
           [1., 1.]], dtype=float32)
    """
    check_arraylike("corrcoef", x)
    c = cov(x, y, rowvar, dtype=_inexact_dtype("corrcoef", dtype))
    if c.ndim == 0:
        return true_divide(c, c)
    deviations = cast(lax.sqrt(real(diag(c))), c.dtype)
    c = lax.div(c, expand_dims(deviations, 1))
    c = lax.div(c, expand_dims(deviations, 0))
    re = clip(real(c), -1, 1)
    return lax.complex(re, clip(imag(c), -1, 1)) if is_complex(c) else re
