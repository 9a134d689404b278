"""The Cholesky decomposition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta.core.trace import typeof
from curta.primitives.elementwise import add, div
from curta.primitives.linalg.family import (
    MatrixOp,
    Shape,
    in_single,
    nan_where_it_fails,
    require_square,
)
from curta.primitives.linalg.matrices import eye, matmul, tril
from curta.primitives.linalg.triangular import TriangularSolve


class Cholesky(MatrixOp):
    """The lower triangular L with L L^H = a; NaN if a is not positive definite.

    Only the lower triangle of a is read; what is above the diagonal of L is zero.
    """

    name: ClassVar[str] = "cholesky"

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        require_square(self.name, shapes[0])
        return shapes

    def eval(self, *args: Any) -> Any:
        (out,) = nan_where_it_fails(_factor, in_single(args[0]))
        return out.astype(args[0].dtype, copy=False)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        # Murray, "Differentiation of the Cholesky decomposition" (2016), section 3.1;
        # as there, the tangent is taken to be Hermitian.
        (a,), (da,) = primals, tangents
        factor = tril(self(a))
        right = TriangularSolve(False, True, True, True)
        left = TriangularSolve(True, True)
        inner = tril(left(factor, right(factor, da)))
        aval = typeof(inner)
        halves = add(eye(aval.dtype, aval.shape[-1], aval.ndim), aval.dtype.type(1))
        return factor, matmul(factor, div(inner, halves))

    @classmethod
    def samples(cls) -> Iterator[Any]:
        # Of a derivative in a direction that is not Hermitian, only half is asked.
        rough = {"values": [4.0, 1.0, 1.0, 3.0], "rough": True}
        for dtype in ("float64", "complex128", "float32", "complex64", "float16"):
            yield cls(), [((2, 2), dtype, rough)]
            yield cls(), [((3, 2, 2), dtype, rough)]
        yield cls(), [((1, 1), "float64", {"low": 1.0})]
        yield cls(), [((0, 0), "float32")]


def _factor(x: Any) -> Sequence[Any]:
    return [np.linalg.cholesky(x)]


cholesky: Cholesky = Cholesky()
