"""Reflections: QR and its parts, Hessenberg and tridiagonal form.

Golub and Van Loan, "Matrix Computations" (2013), algorithms 5.2.1, 5.4.1, 7.4.2 and
8.3.1, with LAPACK's signs: a reflection is 1 - tau v v^H, where v starts with 1, and
its adjoint makes a column's rest zero and the element before it real (larfg).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.compiler.linalg.tensors import (
    INT,
    Tensor,
    below_diagonal,
    column_numbers,
    eye,
    filled,
    repeat,
    row_numbers,
    scale_of,
    where,
)
from curta.primitives.elementwise.arithmetic import add, sub
from curta.primitives.linalg.condensed import Tridiagonal
from curta.primitives.linalg.qr import QR
from curta.primitives.linalg.updates import Ormqr


def reflection(x: Tensor, k: Any) -> tuple[Tensor, Tensor, Tensor]:
    """v, tau and the new element k, for the elements of a column from k on.

    All is divided by the greatest element, so that squares are in range.
    """
    numbers = row_numbers(x.shape[0])
    scale = scale_of(where(numbers >= k, x, 0))
    x = x / scale
    alpha = where(numbers.equals(k), x, 0).sum()
    rest = where(numbers > k, x, 0)
    whole = (rest.squared().sum() + alpha.squared()).sqrt()
    done = rest.part_size().max().equals(0)
    if x.is_complex:
        done = done & alpha.imag.equals(0)
    beta = where(alpha.real < 0, whole, -whole)
    safe = where(done, 1, beta)
    tau = where(done, 0, (safe - alpha) / safe)
    v = where(done, 0, rest / where(done, 1, alpha - beta))
    v = where(numbers.equals(k), 1, v)
    return v, tau, where(done, alpha, beta) * scale


def reflected(x: Tensor, v: Tensor, tau: Tensor) -> Tensor:
    """(1 - tau v v^H) x."""
    return x - tau * v * (v.conj() * x).sum(0)


def stored(a: Tensor, k: Any) -> Tensor:
    """The vector that column k of `a` holds below its diagonal."""
    numbers = row_numbers(a.shape[0])
    v = where(numbers > k, a.column(k), 0)
    return where(numbers.equals(k), 1, v)


def _reduced(a: Tensor, pivoting: bool) -> list[Tensor]:
    """R with the vectors below it, the factors, and the order of the columns."""
    m, n = a.shape

    def step(i: Any, a: Tensor, taus: Tensor, order: Tensor) -> Sequence[Tensor]:
        numbers, columns = row_numbers(m), column_numbers(n)
        if pivoting:
            norms = where(numbers >= i, a, 0).squared().sum(0)
            chosen = where(columns >= i, norms, -1).argmax(1)
            a = a.with_columns_swapped(i, chosen)
            order = order.with_columns_swapped(i, chosen)
        column = a.column(i)
        v, tau, beta = reflection(column, i)
        a = where(columns > i, reflected(a, v, tau.conj()), a)
        column = where(numbers > i, v, where(numbers.equals(i), beta, column))
        return [a.with_column(i, column), taus.with_row(i, tau), order]

    count = min(m, n)
    carry = [a, filled(count, 1, a.dtype), column_numbers(n)]
    return repeat(count, step, carry)


def multiplied(a: Tensor, taus: Tensor, c: Tensor, adjoint: bool) -> Tensor:
    """Q c, or Q^H c, with the reflections that `a` holds."""
    count = taus.shape[0]

    def step(iteration: Any, c: Tensor, a: Tensor, taus: Tensor) -> Sequence[Tensor]:
        i = iteration if adjoint else sub(INT.type(count - 1), iteration)
        tau = taus.row(i)
        return [reflected(c, stored(a, i), tau.conj() if adjoint else tau)]

    return repeat(count, step, [c], [a, taus])[0]


def ormqr(op: Ormqr, a: Tensor, taus: Tensor, c: Tensor) -> Sequence[Tensor]:
    """From the right it is the adjoint, of which rows are taken from the left."""
    if op.left:
        return [multiplied(a, taus, c, op.transposed)]
    return [multiplied(a, taus, c.H, not op.transposed).H]


def qr_of(a: Tensor, full: bool, pivoting: bool = False) -> list[Tensor]:
    """Q, R and the order of the columns, a row."""
    m, n = a.shape
    k = m if full else min(m, n)
    packed, taus, order = _reduced(a, pivoting)
    q = multiplied(packed, taus, eye(m, k, a.dtype), False)
    upper = packed.part(0, 0, k)
    return [q, where(below_diagonal(k, n, -1), 0, upper), order]


def qr(op: QR, a: Tensor) -> Sequence[Tensor]:
    """The reduction, and the product of its reflections."""
    return qr_of(a, op.full_matrices, op.pivoting)[: 2 + op.pivoting]


def hessenberg(op: Any, a: Tensor) -> Sequence[Tensor]:
    """Reflections from both sides, a column after the other."""
    n = a.shape[0]

    def step(i: Any, a: Tensor, taus: Tensor) -> Sequence[Tensor]:
        numbers, columns, k = row_numbers(n), column_numbers(n), add(i, INT.type(1))
        column = a.column(i)
        v, tau, beta = reflection(column, k)
        both = reflected(reflected(a.H, v, tau.conj()).H, v, tau.conj())
        a = where(columns > i, both, a)
        column = where(numbers > k, v, where(numbers.equals(k), beta, column))
        return [a.with_column(i, column), taus.with_row(i, tau)]

    return repeat(n - 1, step, [a, filled(n - 1, 1, a.dtype)])


def hermitian(a: Tensor, lower: bool) -> Tensor:
    """The matrix of which one triangle is given."""
    n = a.shape[0]
    numbers, columns = row_numbers(n), column_numbers(n)
    part = where(numbers > columns if lower else numbers < columns, a, 0)
    middle = where(numbers.equals(columns), a.real, 0)
    return part + part.H + middle.astype(a.dtype)


def tridiagonal(op: Tridiagonal, a: Tensor) -> Sequence[Tensor]:
    """As for Hessenberg form; an upper triangle is a lower one in reverse order."""
    n, lower = a.shape[0], op.lower_triangle
    given = a if lower else a.reversed(0, 1)
    result, taus = hessenberg(op, hermitian(given, True))
    diagonal = result.real.diagonal().T
    beside = result.part(0, 1, n).part(1, 0, n - 1).real.diagonal().T
    numbers, columns = row_numbers(n), column_numbers(n)
    packed = where(numbers >= columns, result, given)
    packed = where(numbers.equals(columns), result.real.astype(a.dtype), packed)
    outs = [packed, diagonal, beside, taus]
    if lower:
        return outs
    return [packed.reversed(0, 1), *(x.reversed(0) for x in outs[1:])]
