"""Counting integers, and searching sorted vectors."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes, lax
from curta.api.inner import inner_jit
from curta.api.out_sharding import (
    explicit_sharding,
    says_nothing,
    sum_of_terms,
    takes_out_sharding,
)
from curta.core.array import Array, ArrayLike
from curta.core.trace import typeof
from curta.errors import ShardingTypeError
from curta.lax.index_types import fitting_dtype
from curta.numpy.arguments import (
    concrete,
    concrete_index,
    ensure_arraylike,
    ensure_arraylikes,
)
from curta.numpy.creation import zeros
from curta.numpy.extrema import clip
from curta.numpy.index_update import IndexedUpdate
from curta.numpy.indexing import getitem
from curta.numpy.logic import greater_equal, less, less_equal
from curta.numpy.promotion import cast, const, promote_dtypes
from curta.numpy.reductions import sum
from curta.numpy.selection import broadcast_all, select_where


def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
    out_sharding: Any = None,
) -> Array:
    """How often each integer from 0 occurs, or the sum of its `weights`.

    Args:
      x: a vector of integers or booleans; negative ones count as 0.
      weights: numbers of the shape of `x`. None (default) counts each as 1.
      minlength: the least length of the result. Default 0.
      length: static length of the result, which jit needs; integers beyond it are
        dropped. None (default) is the largest integer plus one.
      out_sharding: where the counts are to be; unreduced over the axes that split `x`,
        each device counts its own; it may split nothing. None (default) lets it follow
        from `x`.

    Returns:
      Counts, (length,), of the default integer dtype or of the dtype of `weights`.

    Raises:
      TypeError: `x` is a list or a string, or not of integers; `weights` is not an
        array; `minlength` or `length` is not an integer or is negative; `out_sharding`
        is not a sharding.
      ValueError: `weights` has another shape than `x`.
      ConcretizationTypeError: `x` is traced and `length` is not given.

    >>> from curta import numpy as jnp
    >>> jnp.bincount(jnp.array([0, 2, 2]))
    Array([1, 0, 2], dtype=int32)
    """
    x = ensure_arraylike("bincount", x)
    if x.dtype == np.bool_:
        x = cast(x, np.dtype(np.int32))
    if not dtypes.issubdtype(x.dtype, np.integer):
        raise TypeError(
            f"x argument to bincount must have an integer type; got {x.dtype}"
        )
    if x.ndim != 1:
        raise ValueError("only 1-dimensional input supported.")
    minlength = concrete_index(
        minlength,
        "The error occurred because of argument 'minlength' of jnp.bincount.",
    )
    if length is None:
        known = concrete(
            x,
            "The error occurred because of argument 'x' of jnp.bincount. To avoid this"
            " error, pass a static `length` argument.",
            np.asarray,
        )
        length = max(minlength, int(known.max(initial=0)) + 1 if known.size else 0)
    else:
        length = concrete_index(
            length, "The error occurred because of argument 'length' of jnp.bincount."
        )
    if out_sharding is not None and not says_nothing(out_sharding):
        out_sharding = explicit_sharding("bincount", out_sharding)
        if any(out_sharding.spec.partitions):
            raise ShardingTypeError(
                "out_sharding passed to `jnp.bincount` can only be fully replicated or"
                f" fully unreduced along all mesh axes. Got {out_sharding.spec}"
            )
    if weights is None:
        return _counted(x, length=length, out_sharding=out_sharding)
    if typeof(weights).shape != x.shape:
        raise ValueError(
            "type of weights must match type of x. Their shapes differ: got"
            f" {typeof(weights).shape} and {x.shape}"
        )
    return _counted(x, weights, length=length, out_sharding=out_sharding)


@takes_out_sharding(sums=True)
def _counted(*operands: Any, length: int, out_sharding: Any = None) -> Any:
    """How often the integers of the first operand occur, or the sum of the second."""

    def count(x: Any, weights: Any = None) -> Any:
        if weights is None:
            weights = np.ones((), dtypes.default_int_dtype())[()]
        counts = zeros(length, dtypes.dtype(weights))
        return IndexedUpdate(counts, clip(x, 0)).add(weights, mode="drop")

    if out_sharding is None:
        return count(*operands)
    return sum_of_terms(count, operands, [(0,)] * len(operands), out_sharding)


@inner_jit(static_argnames=("side", "method"))
def searchsorted(
    a: ArrayLike,
    v: ArrayLike,
    side: str = "left",
    sorter: ArrayLike | None = None,
    *,
    method: str = "scan",
) -> Array:
    """Where to insert `v` into the sorted vector `a`, by halving intervals.

    NaN sorts last.

    Args:
      a: a vector in ascending order, or in the order that `sorter` gives.
      v: an array or scalar to look for, of any shape.
      side: "left" (default) inserts before equal elements, "right" after them.
      sorter: integers (n,) that sort `a`, as `argsort` gives them. None (default) for a
        sorted vector.
      method: "scan" (default) halves intervals in a loop, "scan_unrolled" without one,
        "sort" sorts `a` and `v` together, "compare_all" compares with every element.

    Returns:
      Indices from 0 to a.size, of the default integer dtype, or int64 for vectors that
      need it; of the shape of `v`.

    Raises:
      TypeError: `a` or `v` is a list, a string or None; `sorter` is not of integers.
      ValueError: `a` is not a vector; `side` or `method` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.searchsorted(jnp.array([1, 3, 5]), jnp.array([3, 4]))
    Array([1, 2], dtype=int32)
    """
    given = (a, v) if sorter is None else (a, v, sorter)
    a, v = ensure_arraylikes("searchsorted", *given)[:2]
    if side not in ("left", "right"):
        raise ValueError(f"invalid argument side={side!r}, expected 'left' or 'right'")
    if method not in ("scan", "scan_unrolled", "sort", "compare_all"):
        raise ValueError(
            f"invalid argument method={method!r}, expected one of ['compare_all',"
            " 'scan', 'scan_unrolled', 'sort']"
        )
    if a.ndim != 1:
        raise ValueError("a should be 1-dimensional")
    a, v = promote_dtypes(a, v)
    if sorter is not None:
        a = getitem(a, sorter)
    dtype = fitting_dtype(dtypes.default_int_dtype(), a.shape[0])
    if a.shape[0] == 0:
        return lax.full(np.shape(v), 0, dtype)
    search = _compare_all if method == "compare_all" else _halve_intervals
    return search(a, v, side, dtype)


def _goes_left(v: Any, x: Any, side: str) -> Any:
    """Return True if `v` belongs before the element `x`, with NaN after everything."""
    v_nan, x_nan = lax.ne(v, v), lax.ne(x, x)
    if side == "left":
        return lax.bitwise_or(less_equal(v, x), x_nan)
    return lax.bitwise_or(less(v, x), lax.bitwise_and(x_nan, lax.bitwise_not(v_nan)))


def _compare_all(a: Any, v: Any, side: str, dtype: Any) -> Any:
    first = lax.broadcast_in_dim(a, (a.shape[0], *(1,) * v.ndim), (0,))
    first, each = broadcast_all(first, lax.expand_dims(v, (0,)))
    before = lax.bitwise_not(_goes_left(each, first, side))
    return sum(before, axis=0, dtype=dtype)


def _halve_intervals(a: Any, v: Any, side: str, dtype: Any) -> Any:
    """Binary search; the number of halvings is known, so it is unrolled."""
    low = lax.full(v.shape, 0, dtype)
    high = lax.full(v.shape, a.shape[0], dtype)
    two = dtype.type(2)
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    for _ in range(a.shape[0].bit_length()):
        middle = lax.add(low, lax.div(lax.sub(high, low), two))
        middle_index = lax.expand_dims(middle, (v.ndim,))
        x = lax.gather(a, middle_index, numbers, (1,), mode="clip")
        left = _goes_left(v, x, side)
        # An empty interval stays as it is.
        left = lax.bitwise_or(left, lax.eq(low, high))
        low = lax.select(left, low, lax.add(middle, dtype.type(1)))
        high = lax.select(left, middle, high)
    return low


@inner_jit(static_argnames=("right", "method"))
def digitize(
    x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None
) -> Array:
    """The number of the bin into which each element falls; bins ascend or descend.

    Args:
      x: an array of any shape.
      bins: a vector of edges, ascending or descending.
      right: whether a bin contains its right edge: bins[i-1] < x <= bins[i]. Default
        False: bins[i-1] <= x < bins[i].
      method: of the search, as of `searchsorted`. None (default) is "scan".

    Returns:
      Numbers of bins, of the default integer dtype, of the shape of `x`: 0 before the
      first edge, bins.size after the last.

    Raises:
      TypeError: `x` or `bins` is a list or a string.
      ValueError: `bins` is not a vector, or `method` is unknown.

    >>> from curta import numpy as jnp
    >>> jnp.digitize(jnp.array([0.5, 1.5]), jnp.array([0.0, 1.0, 2.0]))
    Array([1, 2], dtype=int32)
    """
    x, bins = ensure_arraylikes("digitize", x, bins)
    right = concrete(right, "right argument of jnp.digitize()", bool)
    if bins.ndim != 1:
        raise ValueError(
            f"digitize: bins must be a 1-dimensional array; got bins={bins}"
        )
    if bins.shape[0] == 0:
        return lax.full(x.shape, 0, dtypes.default_int_dtype())
    side = "left" if right else "right"
    method = method or "scan"
    ascending = greater_equal(getitem(bins, -1), getitem(bins, 0))
    bin_numbers = searchsorted(bins, x, side=side, method=method)
    backwards = searchsorted(lax.rev(bins, (0,)), x, side=side, method=method)
    backwards = lax.sub(const(backwards, bins.shape[0]), backwards)
    return select_where(ascending, bin_numbers, backwards)
