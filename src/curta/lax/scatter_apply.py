"""Functions applied to elements whose indices are data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta.control.scatter_apply import ScatterApply
from curta.core.array import Array
from curta.core.avals import ShapedArray
from curta.core.flat import debug_info
from curta.core.shapes import canonicalize_shape
from curta.core.stage import stage
from curta.core.trace import Tracer, is_array_like, typeof
from curta.primitives.indexing import GatherScatterMode, ScatterDimensionNumbers
from curta.primitives.indexing.numbers import require_kind
from curta.primitives.structure import full


def scatter_apply(
    operand: Array,
    scatter_indices: Array,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """`operand` with `func`, of one element, applied to windows of it.

    An element in several windows has the function applied several times.

    Args:
      operand: an array.
      scatter_indices: integers; the index vectors lie along the last dim.
      func: from a scalar of the dtype of `operand` to another.
      dimension_numbers, indices_are_sorted, unique_indices, mode: as for `scatter`.
      update_shape: the shape that the updates of `scatter` would have.

    Returns:
      An array of the shape and dtype of `operand`.

    Raises:
      TypeError: for numbers and shapes that do not fit, and a function that returns no
        scalar of the dtype.
      ValueError: for a function that returns no array, and unknown modes.
      NotImplementedError: for a derivative, and a function that closes over a traced
        value.

    >>> import curta
    >>> numbers = curta.lax.ScatterDimensionNumbers((), (0,), (0,))
    >>> indices = curta.numpy.array([[2], [0], [2]])
    >>> curta.lax.scatter_apply(
    ...     curta.numpy.ones(3), indices, lambda x: 3 * x, numbers, update_shape=(3,))
    Array([3., 1., 9.], dtype=float32)
    """
    require_kind("scatter_apply", ScatterDimensionNumbers, dimension_numbers)
    scalar = ShapedArray((), typeof(operand).dtype)
    closed = stage(
        lambda x, _: [_checked(func(x))],
        [scalar, scalar],
        debug_info("scatter_apply", func),
    )
    if any(isinstance(c, Tracer) for c in closed.consts):
        raise NotImplementedError(
            "Reduction computations can't close over Tracers. Apply the function to"
            " what gather gives, and scatter that."
        )
    op = ScatterApply(
        dimension_numbers,
        bool(indices_are_sorted),
        bool(unique_indices),
        GatherScatterMode.from_any(mode),
        closed.jaxpr,
        closed,
    )
    updates = full(ShapedArray(canonicalize_shape(update_shape), scalar.dtype), 0)
    return op(operand, scatter_indices, updates)


def _checked(x: Any) -> Any:
    """What the function has returned, if it is a scalar; ValueError for no array."""
    if not is_array_like(x):
        raise ValueError(
            f"Invalid return type from reduction function: {type(x)}\n"
            "Reduction functions should only return an array.\n"
            f"Full return value: {x}"
        )
    if typeof(x).shape:
        raise TypeError(
            "The function that scatter_apply or x.at[...].apply applies must give a"
            f" scalar of the scalar that it gets, not an array of shape {x.shape}."
        )
    return x
