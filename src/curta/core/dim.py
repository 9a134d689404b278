"""Dims of arrays: integers, or symbolic expressions while a function is exported."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from curta.errors import InconclusiveDimensionOperation


class SymbolicDim:
    """A dim whose size is not known yet: an expression in dimension variables.

    It takes part in the arithmetic of integers, and in comparisons that come out the
    same for all values of the variables; others raise InconclusiveDimensionOperation.
    The one concrete class is in core/symbolic/dims.py.
    """

    __slots__ = ()

    def at(self, sizes: Mapping[str, int]) -> int:
        """The size, where those of the variables are given."""
        raise NotImplementedError

    @property
    def typical(self) -> int:
        """A number for estimates, of what is right for any size."""
        raise NotImplementedError

    def is_multiple(self, of: Any) -> bool:
        """Whether it surely is a multiple of a number."""
        return False

    def is_same(self, other: Any) -> bool:
        """Whether it is written as the other is."""
        return self is other

    def as_value(self) -> Any:
        """The size as a scalar array, which is known once the function is called."""
        raise NotImplementedError

    def max(self, other: Any) -> Any:
        """The larger of this dim and another."""
        raise NotImplementedError

    def min(self, other: Any) -> Any:
        """The smaller of this dim and another."""
        raise NotImplementedError


def is_symbolic_dim(p: Any) -> bool:
    """Whether `p`, a dim of a shape, is symbolic rather than an integer.

    >>> is_symbolic_dim(3)
    False
    """
    return isinstance(p, SymbolicDim)


def typical(dim: Any) -> int:
    """A number for estimates in place of a dim: what is decided by it is right for any.

    >>> typical(3)
    3
    """
    return dim.typical if isinstance(dim, SymbolicDim) else dim


def is_multiple(dim: Any, of: Any) -> bool:
    """Whether a dim is a multiple of a number, as far as that is known.

    >>> is_multiple(6, 3)
    True
    """
    if isinstance(dim, SymbolicDim):
        return dim.is_multiple(of)
    return not isinstance(of, SymbolicDim) and bool(dim % of == 0)


def may_exceed(dim: Any, most: int) -> bool:
    """Whether a dim is larger than a number, or is for some sizes.

    >>> may_exceed(3, 4)
    False
    """
    return True if isinstance(dim, SymbolicDim) else bool(dim > most)


def is_same(a: Any, b: Any) -> bool:
    """Whether two dims are known to be equal; those that may be are not the same.

    >>> is_same(3, 3)
    True
    """
    if isinstance(a, SymbolicDim):
        return a.is_same(b)
    return not isinstance(b, SymbolicDim) and bool(a == b)


def as_dim(dim: Any) -> Any:
    """A dim as it is if it is symbolic, else as an int; raises TypeError."""
    return dim if isinstance(dim, SymbolicDim) else operator.index(dim)


def max_dim(a: Any, b: Any) -> Any:
    """The larger of two dims, which may be symbolic.

    >>> max_dim(3, 4)
    4
    """
    a, b = as_dim(a), as_dim(b)
    if isinstance(a, SymbolicDim):
        return a.max(b)
    return b.max(a) if isinstance(b, SymbolicDim) else max(a, b)


def min_dim(a: Any, b: Any) -> Any:
    """The smaller of two dims, which may be symbolic.

    >>> min_dim(3, 4)
    3
    """
    a, b = as_dim(a), as_dim(b)
    if isinstance(a, SymbolicDim):
        return a.min(b)
    return b.min(a) if isinstance(b, SymbolicDim) else min(a, b)


def surely(condition: Callable[[], bool]) -> bool:
    """Whether a condition on dims holds whatever the values of their variables."""
    try:
        return condition()
    except InconclusiveDimensionOperation:
        return False


def quotient(size: Any, shape: Sequence[Any]) -> Any:
    """The dim that -1 stands for in `shape`, if the elements are `size` in all.

    Raises InconclusiveDimensionOperation if they are surely not, or it is not known.

    >>> quotient(12, (3, -1))
    4
    """
    quotient, rest = divmod(size, math.prod(shape))
    if surely(lambda: rest == 0):
        return -quotient
    raise InconclusiveDimensionOperation(
        f"Cannot divide evenly {size} elements among the dims {tuple(shape)}"
    )


def slice_bounds(part: slice, size: Any) -> tuple[Any, Any, Any]:
    """The start, stop and step of a slice of a dim, as `slice.indices` gives them.

    Raises InconclusiveDimensionOperation if it is not known where a bound lies.

    >>> slice_bounds(slice(-3, None), 5)
    (2, 5, 1)
    """
    given = (size, part.start, part.stop, part.step)
    if not any(isinstance(d, SymbolicDim) for d in given):
        return part.indices(size)
    step = 1 if part.step is None else as_dim(part.step)
    if not isinstance(step, SymbolicDim) and step == 0:
        raise ValueError("slice step cannot be zero")
    forwards = step > 0
    ends = (0, size) if forwards else (-1, size - 1)
    start, stop = part.start, part.stop
    first, last = ends if forwards else ends[::-1]
    start = first if start is None else _clipped(as_dim(start), size, ends)
    stop = last if stop is None else _clipped(as_dim(stop), size, ends)
    return start, stop, step


def _clipped(bound: Any, size: Any, ends: tuple[Any, Any]) -> Any:
    low, high = ends
    return min_dim(high, bound) if bound >= 0 else max_dim(low, bound + size)


def range_length(start: Any, stop: Any, step: Any) -> Any:
    """How many numbers `range(start, stop, step)` has.

    >>> range_length(0, 10, 3)
    4
    """
    distance, step = (stop - start, step) if step > 0 else (start - stop, -step)
    return max_dim(0, distance + step - 1) // step
