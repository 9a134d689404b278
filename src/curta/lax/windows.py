"""Shapes and padding of windows that slide over arrays."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.core.avals import ShapedArray
from curta.core.dim import as_dim, max_dim
from curta.core.shapes import integers
from curta.primitives.windowed.sliding import Sliding, check_window_fields


class PaddingType(enum.Enum):
    """How far windows may reach over the ends of an array."""

    VALID = 1
    SAME = 2
    SAME_LOWER = 3


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | PaddingType,
) -> list[tuple[int, int]]:
    """The (low, high) padding of each dim that "VALID", "SAME" or "SAME_LOWER" mean.

    VALID is none. SAME is as much as makes ceil(size / stride) windows, the odd
    element at the end; SAME_LOWER has it at the start.

    Args:
      in_shape, window_shape, window_strides: integers, one of each for every dim.
      padding: the string, or a `PaddingType`.

    Returns:
      A list of pairs of integers.

    Raises:
      RuntimeError: for another string.
      TypeError: for anything else, and sizes that are not integers.
      ValueError: for different numbers of dims, and strides that are not positive.

    >>> from curta import lax
    >>> lax.padtype_to_pads((5, 4), (2, 2), (1, 2), "SAME")
    [(0, 1), (0, 0)]
    """
    if padding is PaddingType.VALID or padding in ("VALID", "valid"):
        return [(0, 0)] * len(in_shape)  # whatever the windows
    names = "in_shape", "window_shape", "window_strides"
    given = in_shape, window_shape, window_strides
    sizes = [integers(f"padtype_to_pads {n}", d, None) for n, d in zip(names, given)]
    if len({*map(len, sizes)}) > 1:
        raise ValueError(
            f"operands of padtype_to_pads must have one length, got {in_shape},"
            f" {window_shape} and {window_strides}"
        )
    shape, window, strides = sizes
    return window_padding(shape, window, strides, padding)


def window_padding(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str | PaddingType,
) -> list[tuple[int, int]]:
    """`padtype_to_pads` of sizes that are integers, as far as there are all three."""
    if isinstance(padding, str):
        try:
            padding = PaddingType[padding.upper()]
        except KeyError:
            raise RuntimeError(
                "Unrecognized padding type: expected 'VALID', 'SAME', or 'SAME_LOWER',"
                f" got {padding}."
            ) from None
    if not isinstance(padding, PaddingType):
        raise TypeError(
            f"Unknown padding type: {padding}. Give 'VALID', 'SAME', 'SAME_LOWER', or"
            " (low, high) for each dim."
        )
    if padding is PaddingType.VALID:
        return [(0, 0)] * len(in_shape)
    pads = []
    for size, window, stride in zip(in_shape, window_shape, window_strides):
        if stride < 1:
            raise ValueError(f"window_strides must be positive, got {window_strides}.")
        windows = -(-size // stride)
        total = max_dim((windows - 1) * stride + window - size, 0)
        less, more = total // 2, total - total // 2
        pads.append((less, more) if padding is PaddingType.SAME else (more, less))
    return pads


def reduce_window_shape_tuple(
    operand_shape: Sequence[int],
    window_dimensions: Sequence[int],
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[int, ...]:
    """The shape of a `reduce_window`.

    Args:
      operand_shape: the shape of the operand.
      window_dimensions, window_strides: the size of windows and how far they start
        apart, along each dim.
      padding: (low, high) for each dim.
      base_dilation, window_dilation: how far elements of the operand, and of windows,
        lie apart; 1 by default.

    Returns:
      A tuple of integers.

    Raises:
      TypeError: for other numbers of entries than of dims, and for sizes, strides and
        dilations that are not positive.
      ValueError: if padding are not pairs.

    >>> from curta import lax
    >>> lax.reduce_window_shape_tuple((5,), (2,), (2,), ((0, 1),))
    (3,)
    """
    name = "reduce_window"
    shape = integers(f"{name} operand_shape", operand_shape)
    ones = (1,) * len(shape)
    spread, reach = (
        ones if d is None else _dilation(name, d)
        for d in (base_dilation, window_dilation)
    )
    sliding = Sliding(
        integers(f"{name} window_dimensions", window_dimensions),
        integers(f"{name} window_strides", window_strides),
        explicit_padding(name, padding),
        spread,
        reach,
    )
    check_window_fields(name, ShapedArray(shape, np.dtype(bool)), sliding)
    return sliding.out_shape(shape)


def _dilation(name: str, dilation: Any) -> tuple[int, ...]:
    """The entries of a dilation; TypeError unless all are positive integers."""
    result = integers(f"{name} dilation", dilation, None)
    if any(d < 1 for d in result):
        raise TypeError(f"All dilations must be positive, got {dilation}.")
    return result


def explicit_padding(name: str, padding: Any) -> tuple[tuple[int, int], ...]:
    """Padding by numbers as pairs; ValueError unless it is a sequence of pairs."""
    try:
        return tuple((as_dim(lo), as_dim(hi)) for lo, hi in padding)
    except (ValueError, TypeError) as error:
        if type(error) not in (ValueError, TypeError):  # a traced value
            raise
        raise ValueError(
            f"padding argument to {name} should be a string or a sequence of (low,"
            f" high) pairs, got {padding}"
        ) from None
