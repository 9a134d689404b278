"""Equations with tridiagonal matrices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.tangents import Zero, is_linear
from curta.core.trace import typeof
from curta.primitives.elementwise import add, mul, neg
from curta.primitives.joining import Concatenate
from curta.primitives.linalg.family import MatrixOp, Shape, in_single, not_a_number
from curta.primitives.linalg.lu import pivot_size
from curta.primitives.linalg.matrices import along_columns, columns, rows
from curta.primitives.structure import add_tangents, instantiate, zeros


@dataclass(frozen=True)
class TridiagonalSolve(MatrixOp):
    """x of a x = b, for the matrix with the diagonals dl, d and du.

    All three have n elements; dl[0] and du[n - 1] lie outside and are not read. Pivots
    that are 0, or almost, become tiny if `perturb_singular`; else x is NaN where one is
    0.
    """

    name: ClassVar[str] = "tridiagonal_solve"
    ranks: ClassVar[tuple[int, ...]] = (1, 1, 1, 2)
    perturb_singular: bool = False

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        dl, d, du, b = shapes
        if not dl == d == du:
            raise TypeError(
                "tridiagonal_solve requires that all diagonal arguments have the same"
                f" shape, got {dl}, {d} and {du}."
            )
        if dl != b[:-1]:
            raise TypeError(
                "tridiagonal_solve requires that the leading ndim-1 dimensions of b"
                f" equal the dimensions of the diagonal arguments, got {b} and {dl}."
            )
        return [b]

    def eval(self, *args: Any) -> Any:
        dl, d, du, b = map(in_single, args)
        return _solve(dl, d, du, b, self.perturb_singular).astype(args[3].dtype)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        *diagonals, b = primals
        *moved, right = tangents
        x = self(*diagonals, b)
        if not all(type(t) is Zero for t in moved):
            dl, d, du = map(instantiate, moved)
            change = _product(dl, d, du, x)
            right = add_tangents(right, neg(change))
        return x, self(*diagonals, instantiate(right))

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        dl, d, du, b = args
        assert is_linear(b)
        # The transposed matrix has the lower diagonal above, one entry earlier.
        shape = typeof(dl)
        n, last = shape.shape[-1], shape.ndim - 1
        none = zeros(shape.update(shape=(*shape.shape[:-1], 1)))
        join = Concatenate(last)
        lower = join(none, columns(du, 0, n - 1)) if n else du
        upper = join(columns(dl, 1, n), none) if n else dl
        return [None, None, None, self(lower, d, upper, cotangent)]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        big, small = {"low": 3.0, "high": 4.0}, {"low": 0.5, "high": 1.0}
        for dtype in ("float64", "complex128", "float32"):
            line: list[Any] = [
                ((4,), dtype, small),
                ((4,), dtype, big),
                ((4,), dtype, small),
            ]
            yield cls(), [*line, ((4, 2), dtype)]
        line = [((2, 3), "float64", k) for k in (small, big, small)]
        yield cls(), [*line, ((2, 3, 1), "float64")]
        yield cls(True), [*line, ((2, 3, 1), "float64")]


def _product(dl: Any, d: Any, du: Any, x: Any) -> Any:
    """The tridiagonal matrix times the matrix x."""
    aval = typeof(x)
    n, axis = aval.shape[-2], aval.ndim - 2
    total = mul(along_columns(d), x)
    if n < 2:
        return total
    none = zeros(aval.update(shape=(*aval.shape[:-2], 1, aval.shape[-1])))
    join = Concatenate(axis)
    below = mul(along_columns(columns(dl, 1, n)), rows(x, 0, n - 1))
    above = mul(along_columns(columns(du, 0, n - 1)), rows(x, 1, n))
    return add(add(total, join(none, below)), join(above, none))


def _solve(dl: Any, d: Any, du: Any, b: Any, perturb: bool) -> Any:
    """Elimination with row exchanges, as in LAPACK's gtsv, for all systems at once."""
    n = d.shape[-1]
    x = b.copy()
    # Each row of the triangle has its diagonal and two more elements.
    first, second = d.copy(), du.copy()
    second[..., n - 1 :] = 0
    third = np.zeros_like(du)
    with np.errstate(all="ignore"):
        for i in range(n - 1):
            pivot, below = first[..., i].copy(), dl[..., i + 1]
            rows_ = x[..., i, :].copy(), x[..., i + 1, :].copy()
            swap = pivot_size(pivot) < pivot_size(below)
            greater, smaller = np.where(swap, [below, pivot], [pivot, below])
            factor = np.where(greater == 0, 0, smaller / greater)
            here = (second[..., i].copy(), first[..., i + 1].copy())
            beyond = second[..., i + 1].copy()
            first[..., i] = np.where(swap, below, pivot)
            second[..., i] = np.where(swap, here[1], here[0])
            third[..., i] = np.where(swap, beyond, 0)
            first[..., i + 1] = np.where(
                swap, here[0] - factor * here[1], here[1] - factor * here[0]
            )
            second[..., i + 1] = np.where(swap, -factor * beyond, beyond)
            wide = swap[..., None]
            x[..., i, :] = np.where(wide, rows_[1], rows_[0])
            other = np.where(wide, rows_[0], rows_[1])
            x[..., i + 1, :] = other - factor[..., None] * x[..., i, :]
        if perturb and n:
            largest = pivot_size(np.array([first, second, third]))
            largest = largest.max((0, -1), keepdims=True)[0]
            limits = np.finfo(d.dtype)
            tiny = np.maximum(limits.eps * largest, limits.tiny / limits.eps)
            sign = np.where(first.real < 0, -1, 1)
            first = np.where(pivot_size(first) < tiny, sign * tiny, first).astype(
                d.dtype
            )
        for i in reversed(range(n)):
            value = x[..., i, :].copy()
            if i + 1 < n:
                value -= second[..., i, None] * x[..., i + 1, :]
            if i + 2 < n:
                value -= third[..., i, None] * x[..., i + 2, :]
            x[..., i, :] = value / first[..., i, None]
    singular = (first == 0).any(-1)[..., None, None]
    return np.where(singular, not_a_number(x.dtype), x)
