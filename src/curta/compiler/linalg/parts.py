"""What algorithms of matrices are written with: parts of matrices, and loops.

`a[k + 1 :, k]` is a *part* of a matrix: its rows, and its columns, are an index or a
range. Parts are combined element by element, as arrays of NumPy are, and one of size 1
along a dim is repeated. A statement gives all elements of a part:

    a[k + 1 :, k + 1 :] = a[k + 1 :, k + 1 :] - a[k + 1 :, k] * a[k, k + 1 :]

What it reads is what was there before it, and besides the element itself nothing that
it writes. A part that was written to is read anew.

An algorithm defines what is computed, and its `MatrixMachine` how: loops over one
matrix, or over one matrix per lane, in memory or unrolled in registers (loops.py), or
ops on whole matrices (stablehlo/linalg/ops.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar, cast

Index = Any
"""An integer, or the number of an iteration of a loop; more integers can be added."""


V = TypeVar("V", bound="ElementwiseArithmetic[Any]")


class ElementwiseArithmetic(ABC, Generic[V]):
    """Functions of elements, as arrays of NumPy have them; others may be numbers."""

    @property
    @abstractmethod
    def is_complex(self) -> bool: ...

    @abstractmethod
    def apply(self, name: str, *others: Any) -> V:
        """A function of the elements, by its name."""

    def __add__(self, other: Any) -> V:
        return self.apply("add", other)

    def __sub__(self, other: Any) -> V:
        return self.apply("sub", other)

    def __mul__(self, other: Any) -> V:
        return self.apply("mul", other)

    def __truediv__(self, other: Any) -> V:
        return self.apply("div", other)

    def over(self, divisor: Any) -> V:
        """The quotients by one number, as BLAS makes many: by its reciprocal."""
        return self.apply("over", divisor)

    def __neg__(self) -> V:
        return self.apply("neg")

    def __lt__(self, other: Any) -> V:
        return self.apply("lt", other)

    def __gt__(self, other: Any) -> V:
        return self.apply("gt", other)

    def __and__(self, other: Any) -> V:
        return self.apply("and", other)

    def __invert__(self) -> V:
        return self.apply("not")

    def equals(self, other: Any) -> V:
        return self.apply("eq", other)

    def differs(self, other: Any) -> V:
        return self.apply("ne", other)

    def maximum(self, other: Any) -> V:
        return self.apply("max", other)

    def with_sign_of(self, other: Any) -> V:
        return self.apply("copysign", other)

    def abs(self) -> V:
        """The absolute value of a real number."""
        return self.apply("abs")

    def sqrt(self) -> V:
        return self.apply("sqrt")

    def conj(self) -> V:
        return self.apply("conj") if self.is_complex else cast(V, self)

    @property
    def real(self) -> V:
        return self.apply("real") if self.is_complex else cast(V, self)

    @property
    def imag(self) -> V:
        return self.apply("imag")

    def pivot_size(self) -> V:
        """|re| + |im|: what LAPACK compares to find a pivot."""
        if not self.is_complex:
            return self.abs()
        return self.real.abs() + self.imag.abs()

    def part_size(self) -> V:
        """max(|re|, |im|), which says whether squares are in range."""
        if not self.is_complex:
            return self.abs()
        return self.real.abs().maximum(self.imag.abs())

    def squared(self) -> V:
        """|x|^2, real."""
        if not self.is_complex:
            return self * self
        return self.imag * self.imag + self.real * self.real


class Part(ElementwiseArithmetic["Part"]):
    """A part of a matrix, or what is made of some."""

    @abstractmethod
    def sum(self) -> Part:
        """The sums over the rows."""

    @abstractmethod
    def largest(self) -> Part:
        """The greatest of numbers >= 0 in the rows; NaN if there is one, 0 of none."""

    @abstractmethod
    def all(self) -> Part:
        """Whether a condition holds for all rows."""

    @abstractmethod
    def argmax(self) -> Part:
        """The number of the first row whose element, not negative, is greatest."""

    @property
    @abstractmethod
    def H(self) -> Part:
        """A column as a row, conjugated."""


def where(condition: V, x: Any, y: Any) -> V:
    """`x` where the condition holds, `y` elsewhere; one may be a number."""
    return cast(V, condition.apply("select", x, y))


class MatrixView(NamedTuple):
    """How a matrix is seen."""

    transposed: bool = False
    reversed: tuple[bool, bool] = (False, False)
    conjugated: bool = False


class Matrix(ABC):
    """A matrix in memory, or a value that changes."""

    shape: tuple[int, int]

    @abstractmethod
    def __getitem__(self, index: tuple[Any, Any]) -> Part: ...

    @abstractmethod
    def __setitem__(self, index: tuple[Any, Any], part: Any) -> None: ...

    def set_lower(self, index: tuple[Any, Any], part: Part) -> None:
        """Assign what is on and below the diagonal; what is above it is not needed."""
        self[index] = part

    @abstractmethod
    def set_nan_where(self, condition: Part) -> None:
        """Make all elements NaN where a condition holds, which seldom does."""


class MatrixMachine(ABC):
    """Loops, and what concerns several matrices."""

    @property
    @abstractmethod
    def limits(self) -> Any:
        """The `finfo` of the numbers."""

    @abstractmethod
    def constant(self, value: float | bool) -> Part:
        """A real number, or a condition."""

    @abstractmethod
    def repeat(
        self,
        start: int,
        stop: int,
        body: Callable[..., Any],
        *carried: Part,
        reverse: bool = False,
    ) -> Sequence[Part]:
        """`carried = body(i, *carried)` for i from start to stop."""

    @abstractmethod
    def set_rows(self, *rows: tuple[Matrix, Index, Part]) -> None:
        """Assign whole rows at once, each of which the others' parts may read."""

    @abstractmethod
    def by_columns(self, a: Matrix, start: Index, body: Callable[[Any], None]) -> None:
        """Call `body` for columns from `start` on, with some of them at a time."""

    @abstractmethod
    def number_rows(self, a: Matrix) -> None:
        """Make a column of 0, 1, ... ."""

    @abstractmethod
    def exchange_rows(
        self, k: Index, other: Part, *matrices: Matrix, start: Index | None = None
    ) -> None:
        """Exchange row k with another one, in each of the matrices.

        It does not precede row k, or row `start` if that is given.
        """
