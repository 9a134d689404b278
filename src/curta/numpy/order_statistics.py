"""Quantiles, percentiles and medians."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta._settings.api_version import QUANTILES_SORT_UNSTABLY
from curta.api.inner import inner_jit
from curta.api.out_sharding import takes_out_sharding
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import (
    canonical_axis,
    ensure_arraylike,
    ensure_arraylikes,
    is_complex,
)
from curta.numpy.cumulative import cumsum
from curta.numpy.folds import listed_axes
from curta.numpy.promotion import (
    broadcast_to_shape,
    cast,
    const,
    promote_dtypes_inexact,
)
from curta.numpy.reductions import any, sum
from curta.numpy.selection import select_where
from curta.numpy.taking import take_along_axis

Axes = int | tuple[int, ...] | None
_METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")
_STATIC = ("axis", "overwrite_input", "keepdims", "method")


@inner_jit(static_argnames=_STATIC)
def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Array:
    """The values below which fractions `q` of the elements lie; NaN if one is.

    The element (n - 1) q of n sorted ones, by `method` where that lies between two:
    R. J. Hyndman and Y. Fan, Sample quantiles in statistical packages (1996), their
    type 7 ("linear") and type 1 ("inverted_cdf").

    Args:
      a: an array of real numbers, of any shape.
      q: fractions from 0 to 1, floats: a scalar or a vector.
      axis: int or distinct ints, the axes to reduce. None (default) is all axes.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      overwrite_input: must be False (default), as arrays do not change.
      method: what to do between two elements: "linear" (default), "lower", "higher",
        "midpoint", "nearest"; or "inverted_cdf", which takes `weights`.
      keepdims: keep the reduced axes, with size 1. Default False.
      weights: for "inverted_cdf": how much each element counts, of the shape of `a` or
        of its reduced axes. None (default) for alike.

    Returns:
      The quantiles, in floats: `q`'s dim, if it has one, then `a`'s shape without the
      reduced axes (or with size 1 there).

    Raises:
      TypeError: `a` or `q` is a list, a string or None; `axis` is not of integers;
        there are no elements; `q` is of integers.
      ValueError: an axis is out of bounds or occurs twice; `a` is complex, `q` has two
        dims or more, `method` is unknown, or `out` or `overwrite_input` is given.
      NotImplementedError: `weights` is given with another method.

    >>> from curta import numpy as jnp
    >>> jnp.quantile(jnp.array([1.0, 2.0, 3.0, 4.0]), 0.5)
    Array(2.5, dtype=float32)
    """
    _refuse_in_place("quantile", overwrite_input, out)
    return _quantile("quantile", a, q, axis, method, keepdims, False, weights)


@inner_jit(static_argnames=_STATIC)
def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Array:
    """Like `quantile`, of the elements that are not NaN.

    Args:
      a: an array of real numbers, of any shape.
      q: fractions from 0 to 1, floats: a scalar or a vector.
      axis: int or distinct ints, the axes to reduce. None (default) is all axes.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      overwrite_input: must be False (default), as arrays do not change.
      method: what to do between two elements: "linear" (default), "lower", "higher",
        "midpoint", "nearest"; or "inverted_cdf", which takes `weights`.
      keepdims: keep the reduced axes, with size 1. Default False.
      weights: for "inverted_cdf": how much each element counts, of the shape of `a` or
        of its reduced axes. None (default) for alike.

    Returns:
      The quantiles, in floats: `q`'s dim, if it has one, then `a`'s shape without the
      reduced axes (or with size 1 there); NaN where all elements are.

    Raises:
      TypeError: `a` or `q` is a list, a string or None; `axis` is not of integers; `q`
        is of integers.
      ValueError: an axis is out of bounds or occurs twice; `a` is complex, `q` has two
        dims or more, `method` is unknown, or `out` or `overwrite_input` is given.
      IndexError: there are no elements.
      NotImplementedError: `weights` is given with another method.

    >>> from curta import numpy as jnp
    >>> jnp.nanquantile(jnp.array([1.0, jnp.nan, 3.0]), 0.5)
    Array(2., dtype=float32)
    """
    _refuse_in_place("nanquantile", overwrite_input, out)
    return _quantile("nanquantile", a, q, axis, method, keepdims, True, weights)


def _refuse_in_place(name: str, overwrite_input: bool, out: None) -> None:
    if overwrite_input or out is not None:
        raise ValueError(
            f"jax.numpy.{name} does not support overwrite_input=True or out != None"
        )


def _hundredths(q: Any) -> Any:
    (q,) = promote_dtypes_inexact(q)
    return lax.div(q, const(q, 100))


@takes_out_sharding
@inner_jit(static_argnames=_STATIC)
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The values below which `q` percent of the elements lie; see `quantile`.

    Args:
      a: an array of real numbers, of any shape.
      q: percentages from 0 to 100: a scalar or a vector.
      axis: int or distinct ints, the axes to reduce. None (default) is all axes.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      overwrite_input: must be False (default), as arrays do not change.
      method: what to do between two elements: "linear" (default), "lower", "higher",
        "midpoint", "nearest"; or "inverted_cdf", which takes `weights`.
      keepdims: keep the reduced axes, with size 1. Default False.
      weights: for "inverted_cdf": how much each element counts, of the shape of `a` or
        of its reduced axes. None (default) for alike.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the result; None (default)
        lets it follow from the operands.

    Returns:
      The percentiles, in floats: `q`'s dim, if it has one, then `a`'s shape without the
      reduced axes (or with size 1 there); NaN if an element is.

    Raises:
      TypeError: `a` or `q` is a list, a string or None; `axis` is not of integers;
        there are no elements; `out_sharding` is not a sharding.
      ValueError: an axis is out of bounds or occurs twice; `a` is complex, `q` has two
        dims or more, `method` is unknown, or `out` or `overwrite_input` is given.
      NotImplementedError: `weights` is given with another method.

    >>> from curta import numpy as jnp
    >>> jnp.percentile(jnp.array([1.0, 2.0, 3.0]), 50)
    Array(2., dtype=float32)
    """
    a, q = ensure_arraylikes("percentile", a, q)
    how = (axis, out, overwrite_input, method, keepdims)
    return quantile(a, _hundredths(q), *how, weights=weights)


