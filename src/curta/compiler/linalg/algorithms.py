"""Ops on matrices as algorithms on matrices in memory: the table by op class."""

from __future__ import annotations

from collections.abc import Callable

from curta._base.lazy_dataclass import dataclass
from curta.compiler.linalg import factors, reflections
from curta.compiler.linalg.parts import MatrixView
from curta.core.op import Op
from curta.primitives.linalg.cholesky import Cholesky
from curta.primitives.linalg.lu import LU, LUPivotsToPermutation
from curta.primitives.linalg.qr import Geqrf, HouseholderProduct
from curta.primitives.linalg.triangular import TriangularSolve
from curta.primitives.linalg.tridiagonal import TridiagonalSolve
from curta.primitives.linalg.updates import CholeskyUpdate

Shape = tuple[int, int]


@dataclass(frozen=True)
class MatrixSpec:
    """A matrix in memory, of numbers or of 32-bit integers, and how it is seen."""

    shape: Shape
    integer: bool = False
    view: MatrixView = MatrixView()


@dataclass(frozen=True)
class Algorithm:
    """An algorithm on matrices in memory.

    `operands` and `results` are the arrays that begin and end as each of them; `work`
    is roughly how many operations it takes.
    """

    function: Callable[..., None]
    arrays: tuple[MatrixSpec, ...]
    operands: tuple[int, ...]
    results: tuple[int, ...]
    work: int
    options: tuple[bool, ...] = ()


def _triangular(op: TriangularSolve, a: Shape, b: Shape) -> Algorithm:
    # x op(a) = b is op(a)^T x^T = b^T, and that lies in memory as it is.
    from_right = not op.left_side
    transposed = op.transpose_a != from_right
    upper = op.lower_triangle == transposed  # a lower one from the other corner
    triangle = MatrixSpec(
        a, view=MatrixView(transposed, (upper, upper), op.conjugate_a)
    )
    right = MatrixSpec(b, view=MatrixView(from_right, (upper, False)))
    work, options = a[0] * b[0] * b[1], (op.unit_diagonal,)
    return Algorithm(factors.substitute, (triangle, right), (0, 1), (1,), work, options)


def _cholesky(op: Cholesky, a: Shape) -> Algorithm:
    return Algorithm(factors.cholesky, (MatrixSpec(a),), (0,), (0,), a[0] ** 3 // 3)


def _lu(op: LU, a: Shape) -> Algorithm:
    m, n = a
    arrays = MatrixSpec(a), _integers(min(m, n)), _integers(m)
    work = m * n * min(m, n)
    return Algorithm(factors.lu, arrays, (0,), (0, 1, 2), work)


def _permutation(op: LUPivotsToPermutation, pivots: Shape) -> Algorithm:
    arrays = _integers(pivots[0]), _integers(op.permutation_size)
    return Algorithm(factors.permutation, arrays, (0,), (1,), pivots[0])


def _integers(count: int) -> MatrixSpec:
    return MatrixSpec((count, 1), integer=True)


def _geqrf(op: Geqrf, a: Shape) -> Algorithm:
    m, n = a
    arrays, work = (MatrixSpec(a), MatrixSpec((min(m, n), 1))), 2 * m * n * min(m, n)
    return Algorithm(reflections.reflections, arrays, (0,), (0, 1), work)


def _product(op: HouseholderProduct, a: Shape, taus: Shape) -> Algorithm:
    function, work = reflections.product_of_reflections, 2 * a[0] * a[1] * taus[0]
    return Algorithm(function, (MatrixSpec(a), MatrixSpec(taus)), (0, 1), (0,), work)


def _update(op: CholeskyUpdate, r: Shape, w: Shape) -> Algorithm:
    arrays, work = (
        (MatrixSpec(r), MatrixSpec(w, view=MatrixView(True))),
        4 * r[0] * r[1],
    )
    return Algorithm(factors.update, arrays, (0, 1), (0,), work)


def _tridiagonal(op: TridiagonalSolve, *shapes: Shape) -> Algorithm:
    diagonal, right = shapes[0], shapes[-1]
    arrays = *map(MatrixSpec, shapes), MatrixSpec(diagonal)
    work, options = 8 * right[0] * right[1], (op.perturb_singular,)
    return Algorithm(factors.tridiagonal, arrays, (0, 1, 2, 3), (3,), work, options)


ALGORITHMS: dict[type[Op], Callable[..., Algorithm]] = {
    Cholesky: _cholesky,
    LU: _lu,
    LUPivotsToPermutation: _permutation,
    TriangularSolve: _triangular,
    Geqrf: _geqrf,
    HouseholderProduct: _product,
    TridiagonalSolve: _tridiagonal,
    CholeskyUpdate: _update,
}
"""From an op and the shapes of its operands, vectors as columns."""
