"""Reflections from both sides, and with pivots: Hessenberg and tridiagonal form, QR.

Golub and Van Loan, "Matrix Computations" (2013), algorithms 5.4.1, 7.4.2 and 8.3.1;
what a reflection is stands in `compiler/linalg/reflections.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.compiler.linalg import programs, reflections
from curta.compiler.linalg.parts import where
from curta.compiler.stablehlo.linalg.ops import OpMachine, algorithm
from curta.compiler.stablehlo.linalg.tensors import (
    INT,
    MatrixTensor,
    column_numbers,
    filled,
    repeat,
    row_numbers,
)
from curta.primitives.elementwise.arithmetic import add, sub
from curta.primitives.linalg.condensed import Tridiagonal
from curta.primitives.linalg.qr import QR, Geqrf, HouseholderProduct
from curta.primitives.linalg.updates import Ormqr


def reflection(
    x: MatrixTensor, k: Any
) -> tuple[MatrixTensor, MatrixTensor, MatrixTensor]:
    """v, tau and the new element k, for the elements of a column from k on."""
    numbers = row_numbers(x.shape[0])
    alpha, below = where(numbers.equals(k), x, 0).sum(), where(numbers > k, x, 0)
    p = OpMachine(x.dtype)
    beta, tau, v = reflections.reflection(p, alpha, below)
    return where(numbers.equals(k), 1, v), tau, beta


def reflected(x: MatrixTensor, v: MatrixTensor, tau: MatrixTensor) -> MatrixTensor:
    """(1 - tau v v^H) x."""
    return x - tau * v * (v.conj() * x).sum()


# ------------------------------------------------------------------------- QR


def _pivoted(a: MatrixTensor) -> list[MatrixTensor]:
    """R with the vectors below it, the factors, and the order of the columns."""
    m, n = a.shape

    def step(
        i: Any, a: MatrixTensor, taus: MatrixTensor, order: MatrixTensor
    ) -> Sequence[MatrixTensor]:
        numbers, columns = row_numbers(m), column_numbers(n)
        norms = where(numbers >= i, a, 0).squared().sum()
        chosen = where(columns >= i, norms, -1).argmax(1).reshape().value
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


def _reduced(a: MatrixTensor) -> Sequence[MatrixTensor]:
    return algorithm(Geqrf)(Geqrf(), a)


def product(a: MatrixTensor, taus: MatrixTensor) -> MatrixTensor:
    """The first columns of the product of the reflections that `a` holds."""
    op = HouseholderProduct()
    return algorithm(HouseholderProduct)(op, a, taus)[0]


def qr(op: QR, a: MatrixTensor) -> Sequence[MatrixTensor]:
    """Q, R and, if it pivots, the order of the columns, a row."""
    reduce = _pivoted if op.pivoting else _reduced
    outs = programs.qr(
        op,
        a.value,
        lambda x: [y.value for y in reduce(MatrixTensor(x))],
        lambda x, taus: product(MatrixTensor(x), MatrixTensor(taus)).value,
    )
    return list(map(MatrixTensor, outs))


def ormqr(
    op: Ormqr, a: MatrixTensor, taus: MatrixTensor, c: MatrixTensor
) -> Sequence[MatrixTensor]:
    """From the right it is the adjoint, of which rows are taken from the left."""
    adjoint, last = op.transposed == op.left, INT.type(taus.shape[0] - 1)

    def step(
        iteration: Any, c: MatrixTensor, a: MatrixTensor, taus: MatrixTensor
    ) -> Sequence[MatrixTensor]:
        i = iteration if adjoint else sub(last, iteration)
        numbers, tau = row_numbers(a.shape[0]), taus.row(i)
        v = where(numbers.equals(i), 1, where(numbers > i, a.column(i), 0))
        return [reflected(c, v, tau.conj() if adjoint else tau)]

    (c,) = repeat(taus.shape[0], step, [c if op.left else c.H], [a, taus])
    return [c if op.left else c.H]


# --------------------------------------------------------------- both sides


def hessenberg(op: Any, a: MatrixTensor) -> Sequence[MatrixTensor]:
    """Reflections from both sides, a column after the other."""
    n = a.shape[0]

    def step(i: Any, a: MatrixTensor, taus: MatrixTensor) -> Sequence[MatrixTensor]:
        numbers, columns, k = row_numbers(n), column_numbers(n), add(i, INT.type(1))
        column = a.column(i)
        v, tau, beta = reflection(column, k)
        both = reflected(reflected(a.H, v, tau.conj()).H, v, tau.conj())
        a = where(columns > i, both, a)
        column = where(numbers > k, v, where(numbers.equals(k), beta, column))
        return [a.with_column(i, column), taus.with_row(i, tau)]

    return repeat(n - 1, step, [a, filled(n - 1, 1, a.dtype)])


def hermitian(a: MatrixTensor, lower: bool) -> MatrixTensor:
    """The matrix of which one triangle is given."""
    n = a.shape[0]
    numbers, columns = row_numbers(n), column_numbers(n)
    part = where(numbers > columns if lower else numbers < columns, a, 0)
    middle = where(numbers.equals(columns), a.real, 0)
    return part + part.H + middle.astype(a.dtype)


def tridiagonal(op: Tridiagonal, a: MatrixTensor) -> Sequence[MatrixTensor]:
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