@inner_jit(static_argnames=_STATIC)
def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Array:
    """Like `percentile`, of the elements that are not NaN.

    Args:
      a: an array of real numbers, of any shape.
      q: percentages from 0 to 100: a scalar or a vector.
      axis: int or distinct ints, the axes to reduce. None (default) is all axes.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      overwrite_input: must be False (default), as arrays do not change.
      method: what to do between two elements: "linear" (default), "lower", "higher",
        "midpoint", "nearest"; or "inverted_cdf", which takes `weights`.
      keepdims: keep the reduced axes, with size 1. Default False.
      weights: for "inverted_cdf": how much each element counts, of the shape of `a` or
        of its reduced axes. None (default) for alike.

    Returns:
      The percentiles, in floats: `q`'s dim, if it has one, then `a`'s shape without the
      reduced axes (or with size 1 there); NaN where all elements are.

    Raises:
      TypeError: `a` or `q` is a list, a string or None; `axis` is not of integers.
      ValueError: an axis is out of bounds or occurs twice; `a` is complex, `q` has two
        dims or more, `method` is unknown, or `out` or `overwrite_input` is given.
      IndexError: there are no elements.
      NotImplementedError: `weights` is given with another method.

    >>> from curta import numpy as jnp
    >>> jnp.nanpercentile(jnp.array([1.0, jnp.nan, 3.0]), 50)
    Array(2., dtype=float32)
    """
    a, q = ensure_arraylikes("nanpercentile", a, q)
    how = (axis, out, overwrite_input, method, keepdims)
    return nanquantile(a, _hundredths(q), *how, weights=weights)


