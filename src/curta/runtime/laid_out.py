"""Arrays that are stored in another order of their dims than the row-major."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.core.buffers import empty

NDArray = np.ndarray[Any, Any]
Order = tuple[int, ...]
"""The dims of an array, major to minor."""


class LaidOutData:
    """The elements of an array whose dims are stored in the order `major_to_minor`.

    `stored` is a C-contiguous array with the dims in that order. Nobody writes to it.
    What was put into row-major order for somebody who reads it so is kept.
    """

    __slots__ = ("_row_major", "major_to_minor", "stored")

    def __init__(self, stored: NDArray, major_to_minor: Sequence[int]) -> None:
        self.stored: NDArray = stored
        self.major_to_minor: Order = tuple(major_to_minor)
        self._row_major: NDArray | None = None

    def row_major(self) -> NDArray:
        """The elements in row-major order."""
        if self._row_major is None:
            back = inverse(self.major_to_minor)
            self._row_major = in_order(self.stored, back)
        return self._row_major

    def like(self, data: NDArray) -> LaidOutData:
        """Other elements, row-major, stored as these are."""
        return LaidOutData(in_order(data, self.major_to_minor), self.major_to_minor)


def in_order(data: NDArray, order: Sequence[int]) -> NDArray:
    """An array with its dims in another order, in memory of its own."""
    source = data.transpose(order)
    out = empty(source.shape, source.dtype)
    np.copyto(out, source)
    return out


def inverse(order: Sequence[int]) -> Order:
    """The permutation that takes another one back."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))
