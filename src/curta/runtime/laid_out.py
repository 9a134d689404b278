"""Arrays that are stored in another order of their dims than the row-major."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from curta.compiler.layout_assignment import Order, inverse
from curta.core.buffers import empty
from curta.core.sharding import NamedSharding, Sharding
from curta.runtime.remote_data import Held, RemoteData

NDArray = np.ndarray[Any, Any]
S = TypeVar("S", bound=Sharding | None)


class LaidOutData(Held):
    """The elements of an array whose dims are stored in the order `major_to_minor`.

    `stored` is a C-contiguous array with the dims in that order, or parts of one on
    several hosts. Nobody writes to it. What was put into row-major order for somebody
    who reads it so is kept.
    """

    __slots__ = ("_row_major", "major_to_minor", "stored")

    def __init__(self, stored: Any, major_to_minor: Sequence[int]) -> None:
        self.stored: Any = stored
        self.major_to_minor: Order = tuple(major_to_minor)
        self._row_major: Any = None

    def row_major(self) -> Any:
        """The elements in row-major order."""
        if self._row_major is None:
            back = inverse(self.major_to_minor)
            self._row_major = in_order(self.stored, back)
        return self._row_major

    def like(self, data: NDArray) -> LaidOutData:
        """Other elements, row-major, stored as these are."""
        return LaidOutData(in_order(data, self.major_to_minor), self.major_to_minor)


def without_order(buffer: Any) -> Any:
    """What an array is stored in, whatever the order of its dims."""
    return buffer.stored if type(buffer) is LaidOutData else buffer


def in_order(data: Any, order: Sequence[int]) -> Any:
    """Elements with their dims in another order, in memory of their own."""
    if isinstance(data, RemoteData):
        return data.in_order(order)
    source = data.transpose(order)
    out = empty(source.shape, source.dtype)
    np.copyto(out, source)
    return out


def sharding_in_order(sharding: S, order: Sequence[int]) -> S | NamedSharding:
    """The sharding of the array whose dims are these in another order."""
    named = None if sharding is None else sharding.named
    if named is None:
        return sharding
    entries = named.spec.for_rank(len(order)).partitions
    return named.update(spec=named.spec.update(partitions=[entries[d] for d in order]))