@inner_jit(static_argnames=("axis", "overwrite_input", "keepdims"))
def median(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The middle element of the sorted ones, or the mean of the two middle ones.

    Args:
      a: an array of real numbers, of any shape.
      axis: int or distinct ints, the axes to reduce. None (default) is all axes.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      overwrite_input: must be False (default), as arrays do not change.
      keepdims: keep the reduced axes, with size 1. Default False.

    Returns:
      The medians, in floats: `a`'s shape without the reduced axes (or with size 1
      there); NaN if an element is.

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not of integers; there are
        no elements.
      ValueError: an axis is out of bounds or occurs twice; `a` is complex, or `out` or
        `overwrite_input` is given.

    >>> from curta import numpy as jnp
    >>> jnp.median(jnp.array([3, 1, 2]))
    Array(2., dtype=float32)
    """
    a = ensure_arraylike("median", a)
    return quantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


@inner_jit(static_argnames=("axis", "overwrite_input", "keepdims"))
def nanmedian(
    a: ArrayLike,
    axis: Axes = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """Like `median`, of the elements that are not NaN.

    Args:
      a: an array of real numbers, of any shape.
      axis: int or distinct ints, the axes to reduce. None (default) is all axes.
      out: must be None (default), as arrays do not change; it is there for NumPy's
        callers.
      overwrite_input: must be False (default), as arrays do not change.
      keepdims: keep the reduced axes, with size 1. Default False.

    Returns:
      The medians, in floats: `a`'s shape without the reduced axes (or with size 1
      there); NaN where all elements are.

    Raises:
      TypeError: `a` is a list, a string or None; `axis` is not of integers.
      ValueError: an axis is out of bounds or occurs twice; `a` is complex, or `out` or
        `overwrite_input` is given.
      IndexError: there are no elements.

    >>> from curta import numpy as jnp
    >>> jnp.nanmedian(jnp.array([3, 1, jnp.nan]))
    Array(2., dtype=float32)
    """
    a = ensure_arraylike("nanmedian", a)
    return nanquantile(a, 0.5, axis, out, overwrite_input, "midpoint", keepdims)


def _quantile(
    name: str,
    a: Any,
    q: Any,
    axis: Axes,
    method: str,
    keepdims: bool,
    skip_nan: bool,
    weights: Any,
) -> Any:
    a, q = ensure_arraylikes(name, a, q)
    if method not in _METHODS:
        raise ValueError(
            "method can only be 'linear', 'lower', 'higher', 'midpoint', 'nearest' or"
            " 'inverted_cdf'"
        )
    if weights is not None:
        a, weights = _checked_weights(name, a, axis, method, weights)
    else:
        (a,) = promote_dtypes_inexact(a)
    if is_complex(a):
        raise ValueError(
            "quantile does not support complex input, as the operation is poorly"
            " defined."
        )
    if q.ndim > 1:
        raise ValueError(f"q must be have rank <= 1, got shape {q.shape}")
    kept = _kept_shape(a.shape, axis)
    a, axis, weights = _one_axis(a, axis, weights)
    if not a.shape[axis]:
        raise _no_elements(a, axis, skip_nan and not q.ndim)
    if not skip_nan:
        missing = any(lax.ne(a, a), axis=axis, keepdims=True)
        a = select_where(missing, np.nan, a)
    if weights is not None or method == "inverted_cdf":
        out = _weighted(a, q, axis, skip_nan, weights)
    else:
        out = _interpolated(a, q, axis, skip_nan, method)
    out = cast(out, a.dtype)
    return lax.reshape(out, (*q.shape, *kept)) if keepdims else out


def _no_elements(a: Any, axis: int, scalar: bool) -> Exception:
    help = "There is no quantile of no elements."
    if scalar and a.ndim == 1:
        return IndexError(f"index is out of bounds for axis {axis} with size 0. {help}")
    return TypeError(
        f"Slice size at index {axis} in gather op is out of range, must be within"
        f" [0, 0 + 1), got 1. {help}"
    )


def _checked_weights(
    name: str, a: Any, axis: Axes, method: str, weights: Any
) -> tuple[Any, Any]:
    weights = ensure_arraylike(name, weights)
    if is_complex(weights):
        raise ValueError("Weights cannot be complex types.")
    if method != "inverted_cdf":
        raise NotImplementedError(
            f"{method} doesn't support weights. Only method 'inverted_cdf' supports"
            " weights."
        )
    a, weights = promote_dtypes_inexact(a, weights)
    if weights.shape == a.shape:
        return a, weights
    if axis is None:
        raise ValueError("Weights shape must match 'a' shape when axis is None.")
    axes = tuple(canonical_axis(i, a.ndim) for i in listed_axes(axis))
    expected = tuple(a.shape[i] for i in axes)
    if weights.shape != expected:
        raise ValueError(
            f"Weights shape {weights.shape} must match reduction axes {expected}"
        )
    return a, lax.broadcast_in_dim(weights, a.shape, axes)


def _kept_shape(shape: tuple[int, ...], axis: Axes) -> tuple[int, ...]:
    """The shape with dims of size 1 in place of those reduced over."""
    if axis is None:
        return (1,) * len(shape)
    axes = [canonical_axis(i, len(shape)) for i in listed_axes(axis)]
    return tuple(1 if i in axes else d for i, d in enumerate(shape))


def _one_axis(a: Any, axis: Axes, weights: Any) -> tuple[Any, int, Any]:
    """The array with all dims to be reduced over as a single one."""
    axes = range(a.ndim) if axis is None else listed_axes(axis)
    reduced = [canonical_axis(i, a.ndim) for i in axes]
    if axis is not None and len(reduced) == 1:
        return a, reduced[0], weights
    if len(set(reduced)) != len(reduced):
        raise ValueError("repeated axis")
    kept = [i for i in range(a.ndim) if i not in reduced]
    count = math.prod(a.shape[i] for i in reduced)
    shape = (*(a.shape[i] for i in kept), count)
    order = None if axis is None else (*kept, *sorted(reduced))

    def gathered(x: Any) -> Any:
        if x is None or x.shape == shape:
            return x
        return lax.reshape(x, shape, order)

    return gathered(a), len(kept), gathered(weights)


def _interpolated(a: Any, q: Any, axis: int, skip_nan: bool, method: str) -> Any:
    """The elements around the position q·(n - 1) of the sorted array, joined."""
    stable = not QUANTILES_SORT_UNSTABLY.applies()
    a = lax.sort(a, dimension=axis, is_stable=stable)
    if skip_nan:
        valid = lax.bitwise_not(lax.ne(a, a))
        count = sum(valid, axis=axis, dtype=q.dtype)
        rank = q.ndim
        q = lax.expand_dims(q, range(rank, rank + count.ndim)) if count.ndim else q
        count = lax.expand_dims(count, range(rank))
    else:
        count = const(q, a.shape[axis])
    position = lax.mul(q, lax.sub(count, const(q, 1)))
    low, high = lax.floor(position), lax.ceil(position)
    high_weight = lax.sub(position, low)
    low_weight = lax.sub(const(high_weight, 1), high_weight)
    low, high = _clamped(low, count), _clamped(high, count)
    low, high = (cast(x, dtypes.default_int_dtype()) for x in (low, high))
    take = _take_own if skip_nan else _take_same
    low_value, high_value = take(a, low, axis), take(a, high, axis)
    if not skip_nan and q.ndim == 1:
        shape = low_value.shape
        low_weight = lax.broadcast_in_dim(low_weight, shape, (0,))
        high_weight = lax.broadcast_in_dim(high_weight, shape, (0,))
    return _joined(method, q.dtype, low_value, high_value, low_weight, high_weight)


def _clamped(x: Any, count: Any) -> Any:
    """`x`, no less than 0 and no more than `count` - 1."""
    zero, last = const(x, 0), lax.sub(count, const(x, 1))
    if np.ndim(last) == 0:
        return lax.clamp(zero, x, last)
    return lax.max(zero, lax.min(x, last))


def _take_same(a: Any, indices: Any, axis: int) -> Any:
    """The slices of `a` at scalar indices, their dims in front."""
    rank = indices.ndim
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(rank, a.ndim + rank - 1)),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
    )
    sizes = (*a.shape[:axis], 1, *a.shape[axis + 1 :])
    indices = lax.expand_dims(indices, (rank,))
    return lax.gather(a, indices, numbers, sizes)


def _take_own(a: Any, indices: Any, axis: int) -> Any:
    """For each element of a reduced array (after q's dim), the one at its index."""
    rows = a.ndim - 1
    if indices.ndim == rows:
        indices = lax.expand_dims(indices, (axis,))
        return lax.squeeze(take_along_axis(a, indices, axis=axis), (axis,))
    order = (*range(1, axis + 1), 0, *range(axis + 1, indices.ndim))
    out = take_along_axis(a, lax.transpose(indices, order), axis=axis)
    back = tuple(int(i) for i in np.argsort(order))
    return lax.transpose(out, back)


def _joined(
    method: str, dtype: Any, low: Any, high: Any, low_weight: Any, high_weight: Any
) -> Any:
    if method == "linear":
        low, high = cast(low, dtype), cast(high, dtype)
        return lax.add(lax.mul(low, low_weight), lax.mul(high, high_weight))
    if method == "lower":
        return low
    if method == "higher":
        return high
    if method == "midpoint":
        return lax.mul(lax.add(low, high), const(low, 0.5))
    nearer = lax.le(high_weight, const(high_weight, 0.5))
    return lax.select(broadcast_to_shape(nearer, low.shape), low, high)


def _weighted(a: Any, q: Any, axis: int, skip_nan: bool, weights: Any) -> Any:
    """The first element at which the running sum of weights reaches q of the total."""
    if weights is None:
        weights = lax.full_like(a, 1)
    a, weights = lax.sort_key_val(a, weights, dimension=axis)
    bad = lax.bitwise_or(lax.lt(weights, const(weights, 0)), lax.ne(weights, weights))
    missing = lax.ne(a, a)
    zero = lax.full_like(weights, 0)
    clean = lax.select(lax.bitwise_or(bad, missing), zero, weights)
    running = cumsum(clean, axis=axis)
    total = lax.index_in_dim(running, -1, axis=axis, keepdims=True)
    one = lax.expand_dims(q, range(q.ndim, q.ndim + a.ndim))
    target = lax.mul(cast(one, weights.dtype), lax.expand_dims(total, range(q.ndim)))
    less = lax.lt(lax.expand_dims(running, range(q.ndim)), target)
    position = sum(cast(less, dtypes.default_int_dtype()), axis=axis + q.ndim)
    count = sum(lax.bitwise_not(missing), axis=axis, dtype=position.dtype)
    last = lax.sub(count, const(count, 1))
    position = lax.max(
        const(position, 0), lax.min(position, lax.expand_dims(last, range(q.ndim)))
    )
    out = _take_own(a, position, axis)
    wrong = any(bad, axis=axis)
    if skip_nan:
        wrong = lax.bitwise_or(wrong, lax.eq(count, const(count, 0)))
    else:
        wrong = lax.bitwise_or(wrong, any(missing, axis=axis))
    return select_where(lax.expand_dims(wrong, range(q.ndim)), np.nan, out)
