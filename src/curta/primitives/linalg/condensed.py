"""Matrices made almost triangular by reflections: Hessenberg and tridiagonal form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta.lazy_dataclass import dataclass
from curta.primitives.elementwise.complex import part_dtype
from curta.primitives.linalg import lapack
from curta.primitives.linalg.family import MatrixOp, Shape, in_single, nan_like


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
        (x,) = args
        outs = lapack.each(_hessenberg, in_single(x))
        return [out.astype(x.dtype, copy=False) for out in outs]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        fixed = {"constant": True}
        for dtype in ("float64", "complex64"):
            yield cls(), [((3, 3), dtype, fixed)]
            yield cls(), [((2, 4, 4), dtype, fixed)]
        yield cls(), [((1, 1), "float32", fixed)]


def _hessenberg(a: Any) -> tuple[Any, Any]:
    n = a.shape[0]
    packed = np.array(a, order="F")
    factors = np.zeros(n - 1, a.dtype)
    args = (n, 1, n, packed, n, factors, "work")
    if lapack.call_with_workspace("gehrd", a.dtype, *args):
        return nan_like(packed), nan_like(factors)
    return packed, factors


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
        (x,) = args
        uplo = b"L" if self.lower_triangle else b"U"
        outs = lapack.each(lambda a: _tridiagonal(a, uplo), in_single(x))
        kinds = self.out_dtypes(x.dtype)
        return [out.astype(kind, copy=False) for out, kind in zip(outs, kinds)]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        fixed = {"constant": True}
        for dtype in ("float64", "complex64"):
            yield cls(), [((3, 3), dtype, fixed)]
            yield cls(False), [((2, 4, 4), dtype, fixed)]
        yield cls(), [((1, 1), "float32", fixed)]


def _tridiagonal(a: Any, uplo: bytes) -> tuple[Any, ...]:
    n, dtype = a.shape[0], a.dtype
    packed = np.array(a, order="F")
    d = np.zeros(n, packed.real.dtype)
    e = np.zeros(n - 1, packed.real.dtype)
    factors = np.zeros(n - 1, dtype)
    name = "hetrd" if dtype.kind == "c" else "sytrd"
    args = (uplo, n, packed, n, d, e, factors, "work")
    outs = (packed, d, e, factors)
    if lapack.call_with_workspace(name, dtype, *args):
        return tuple(map(nan_like, outs))
    return outs
