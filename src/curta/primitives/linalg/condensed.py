"""Matrices made almost triangular by reflections: Hessenberg and tridiagonal form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from curta._base.lazy_dataclass import dataclass
from curta.primitives.elementwise.complex import part_dtype
from curta.primitives.linalg.family import MatrixOp, Shape, by_lapack


class Hessenberg(MatrixOp):
    """H of a = Q H Q^H, zero below its first subdiagonal, and Q's reflections.

    The first output holds H and, below it, the Householder vectors; the second their
    factors.
    """

    name: ClassVar[str] = "hessenberg"
    multiple_results: ClassVar[bool] = True

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        (shape,) = shapes
        if shape[0] != shape[1] or shape[0] == 0:
            raise ValueError(
                "Argument to Hessenberg reduction must have shape [..., n, n], got"
                f" shape {shape}"
            )
        return [shape, (shape[0] - 1,)]

    def out_dtypes(self, dtype: Any) -> Sequence[Any]:
        return [dtype, dtype]

    def eval(self, *args: Any) -> Any:
        return by_lapack(self, args)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        fixed = {"constant": True}
        for dtype in ("float64", "complex64"):
            yield cls(), [((3, 3), dtype, fixed)]
            yield cls(), [((2, 4, 4), dtype, fixed)]
        yield cls(), [((1, 1), "float32", fixed)]


@dataclass(frozen=True)
class Tridiagonal(MatrixOp):
    """T of a = Q T Q^H for Hermitian a: its diagonal and off-diagonal, and Q.

    The outputs are the matrix with the Householder vectors in one triangle, the
    diagonal, the off-diagonal, and the factors of the reflections.
    """

    name: ClassVar[str] = "tridiagonal"
    multiple_results: ClassVar[bool] = True
    param_names: ClassVar[Mapping[str, str | None]] = {"lower": "lower_triangle"}
    lower_triangle: bool = True

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        (shape,) = shapes
        if shape[0] != shape[1] or shape[0] == 0:
            raise ValueError(
                f"The input to tridiagonal must be a square matrix. Got shape {shape}."
            )
        n = shape[0]
        return [shape, (n,), (n - 1,), (n - 1,)]

    def out_dtypes(self, dtype: Any) -> Sequence[Any]:
        real = part_dtype(dtype) if dtype.kind == "c" else dtype
        return [dtype, real, real, dtype]

    def eval(self, *args: Any) -> Any:
        return by_lapack(self, args)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        fixed = {"constant": True}
        for dtype in ("float64", "complex64"):
            yield cls(), [((3, 3), dtype, fixed)]
            yield cls(False), [((2, 4, 4), dtype, fixed)]
        yield cls(), [((1, 1), "float32", fixed)]
