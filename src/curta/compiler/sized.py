"""Numbers of a program that depend on its sizes: a table that code reads them from.

A program for many sizes (core/symbolic/sizes.py) is one machine code. It reads numbers
that depend on the sizes of a call from a table: extents and strides, which are
polynomials, and numbers that Python computes for given sizes, such as the offsets of
temporaries in the arena and the plans of products. `table` makes the table for some
sizes.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from curta.core.dim import SymbolicDim

Sizes = Mapping[str, int]


def number(x: Any, sizes: Sizes) -> int:
    """A dim, or anything made of dims, for given sizes."""
    return int(x.at(sizes)) if isinstance(x, SymbolicDim) else x


def concrete(x: Any, sizes: Sizes) -> Any:
    """A description with numbers for all dims in it, for given sizes."""
    if isinstance(x, SymbolicDim):
        return number(x, sizes)
    if isinstance(x, tuple):
        return tuple(concrete(item, sizes) for item in x)
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        fields = {f.name: getattr(x, f.name) for f in dataclasses.fields(x)}
        return type(x)(**{k: concrete(v, sizes) for k, v in fields.items()})
    return x


def depends_on_sizes(x: Any) -> bool:
    """Whether there are dims in a description."""
    if isinstance(x, tuple):
        return any(map(depends_on_sizes, x))
    if dataclasses.is_dataclass(x) and not isinstance(x, type):
        return any(depends_on_sizes(getattr(x, f.name)) for f in dataclasses.fields(x))
    return isinstance(x, SymbolicDim)


def total(numbers: Sequence[Any]) -> Any:
    """The sum of numbers that may depend on sizes."""
    if any(isinstance(x, SymbolicDim) for x in numbers):
        return Computed(lambda sizes: sum(number(x, sizes) for x in numbers))
    return sum(numbers)


class Computed(SymbolicDim):
    """A number that Python works out when it knows the sizes."""

    __slots__ = ("_compute",)

    def __init__(self, compute: Callable[[Sizes], int]) -> None:
        self._compute = compute

    def at(self, sizes: Sizes) -> int:
        return self._compute(sizes)

    def _with(self, operation: Callable[..., Any], *others: Any) -> Computed:
        given = (self, *others)
        return Computed(lambda sizes: operation(*(number(x, sizes) for x in given)))

    def __add__(self, other: Any) -> Computed:
        return self._with(operator.add, other)

    def __mul__(self, other: Any) -> Computed:
        return self._with(operator.mul, other)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Computed:
        return self._with(operator.neg)

    def __floordiv__(self, other: Any) -> Computed:
        return self._with(operator.floordiv, other)

    def max(self, other: Any) -> Computed:
        return self._with(max, other)

    def min(self, other: Any) -> Computed:
        return self._with(min, other)


class Slots:
    """The numbers that the code of a program reads, each in its slot of the table."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._slots: dict[Hashable, int] = {}

    def slot(self, x: SymbolicDim) -> int:
        """Where the table has a number."""
        return self.slots(x, [x])

    def slots(self, key: Hashable, numbers: Sequence[SymbolicDim]) -> int:
        """Where the table has the first of several numbers, which the key tells."""
        if key not in self._slots:
            self._slots[key] = len(self.items)
            self.items += numbers
        return self._slots[key]

    def table(self, sizes: Sizes) -> np.ndarray[Any, Any]:
        """The table for given sizes."""
        return np.array([number(x, sizes) for x in self.items], np.int64)


class PerSizes:
    """The result of a function for given sizes, computed once."""

    def __init__(self, function: Callable[[Sizes], Any]) -> None:
        self.function = function
        self.known: dict[tuple[int, ...], Any] = {}

    def __call__(self, sizes: Sizes) -> Any:
        key = tuple(sizes.values())
        if key not in self.known:
            self.known[key] = self.function(sizes)
        return self.known[key]
