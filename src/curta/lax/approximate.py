"""The greatest and least elements, found approximately where that is faster."""

from __future__ import annotations

from typing import Any

from curta.core.array import Array
from curta.core.shapes import integer, real
from curta.primitives.approximate import ApproxTopK


def approx_max_k(
    operand: Array,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Any]:
    """The `k` greatest elements along a dim, descending, and their int32 indices.

    The settings tell an accelerator how many may be missed; on this processor none is.

    Args:
      operand: an array of floats.
      k: how many, a positive integer.
      reduction_dimension: the dim to search; by default the last.
      recall_target: accepted, and without effect.
      reduction_input_size_override: accepted, and without effect.
      aggregate_to_topk: whether exactly `k` are returned; more may be, otherwise.

    Returns:
      The elements, in the dtype of `operand`, and their indices, int32; `k` of them
      along the dim.

    Raises:
      ValueError: if `k` is not positive or larger than the dim, or for integers.
      IndexError: if a dim is out of range.

    >>> import curta
    >>> curta.lax.approx_max_k(curta.numpy.array([1., 5., 3.]), 2)[1]
    Array([1, 2], dtype=int32)
    """
    return _approx_top_k(
        "approx_max_k", True, operand, k, reduction_dimension, recall_target,
        reduction_input_size_override, aggregate_to_topk,
    )  # fmt: skip


def approx_min_k(
    operand: Array,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> list[Any]:
    """The `k` least elements along a dim, ascending, and their int32 indices.

    Args:
      operand, k, reduction_dimension: as for `approx_max_k`.
      recall_target, reduction_input_size_override: as for `approx_max_k`.
      aggregate_to_topk: as for `approx_max_k`.

    Returns:
      The elements, in the dtype of `operand`, and their indices, int32.

    Raises:
      ValueError, IndexError: where `approx_max_k` does.

    >>> import curta
    >>> curta.lax.approx_min_k(curta.numpy.array([1., 5., 3.]), 2)[0]
    Array([1., 3.], dtype=float32)
    """
    return _approx_top_k(
        "approx_min_k", False, operand, k, reduction_dimension, recall_target,
        reduction_input_size_override, aggregate_to_topk,
    )  # fmt: skip


def _approx_top_k(
    name: str,
    greatest: bool,
    operand: Any,
    k: Any,
    dim: Any,
    recall: Any,
    size: Any,
    aggregate: Any,
) -> list[Any]:
    k, dim = integer(f"{name} k", k), integer(f"{name} reduction_dimension", dim)
    real(f"{name} recall_target", recall)
    size = integer(f"{name} reduction_input_size_override", size)
    op = ApproxTopK(k, dim, recall, greatest, size, aggregate)
    return list(op(operand))
