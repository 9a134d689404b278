"""Balancing: exact similarities that make eigenvalues more accurate.

Parlett and Reinsch, "Balancing a matrix for calculation of eigenvalues and
eigenvectors" (1969); James, Langou and Lowery, "On matrix balancing and eigenvector
computation" (2014), as LAPACK's `gebal`: rows and columns that show an eigenvalue go to
the ends, and the others are multiplied by powers of two until norms are alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from curta.compiler.linalg.parts import where
from curta.compiler.stablehlo.linalg.shifts import not_zero
from curta.compiler.stablehlo.linalg.tensors import (
    INT,
    MatrixTensor,
    column_numbers,
    filled,
    greatest_of_batch,
    length,
    repeat,
    repeat_while,
    row_numbers,
)
from curta.primitives.elementwise.rounding import ReducePrecision
from curta.primitives.linalg.lu import permuted_rows

_PASSES = 64  # over all rows, at most; some three are usual


class Balanced(NamedTuple):
    """D^-1 P^T a P D: the matrix, row numbers that P takes, and D, as columns."""

    matrix: MatrixTensor
    order: MatrixTensor
    scales: MatrixTensor

    def undone(self, vectors: MatrixTensor, left: bool = False) -> MatrixTensor:
        """The eigenvectors of a, of those of the balanced matrix."""
        n = self.order.shape[0]
        scaled = vectors / self.scales if left else vectors * self.scales
        permutation = self.order.equals(column_numbers(n))
        # The number of the row to which row i went.
        back = where(permutation, row_numbers(n), 0).sum(0).reshape(n)
        return MatrixTensor(permuted_rows(scaled.value, back.value))


def balanced(a: MatrixTensor) -> Balanced:
    n = a.shape[0]
    if n < 2:
        return Balanced(a, row_numbers(n), filled(n, 1, a.real.dtype, 1))
    a, order, low, high = _isolated(a)
    a, scales = _scaled(a, low, high)
    return Balanced(a, order, scales)


def _isolated(a: MatrixTensor) -> list[MatrixTensor]:
    """With rows moved to the ends; their numbers, and the range of those left.

    A row that has 0 beside the diagonal goes to the end, and else a column that has to
    the beginning, until there is none.
    """
    n = a.shape[0]

    def goes_on(more: MatrixTensor, *rest: MatrixTensor) -> MatrixTensor:
        return greatest_of_batch(more) > 0

    def step(more: MatrixTensor, *carry: MatrixTensor) -> Sequence[MatrixTensor]:
        a, order, low, high = carry
        numbers = row_numbers(n)
        within = (numbers >= low) & (numbers <= high)
        full = a.differs(0) & numbers.differs(numbers.T) & within & within.T
        count = full.astype(INT)
        row = where(within & count.max(1).equals(0), numbers, -1).max()
        column = -where(within & count.max(0).T.equals(0), -numbers, -n).max()
        ends, begins = row >= 0, (row < 0) & (column < n)
        chosen = where(ends, row, where(begins, column, low)).reshape().value
        to = where(ends, high, low).reshape().value
        a = a.with_rows_swapped(chosen, to).with_columns_swapped(chosen, to)
        order = order.with_rows_swapped(chosen, to)
        low, high = low + begins.astype(INT), high - ends.astype(INT)
        more = ((ends | begins) & (low < high)).astype(INT)
        return [more, a, order, low, high]

    ends = filled(1, 1, INT), filled(1, 1, INT, n - 1)
    carry = [filled(1, 1, INT, 1), a, row_numbers(n), *ends]
    return repeat_while(goes_on, step, carry)[1:]


def _scaled(
    a: MatrixTensor, low: MatrixTensor, high: MatrixTensor
) -> tuple[MatrixTensor, MatrixTensor]:
    """With alike norms of rows and columns, and what columns were multiplied by."""
    n, kind = a.shape[0], a.real.dtype
    most = float(np.finfo(kind).max) ** 0.125
    power = ReducePrecision(np.finfo(kind).iexp, 0)

    def one(
        i: Any, changed: MatrixTensor, *carry: MatrixTensor
    ) -> Sequence[MatrixTensor]:
        a, scales, within = carry
        here = row_numbers(n).equals(i)
        r = length(where(within.T, a.row(i), 0))
        c = length(where(within, a.column(i), 0))
        best = not_zero(r).sqrt() / not_zero(c).sqrt()
        best = best.minimum(most).maximum(1 / most)
        factor = MatrixTensor(power(best.value))
        moves = (r > 0) & (c > 0) & (c * factor + r / factor < 0.95 * (c + r))
        moves = moves & ((here & within).astype(INT).max() > 0)
        factor = where(moves, factor, 1)
        # The element on the diagonal stays what it is.
        a = a.with_row(i, where(here.T, a.row(i), a.row(i) / factor))
        a = a.with_column(i, where(here, a.column(i), a.column(i) * factor))
        scales = where(here, scales * factor, scales)
        return [changed.maximum(moves.astype(INT)), a, scales, within]

    def goes_on(
        iteration: MatrixTensor, changed: MatrixTensor, *rest: MatrixTensor
    ) -> MatrixTensor:
        return (greatest_of_batch(changed) > 0) & (iteration < _PASSES)

    def over_all(
        iteration: MatrixTensor, changed: MatrixTensor, *carry: MatrixTensor
    ) -> Sequence[MatrixTensor]:
        return [iteration + 1, *repeat(n, one, [filled(1, 1, INT), *carry])]

    within = (row_numbers(n) >= low) & (row_numbers(n) <= high)
    carry = [filled(1, 1, INT, 1), a, filled(n, 1, kind, 1), within]
    result = repeat_while(goes_on, over_all, [filled(1, 1, INT), *carry])
    return result[2], result[3]
