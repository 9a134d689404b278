"""Segment reductions: sums, products and extrema by group."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from curta import dtypes, lax
from curta._base.on_demand import Listing, listed
from curta.api.out_sharding import (
    explicit_sharding,
    says_nothing,
    takes_out_sharding,
)
from curta.core.array import Array, ArrayLike
from curta.numpy.arguments import concrete, concrete_index, ensure_arraylikes
from curta.numpy.index_update import scatter_update
from curta.numpy.ranges import arange
from curta.numpy.reductions import max, min, prod, sum

__all__ = ["segment_max", "segment_min", "segment_prod", "segment_sum"]
__dir__: Listing = listed(__all__)


def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The sum of the rows of `data` that have the same segment id.

    Args:
      data: an array of rows, (n, ...).
      segment_ids: integers (n,): the segment of each row. Rows whose id is negative, or
        not below `num_segments`, are dropped.
      num_segments: the number of segments, a static int, which jit needs. None
        (default) is the largest id plus one.
      indices_are_sorted: the ids ascend. Default False.
      unique_indices: no id occurs twice, which spares derivatives work. Default False.
      bucket_size: the number of rows reduced at a time, before the partial results are
        reduced, for accuracy. None (default) reduces all rows at once.
      mode: a `lax.GatherScatterMode` or its name, for ids out of bounds. None (default)
        drops their rows.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the result; None (default)
        lets it follow from `data`.

    Returns:
      (num_segments, *data.shape[1:]), of `data`'s dtype; 0 for a segment without rows.

    Raises:
      TypeError: `data` is a list, a string or None; `segment_ids` is not of integers,
        `num_segments` or `bucket_size` no integer, or `out_sharding` no sharding;
        `data` is boolean.
      ValueError: `segment_ids` does not fit `data`, `num_segments` is negative, `mode`
        is unknown, or there are no ids and no `num_segments`.
      ConcretizationTypeError: `segment_ids` is traced and `num_segments` is not given.

    >>> import curta
    >>> from curta import numpy as jnp
    >>> curta.ops.segment_sum(jnp.arange(4), jnp.array([0, 0, 2, 2]))
    Array([1, 0, 5], dtype=int32)
    """
    segments = _SegmentRows(num_segments, indices_are_sorted, unique_indices, mode)
    return _split(segments.fold, "segment_sum", out_sharding)(
        "segment_sum", data, segment_ids, lax.scatter_add, sum, 0, bucket_size
    )


