"""Jacobi's method: eigenvalues of Hermitian matrices, and singular values.

Golub and Van Loan, "Matrix Computations" (2013), sections 8.5 and 8.6.3. A round
rotates all pairs (i, i + n/2) at once; between rounds the columns move as players in a
tournament do, so that n - 1 rounds, a sweep, meet all pairs, and bring each column
back to where it was. Some ten sweeps are needed, since they converge quadratically.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.compiler.linalg.parts import where
from curta.compiler.stablehlo.linalg.householder import hermitian, qr
from curta.compiler.stablehlo.linalg.tensors import (
    INT,
    MatrixTensor,
    column_numbers,
    eye,
    filled,
    joined,
    on_diagonal,
    repeat,
    repeat_while,
    scaled,
)
from curta.primitives.elementwise.arithmetic import add
from curta.primitives.elementwise.complex import part_dtype
from curta.primitives.linalg.eigen import Eigh
from curta.primitives.linalg.family import not_a_number
from curta.primitives.linalg.lu import permuted_rows
from curta.primitives.linalg.qr import QR
from curta.primitives.linalg.svd import SVD
from curta.primitives.sorting import Sort

_SWEEPS = 60  # at most: 16 were needed for graded matrices and low ranks of 120


class _JacobiRotations:
    """Rotations that make a row of Hermitian 2x2 matrices [p, g; g^H, q] diagonal.

    Algorithm 8.5.1, where the phase of g moves into the sine.
    """

    def __init__(self, p: MatrixTensor, q: MatrixTensor, g: MatrixTensor) -> None:
        size = g.abs()
        none = size.equals(0)
        safe = where(none, 1, size)
        zeta = (q - p) / (2.0 * safe)
        sign = where(zeta < 0, -1.0, filled(1, 1, zeta.dtype, 1.0))
        t = where(none, 0, sign / (zeta.abs() + (1.0 + zeta * zeta).sqrt()))
        c = 1.0 / (1.0 + t * t).sqrt()
        self.c = c.astype(g.dtype)
        self.s = (t * c).astype(g.dtype) * where(none, 0, g / safe.astype(g.dtype))
        self.moved = t * size  # from p to q

    def columns(self, x: MatrixTensor) -> tuple[MatrixTensor, MatrixTensor]:
        """The columns of both halves of `x`, rotated."""
        left, right = halves(1, x)
        return (
            self.c * left - self.s.conj() * right,
            self.s * left + self.c * right,
        )


def halves(axis: int, x: MatrixTensor) -> tuple[MatrixTensor, MatrixTensor]:
    size = x.shape[axis]
    return x.part(axis, 0, size // 2), x.part(axis, size // 2, size)


def next_round(axis: int, first: MatrixTensor, second: MatrixTensor) -> MatrixTensor:
    """Both halves after the players have moved on by one seat; the first one stays."""
    size = first.shape[axis]
    if size == 1:
        return joined(axis, first, second)
    return joined(
        axis,
        first.part(axis, 0, 1),
        second.part(axis, 0, 1),
        first.part(axis, 1, size - 1),
        second.part(axis, 1, size),
        first.part(axis, size - 1, size),
    )


def _even(a: MatrixTensor, rows: bool) -> MatrixTensor:
    """`a` with a column of zeros, and a row if `rows`, where they are odd in number."""
    if not a.shape[1] % 2:
        return a
    if rows:
        a = joined(0, a, filled(1, a.shape[1], a.dtype))
    return joined(1, a, filled(a.shape[0], 1, a.dtype))


# -------------------------------------------------------------- eigenvalues


def eigh(op: Eigh, a: MatrixTensor) -> Sequence[MatrixTensor]:
    """Rotations from both sides; what does not converge, as NaN, becomes NaN."""
    n = a.shape[0]
    kind = part_dtype(a.dtype)
    if not n:
        return [a, filled(0, 1, kind)]
    matrix, factor = scaled(hermitian(a, op.lower_triangle))
    matrix = _even(matrix, rows=True)
    size = matrix.shape[0]
    carry = [MatrixTensor(INT.type(0)), matrix, eye(n, size, a.dtype)]
    _, matrix, v = repeat_while(_is_not_diagonal, _eigh_sweep, carry)
    w = matrix.diagonal().real.part(1, 0, n) * factor
    good = _off_diagonal(matrix) <= _tolerated(matrix)
    w, (v,) = sorted_columns(w, w, v.part(1, 0, n))
    nan = kind.type(np.nan), not_a_number(a.dtype)
    w, v = where(good, w.T, nan[0]), where(good, v, nan[1])
    if op.subset_by_index is not None:
        w, v = w.part(0, *op.subset_by_index), v.part(1, *op.subset_by_index)
    return [v, w]


def _off_diagonal(a: MatrixTensor) -> MatrixTensor:
    return where(on_diagonal(*a.shape), 0, a.squared()).sum(0, 1)


def _tolerated(a: MatrixTensor) -> MatrixTensor:
    return a.squared().sum(0, 1) * float(np.finfo(a.dtype).eps) ** 2


def _is_not_diagonal(
    iteration: MatrixTensor, a: MatrixTensor, v: MatrixTensor
) -> MatrixTensor:
    return (_off_diagonal(a) > _tolerated(a)) & (iteration.reshape(1, 1) < _SWEEPS)


def _eigh_sweep(
    iteration: MatrixTensor, a: MatrixTensor, v: MatrixTensor
) -> Sequence[MatrixTensor]:
    rounds = a.shape[0] - 1
    return [_counted(iteration), *repeat(rounds, _eigh_round, [a, v])]


def _counted(iteration: MatrixTensor) -> MatrixTensor:
    return MatrixTensor(add(iteration.value, INT.type(1)))


def _eigh_round(i: Any, a: MatrixTensor, v: MatrixTensor) -> Sequence[MatrixTensor]:
    (upper, corner), (_, lower) = (halves(1, x) for x in halves(0, a))
    p, q = upper.diagonal().real, lower.diagonal().real
    rotations = _JacobiRotations(p, q, corner.diagonal())
    rows = rotations.columns(joined(1, *rotations.columns(a)).H)
    # The adjoint of the matrix, which is the matrix. Of the pairs it is known exactly
    # what becomes, so that no rounding of the diagonal is left beside it.
    middle = on_diagonal(*upper.shape)
    (upper, corner), (other, lower) = (halves(0, x) for x in rows)
    upper = where(middle, (p - rotations.moved).astype(a.dtype), upper)
    lower = where(middle, (q + rotations.moved).astype(a.dtype), lower)
    corner, other = where(middle, 0, corner), where(middle, 0, other)
    left = next_round(0, upper, corner)
    right = next_round(0, other, lower)
    return [next_round(1, left, right), next_round(1, *rotations.columns(v))]


def sorted_columns(
    keys: MatrixTensor, w: MatrixTensor, *matrices: MatrixTensor
) -> tuple[MatrixTensor, list[MatrixTensor]]:
    """A row, and the columns of matrices, in the ascending order of keys."""
    n = w.shape[1]
    _, order = Sort(1)(keys.value, column_numbers(n).value)
    index = MatrixTensor(order).reshape(n).value
    moved = [MatrixTensor(permuted_rows(x.T.value, index)).T for x in (w, *matrices)]
    return moved[0], moved[1:]


# ---------------------------------------------------------- singular values


def svd(op: SVD, a: MatrixTensor) -> Sequence[MatrixTensor]:
    """One-sided rotations of the columns, of the adjoint if those are more."""
    m, n = a.shape
    wide = m < n
    s, *vectors = _tall(op, a.H if wide else a)
    s = s.T
    if not vectors:
        return [_subset(op, s, 0)]
    u, v = reversed(vectors) if wide else vectors
    return [_subset(op, s, 0), _subset(op, u, 1), _subset(op, v, 1).H]


def _subset(op: SVD, x: MatrixTensor, axis: int) -> MatrixTensor:
    if op.subset_by_index is None or (op.full_matrices and op.compute_uv):
        return x
    return x.part(axis, *op.subset_by_index)


def _tall(op: SVD, a: MatrixTensor) -> list[MatrixTensor]:
    """Singular values, a row, and U and V if asked for, where m >= n."""
    m, n = a.shape
    kind = part_dtype(a.dtype)
    width = m if op.full_matrices else n
    if not n:
        empty = filled(1, 0, kind)
        return [empty, eye(m, width, a.dtype), a.H @ a][: 3 if op.compute_uv else 1]
    a, factor = scaled(a)
    columns, v = _orthogonalised(a, op.compute_uv)
    good = a.squared().sum(0, 1).is_finite()
    s = _lengths(columns)
    s, matrices = sorted_columns(-s, s, columns, *v)
    result = [s * factor]
    if op.compute_uv:
        # Reflections give an orthonormal U whatever the rank is; R is diagonal.
        q, r = qr(QR(False, op.full_matrices), matrices[0])
        head = r.part(0, 0, n).diagonal()
        size = head.abs()
        phase = where(size.equals(0), 1, head / where(size.equals(0), 1, size))
        phase = joined(1, phase, filled(1, width - n, a.dtype, 1))
        result += [q * phase, matrices[1]]
    return [where(good, x, not_a_number(x.dtype)) for x in result]


def _lengths(x: MatrixTensor) -> MatrixTensor:
    return x.squared().sum(0).sqrt()


def _orthogonalised(
    a: MatrixTensor, with_v: bool
) -> tuple[MatrixTensor, list[MatrixTensor]]:
    """Orthogonal columns a V, and V."""
    m, n = a.shape
    a = _even(a, rows=False)
    size = a.shape[1]
    kind = part_dtype(a.dtype)
    limit = 4 * float(np.finfo(kind).eps) * m**0.5

    def goes_on(
        iteration: MatrixTensor, worst: MatrixTensor, *rest: MatrixTensor
    ) -> MatrixTensor:
        return (worst > limit) & (iteration.reshape(1, 1) < _SWEEPS)

    def sweep(
        iteration: MatrixTensor, worst: MatrixTensor, *rest: MatrixTensor
    ) -> Sequence[MatrixTensor]:
        carry = [filled(1, 1, kind), *rest]
        return [_counted(iteration), *repeat(size - 1, _svd_round, carry)]

    carry = [MatrixTensor(INT.type(0)), filled(1, 1, kind, 1), a]
    if with_v:
        carry.append(eye(n, size, a.dtype))
    _, _, *result = repeat_while(goes_on, sweep, carry)
    a, *v = (x.part(1, 0, n) for x in result)
    return a, v


def _svd_round(
    i: Any, worst: MatrixTensor, *matrices: MatrixTensor
) -> Sequence[MatrixTensor]:
    """Rotations that make pairs of columns orthogonal; the greatest cosine before."""
    left, right = halves(1, matrices[0])
    p, q = left.squared().sum(0), right.squared().sum(0)
    g = (left.conj() * right).sum(0)
    rotations = _JacobiRotations(p, q, g)
    lengths = p.sqrt() * q.sqrt()
    none = lengths.equals(0)
    cosines = where(none, 0, g.abs() / where(none, 1, lengths))
    moved = [next_round(1, *rotations.columns(x)) for x in matrices]
    return [worst.maximum(cosines.max()), *moved]
