"""The LU decomposition with partial pivoting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.config import config
from curta.core.dim import min_dim
from curta.core.tangents import zero_tangent
from curta.core.trace import typeof
from curta.primitives.elementwise import add
from curta.primitives.families import NonDifferentiable
from curta.primitives.indexing import Gather, GatherDimensionNumbers
from curta.primitives.linalg.family import MatrixOp, Shape, in_single
from curta.primitives.linalg.matrices import columns, eye, matmul, rows, tril, triu
from curta.primitives.linalg.triangular import TriangularSolve
from curta.primitives.slicing import Pad
from curta.primitives.structure import Reshape

_INT = np.dtype(np.int32)


class LU(MatrixOp):
    """P a = L U as (L and U in one matrix, pivots, permutation).

    The diagonal of L is one and not stored. Row i was exchanged with row pivots[i];
    row i of P a is row permutation[i] of a.
    """

    name: ClassVar[str] = "lu"
    multiple_results: ClassVar[bool] = True

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        (shape,) = shapes
        return [shape, (min_dim(*shape),), shape[:1]]

    def out_dtypes(self, dtype: Any) -> Sequence[Any]:
        return [dtype, _INT, _INT]

    def eval(self, *args: Any) -> Any:
        lu = np.array(in_single(args[0]), order="C")
        *batch, m, n = lu.shape
        pivots = np.empty((*batch, min(m, n)), _INT)
        block = config.tuning.lu_block
        for start in range(0, min(m, n), block):
            _eliminate(lu, pivots, start, min(start + block, m, n))
        return [
            lu.astype(args[0].dtype, copy=False),
            pivots,
            LUPivotsToPermutation(m).eval(pivots),
        ]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        # De Hoog, Anderssen and Lukas, "Differentiation of matrix functionals using
        # triangular factorization" (2011): L' = L tril(F, -1) and U' = triu(F) U for
        # F = L^-1 P a' U^-1, where L and U are made square with parts of the identity.
        (a,), (da,) = primals, tangents
        lu, pivots, permutation = self(a)
        *_, m, n = typeof(a).shape
        k = min(m, n)
        lower = _extended(tril(columns(lu, 0, k), -1), 0, m - k)
        lower = add(lower, eye(typeof(a).dtype, m, typeof(a).ndim))
        upper = _extended(triu(rows(lu, 0, k)), n - k, 0)
        if n > k:
            unit = eye(typeof(a).dtype, n - k, typeof(a).ndim)
            upper = add(upper, _shifted(unit, k))
        moved = permuted_rows(da, permutation)
        moved = TriangularSolve(True, True, unit_diagonal=True)(lower, moved)
        moved = TriangularSolve(False, False)(upper, moved)
        tangent = add(matmul(lower, tril(moved, -1)), matmul(triu(moved), upper))
        zeros = [zero_tangent(typeof(x)) for x in (pivots, permutation)]
        return [lu, pivots, permutation], [tangent, *zeros]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        values = {"values": [1.0, 2.0, 5.0, 3.0, -4.0, 0.5, 2.5, -1.0, 7.0]}
        for dtype in ("float64", "complex128"):
            for shape in ((3, 3), (3, 2), (2, 3), (2, 3, 3)):
                yield cls(), [(shape, dtype, values)]
        yield cls(), [((3, 3), "float16", values)]
        yield cls(), [((0, 2), "float32")]


@dataclass(frozen=True)
class LUPivotsToPermutation(NonDifferentiable, MatrixOp):
    """The permutation that exchanging row i with row pivots[i], in turn, makes."""

    name: ClassVar[str] = "lu_pivots_to_permutation"
    ranks: ClassVar[tuple[int, ...]] = (1,)
    accepts: ClassVar[tuple[Any, ...]] = (np.int32,)
    permutation_size: int

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        ((size,),) = shapes
        if self.permutation_size < size:
            raise ValueError(
                f"Output permutation size {self.permutation_size} has to exceed the"
                f" trailing dimension of the pivots. Got pivots size {size}"
            )
        if self.permutation_size > np.iinfo(_INT).max:
            raise OverflowError(
                f"Python int {self.permutation_size} too large to convert to int32: the"
                " permutation is an array of such integers"
            )
        return [(self.permutation_size,)]

    def eval(self, *args: Any) -> Any:
        (pivots,) = args
        *batch, count = pivots.shape
        out = np.empty((*batch, self.permutation_size), _INT)
        out[...] = np.arange(self.permutation_size)
        for i in range(count):
            _exchange(out[..., None], i, pivots[..., i])
        return out

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(3), [((3,), "int32", {"values": [2, 1, 2]})]
        yield cls(4), [((2, 3), "int32", {"values": [2, 1, 3]})]
        yield cls(2), [((0,), "int32")]


def permuted_rows(x: Any, permutation: Any) -> Any:
    """The rows of the matrices `x` in the order of the index vectors."""
    shape = typeof(x).shape
    rank, last = len(shape), len(shape) - 1
    batch = tuple(range(rank - 2))
    numbers = GatherDimensionNumbers((last,), (rank - 2,), (rank - 2,), batch, batch)
    sizes = (*[1] * (rank - 1), shape[-1])
    index = Reshape((*typeof(permutation).shape, 1))(permutation)
    return Gather(numbers, sizes)(x, index)


def _eliminate(lu: Any, pivots: Any, start: int, stop: int) -> None:
    """Eliminate columns `start` to `stop`, and update the columns after them."""
    with np.errstate(all="ignore"):
        for k in range(start, stop):
            pivots[..., k] = k + np.argmax(pivot_size(lu[..., k:, k]), -1)
            _exchange(lu, k, pivots[..., k])
            pivot = lu[..., k, k, None]
            below = lu[..., k + 1 :, k]
            np.divide(below, pivot, out=below, where=pivot != 0)
            row = lu[..., k : k + 1, k + 1 : stop]
            lu[..., k + 1 :, k + 1 : stop] -= below[..., None] * row
        if stop < lu.shape[-1]:
            block, right = lu[..., start:stop, start:stop], lu[..., stop:]
            solve = TriangularSolve(True, True, unit_diagonal=True)
            right[..., start:stop, :] = solve.eval(block, right[..., start:stop, :])
            known = lu[..., stop:, start:stop] @ right[..., start:stop, :]
            right[..., stop:, :] -= known


def pivot_size(x: Any) -> Any:
    """What LAPACK compares to find a pivot: |re| + |im|."""
    return abs(x.real) + abs(x.imag) if x.dtype.kind == "c" else abs(x)


def _exchange(x: Any, k: int, other: Any) -> None:
    """Exchange row `k` of each matrix with the row `other`."""
    if x.ndim == 2:
        x[[k, int(other)]] = x[[int(other), k]]
        return
    pivot_row = other[..., None, None]
    row = x[..., k : k + 1, :].copy()
    x[..., k : k + 1, :] = np.take_along_axis(x, pivot_row, -2)
    np.put_along_axis(x, pivot_row, row, -2)


def _extended(x: Any, rows: int, columns: int) -> Any:
    """`x` with more rows and columns of zeros."""
    config = [(0, 0, 0)] * (typeof(x).ndim - 2) + [(0, rows, 0), (0, columns, 0)]
    return Pad(tuple(config))(x, typeof(x).dtype.type(0))


def _shifted(x: Any, by: int) -> Any:
    """`x` with `by` rows and columns of zeros before it."""
    config = [(0, 0, 0)] * (typeof(x).ndim - 2) + [(by, 0, 0)] * 2
    return Pad(tuple(config))(x, typeof(x).dtype.type(0))


lu: LU = LU()