def segment_prod(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The product of the rows of `data` that have the same segment id.

    Args:
      data: an array of rows, (n, ...).
      segment_ids: integers (n,): the segment of each row. Rows whose id is negative, or
        not below `num_segments`, are dropped.
      num_segments: the number of segments, a static int, which jit needs. None
        (default) is the largest id plus one.
      indices_are_sorted: the ids ascend. Default False.
      unique_indices: no id occurs twice, which spares derivatives work. Default False.
      bucket_size: the number of rows reduced at a time, before the partial results are
        reduced, for accuracy. None (default) reduces all rows at once.
      mode: a `lax.GatherScatterMode` or its name, for ids out of bounds. None (default)
        drops their rows.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the result; None (default)
        lets it follow from `data`.

    Returns:
      (num_segments, *data.shape[1:]), of `data`'s dtype; 1 for a segment without rows.

    Raises:
      TypeError: `data` is a list, a string or None; `segment_ids` is not of integers,
        `num_segments` or `bucket_size` no integer, or `out_sharding` no sharding;
        `data` is boolean.
      ValueError: `segment_ids` does not fit `data`, `num_segments` is negative, `mode`
        is unknown, or there are no ids and no `num_segments`.
      ConcretizationTypeError: `segment_ids` is traced and `num_segments` is not given.

    >>> import curta
    >>> from curta import numpy as jnp
    >>> curta.ops.segment_prod(jnp.arange(4), jnp.array([0, 0, 1, 1]))
    Array([0, 6], dtype=int32)
    """
    segments = _SegmentRows(num_segments, indices_are_sorted, unique_indices, mode)
    return _split(segments.fold, "segment_prod", out_sharding)(
        "segment_prod", data, segment_ids, lax.scatter_mul, prod, 1, bucket_size
    )


def segment_max(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The largest of the rows of `data` that have the same segment id.

    A segment without rows is the least value of the dtype.

    Args:
      data: an array of rows, (n, ...).
      segment_ids: integers (n,): the segment of each row. Rows whose id is negative, or
        not below `num_segments`, are dropped.
      num_segments: the number of segments, a static int, which jit needs. None
        (default) is the largest id plus one.
      indices_are_sorted: the ids ascend. Default False.
      unique_indices: no id occurs twice, which spares derivatives work. Default False.
      bucket_size: the number of rows reduced at a time, before the partial results are
        reduced, for accuracy. None (default) reduces all rows at once.
      mode: a `lax.GatherScatterMode` or its name, for ids out of bounds. None (default)
        drops their rows.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the result; None (default)
        lets it follow from `data`.

    Returns:
      (num_segments, *data.shape[1:]), of `data`'s dtype; -inf, or the least integer,
      for a segment without rows.

    Raises:
      TypeError: `data` is a list, a string or None; `segment_ids` is not of integers,
        `num_segments` or `bucket_size` no integer, or `out_sharding` no sharding.
      ValueError: `segment_ids` does not fit `data`, `num_segments` is negative, `mode`
        is unknown, or there are no ids and no `num_segments`.
      ConcretizationTypeError: `segment_ids` is traced and `num_segments` is not given.

    >>> import curta
    >>> from curta import numpy as jnp
    >>> curta.ops.segment_max(jnp.arange(4), jnp.array([0, 0, 1, 1]))
    Array([1, 3], dtype=int32)
    """
    segments = _SegmentRows(num_segments, indices_are_sorted, unique_indices, mode)
    return _split(segments.fold, "segment_max", out_sharding)(
        "segment_max", data, segment_ids, lax.scatter_max, max, -np.inf, bucket_size
    )


def segment_min(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
    out_sharding: Any = None,
) -> Array:
    """The smallest of the rows of `data` that have the same segment id.

    A segment without rows is the greatest value of the dtype.

    Args:
      data: an array of rows, (n, ...).
      segment_ids: integers (n,): the segment of each row. Rows whose id is negative, or
        not below `num_segments`, are dropped.
      num_segments: the number of segments, a static int, which jit needs. None
        (default) is the largest id plus one.
      indices_are_sorted: the ids ascend. Default False.
      unique_indices: no id occurs twice, which spares derivatives work. Default False.
      bucket_size: the number of rows reduced at a time, before the partial results are
        reduced, for accuracy. None (default) reduces all rows at once.
      mode: a `lax.GatherScatterMode` or its name, for ids out of bounds. None (default)
        drops their rows.
      out_sharding: a `NamedSharding` or `PartitionSpec` of the result; None (default)
        lets it follow from `data`.

    Returns:
      (num_segments, *data.shape[1:]), of `data`'s dtype; inf, or the greatest integer,
      for a segment without rows.

    Raises:
      TypeError: `data` is a list, a string or None; `segment_ids` is not of integers,
        `num_segments` or `bucket_size` no integer, or `out_sharding` no sharding.
      ValueError: `segment_ids` does not fit `data`, `num_segments` is negative, `mode`
        is unknown, or there are no ids and no `num_segments`.
      ConcretizationTypeError: `segment_ids` is traced and `num_segments` is not given.

    >>> import curta
    >>> from curta import numpy as jnp
    >>> curta.ops.segment_min(jnp.arange(4), jnp.array([0, 0, 1, 1]))
    Array([0, 2], dtype=int32)
    """
    segments = _SegmentRows(num_segments, indices_are_sorted, unique_indices, mode)
    return _split(segments.fold, "segment_min", out_sharding)(
        "segment_min", data, segment_ids, lax.scatter_min, min, np.inf, bucket_size
    )


def _split(
    fold: Callable[..., Any], name: str, out_sharding: Any
) -> Callable[..., Any]:
    """The fold whose result is split as said, if that is."""
    if out_sharding is None or says_nothing(out_sharding):
        return fold
    unreduced = explicit_sharding(name, out_sharding).spec.unreduced
    if unreduced and name != "segment_sum":
        raise NotImplementedError(
            f"{name} has no unreduced results: only sums can be taken later. Got"
            f" out_sharding={out_sharding}"
        )
    return functools.partial(takes_out_sharding(fold), out_sharding=out_sharding)


class _SegmentRows:
    """How rows are put into segments."""

    def __init__(
        self, count: int | None, indices_are_sorted: bool, unique: bool, mode: Any
    ):
        if count is not None:
            count = concrete_index(count, "segment_sum() `num_segments` argument.")
            if count < 0:
                raise ValueError("num_segments must be non-negative.")
        self.count = count
        self.settings: dict[str, Any] = {
            "indices_are_sorted": indices_are_sorted,
            "unique_indices": unique,
            "mode": lax.GatherScatterMode.FILL_OR_DROP if mode is None else mode,
            "wrap_negative": False,
        }

    def fold(
        self,
        name: str,
        data: Any,
        ids: Any,
        scatter: Callable[..., Any],
        reduction: Callable[..., Any],
        start: float,
        bucket_size: int | None,
    ) -> Any:
        data, ids = ensure_arraylikes(name, data, ids)
        if self.count is None:
            known = concrete(ids, f"{name}() `segment_ids` argument.", np.asarray)
            if not known.size:
                raise ValueError(
                    "zero-size array to reduction operation max which has no identity:"
                    f" without segment_ids {name} needs num_segments."
                )
            self.count = int(known.max()) + 1
        start = _start(start, data.dtype)
        shape = (self.count, *data.shape[1:])
        if bucket_size is None:
            out = lax.full(shape, start, data.dtype)
            return scatter_update(out, ids, data, scatter, **self.settings)
        buckets = -(-ids.size // bucket_size)
        out = lax.full((buckets, *shape), start, data.dtype)
        index = (arange(ids.shape[0]) // bucket_size, ids)
        out = scatter_update(out, index, data, scatter, **self.settings)
        return lax.convert_element_type(reduction(out, axis=0), data.dtype)


def _start(value: float, dtype: Any) -> Any:
    """0, 1 or an infinity in a dtype; the extreme value of integers and booleans."""
    if not np.isinf(value) or dtypes.issubdtype(dtype, np.inexact):
        return value
    if dtype == np.bool_:
        return value > 0
    info = dtypes.iinfo(dtype)
    return np.asarray(info.max if value > 0 else info.min, dtype)
