"""Elimination: LU with partial pivoting, and equations with tridiagonal matrices.

Golub and Van Loan, "Matrix Computations" (2013), algorithms 3.4.1 and 4.3.6; rows are
exchanged as LAPACK's getrf and gtsv do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.compiler.stablehlo.linalg.tensors import (
    INT,
    Tensor,
    column_numbers,
    filled,
    pivot_size,
    repeat,
    row_numbers,
    spread,
    where,
)
from curta.primitives.elementwise.arithmetic import add, sub
from curta.primitives.linalg.lu import LUPivotsToPermutation
from curta.primitives.linalg.tridiagonal import TridiagonalSolve


def lu(op: Any, a: Tensor) -> Sequence[Tensor]:
    """Outer products, a column after the other, over the whole matrix with masks."""
    m, n = a.shape

    def eliminate(k: Any, a: Tensor, pivots: Tensor, order: Tensor) -> Sequence[Tensor]:
        numbers, columns = row_numbers(m), column_numbers(n)
        size = where(numbers >= k, pivot_size(a.column(k)), -1)
        p = size.argmax(0)
        a, order = a.with_rows_swapped(k, p), order.with_rows_swapped(k, p)
        pivots = pivots.with_row(k, Tensor(p).reshape(1, 1))
        pivot, column = a.element(k, k), a.column(k)
        divided = (numbers > k) & pivot.differs(0)
        column = where(divided, column / pivot, column)
        rest = (numbers > k) & (columns > k)
        a = where(rest, a - column * a.row(k), a)
        return [a.with_column(k, column), pivots, order]

    carry = [a, filled(min(m, n), 1, INT), row_numbers(m)]
    return repeat(min(m, n), eliminate, carry)


def pivots_to_permutation(
    op: LUPivotsToPermutation, pivots: Tensor
) -> Sequence[Tensor]:
    """Exchanges applied in turn."""

    def exchange(i: Any, order: Tensor, pivots: Tensor) -> Sequence[Tensor]:
        other = pivots.row(i).reshape().value
        return [order.with_rows_swapped(i, other)]

    order = row_numbers(op.permutation_size)
    return repeat(pivots.shape[0], exchange, [order], [pivots])


def tridiagonal_solve(
    op: TridiagonalSolve, dl: Tensor, d: Tensor, du: Tensor, b: Tensor
) -> Sequence[Tensor]:
    """Each row of the triangle has its diagonal and two more elements."""
    n = d.shape[0]
    if not n:
        return [b]
    second = where(row_numbers(n) < n - 1, du, 0)
    carry = [d, second, filled(n, 1, d.dtype), b]
    first, second, third, x = repeat(n - 1, _eliminate, carry, [dl])
    if op.perturb_singular:
        first = _perturbed(first, second, third)
    return repeat(n, _substitute, [x], [first, second, third])


def _eliminate(
    i: Any, first: Tensor, second: Tensor, third: Tensor, x: Tensor, dl: Tensor
) -> Sequence[Tensor]:
    j = add(i, INT.type(1))
    pivot, below = first.row(i), dl.row(j)
    row, following = x.row(i), x.row(j)
    swap = pivot_size(pivot) < pivot_size(below)
    greater, smaller = where(swap, below, pivot), where(swap, pivot, below)
    factor = where(greater.equals(0), 0, smaller / greater)
    here, there, beyond = second.row(i), first.row(j), second.row(j)
    first = first.with_row(i, greater)
    second = second.with_row(i, where(swap, there, here))
    third = third.with_row(i, where(swap, beyond, 0))
    left = where(swap, here - factor * there, there - factor * here)
    first = first.with_row(j, left)
    second = second.with_row(j, where(swap, -(factor * beyond), beyond))
    upper, lower = where(swap, following, row), where(swap, row, following)
    x = x.with_row(i, upper).with_row(j, lower - factor * upper)
    return [first, second, third, x]


def _perturbed(first: Tensor, second: Tensor, third: Tensor) -> Tensor:
    """The diagonal with tiny numbers for what is smaller."""
    limits = np.finfo(first.dtype)
    largest = [pivot_size(x).max() for x in (first, second, third)]
    least = largest[0].maximum(largest[1]).maximum(largest[2]) * limits.eps
    least = least.maximum(limits.tiny / limits.eps)
    signed = where(first.real < 0, -least, least)
    signed = signed.astype(first.dtype)
    return where(pivot_size(first) < least, signed, first)


def _substitute(
    turn: Any, x: Tensor, first: Tensor, second: Tensor, third: Tensor
) -> Sequence[Tensor]:
    n = x.shape[0]
    i = sub(INT.type(n - 1), turn)
    value = x.row(i)
    # Starts beyond the end are moved inside; what is read there is not used.
    for factors, step in ((second, 1), (third, 2)):
        known = value - factors.row(i) * x.row(add(i, INT.type(step)))
        inside = Tensor(turn).reshape(1, 1) >= step
        value = where(spread(inside, value.shape), known, value)
    return [x.with_row(i, value / first.row(i))]
