"""The greatest and least elements, found approximately where that is faster."""

from __future__ import annotations

from typing import Any

from curta.core.shapes import integer
from curta.primitives.approximate import ApproxTopK


def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Any, Any]:
    """The `k` greatest elements along a dim, descending, and their int32 places.

    The settings tell an accelerator how many may be missed; on this processor none is.
    Without `aggregate_to_topk` more than `k` may be found.

    Raises ValueError if `k` is not positive, larger than the dim, or `operand` is not
    of floats.

    >>> import curta
    >>> curta.lax.approx_max_k(curta.numpy.array([1., 5., 3.]), 2)[1]
    Array([1, 2], dtype=int32)
    """
    op = ApproxTopK(
        integer("approx_max_k k", k),
        integer("approx_max_k reduction_dimension", reduction_dimension),
        recall_target, True, reduction_input_size_override, aggregate_to_topk,
    )  # fmt: skip
    return tuple(op(operand))  # type: ignore[return-value]


def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> tuple[Any, Any]:
    """The `k` least elements along a dim, ascending; see `approx_max_k`.

    >>> import curta
    >>> curta.lax.approx_min_k(curta.numpy.array([1., 5., 3.]), 2)[0]
    Array([1., 3.], dtype=float32)
    """
    op = ApproxTopK(
        integer("approx_min_k k", k),
        integer("approx_min_k reduction_dimension", reduction_dimension),
        recall_target, False, reduction_input_size_override, aggregate_to_topk,
    )  # fmt: skip
    return tuple(op(operand))  # type: ignore[return-value]
