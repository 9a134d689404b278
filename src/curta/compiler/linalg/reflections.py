"""Householder's reflections: QR, and the product that they make.

Golub and Van Loan, "Matrix Computations" (2013), algorithms 5.1.1 and 5.2.1,
with LAPACK's signs (`larfg`, `geqr2`, `org2r`): a reflection is
1 - tau v v^H, where v begins with 1, and its adjoint makes a column's rest zero and the
element before it real.
"""

from __future__ import annotations

from typing import Any

from curta.compiler.linalg.parts import Index, Matrix, MatrixMachine, where


def reflections(p: MatrixMachine, a: Matrix, taus: Matrix) -> None:
    """R and the vectors of reflections below it, and their factors."""

    def column(k: Index) -> None:
        beta, tau, below = reflection(p, a[k, k], a[k + 1 :, k])
        a[k + 1 :, k] = below
        a[k, k] = beta
        taus[k, 0] = tau
        reflect(p, a, k, tau.conj())

    p.repeat(0, min(a.shape), column)


def reflection(p: MatrixMachine, alpha: Any, below: Any) -> tuple[Any, Any, Any]:
    """What becomes of an element, the factor, and v without its 1.

    All is divided by the greatest element, so that squares are in range.
    """
    tail = below.part_size().largest()
    scale = tail.maximum(alpha.part_size()).maximum(float(p.limits.tiny))
    first, rest = alpha.over(scale), below.over(scale)
    norm = (rest.squared().sum() + first.squared()).sqrt()
    beta = -norm.with_sign_of(first.real)
    done = tail.equals(0)
    if alpha.is_complex:
        done = done & alpha.imag.equals(0)
    difference = first - beta
    divisor = where(done, 1, difference)
    return (
        where(done, alpha, beta * scale),
        where(done, 0, -difference / beta),
        rest.over(divisor),
    )


def reflect(p: MatrixMachine, a: Matrix, k: Index, tau: Any) -> None:
    """Apply the reflection of column k to the columns after it, from row k on."""

    def columns(c: Any) -> None:
        first = a[k, c]
        products = (a[k + 1 :, k].conj() * a[k + 1 :, c]).sum()
        weights = -tau * (first + products)
        a[k, c] = first + weights
        a[k + 1 :, c] = a[k + 1 :, c] + a[k + 1 :, k] * weights

    p.by_columns(a, k + 1, columns)


def product_of_reflections(p: MatrixMachine, a: Matrix, taus: Matrix) -> None:
    """The first columns of the product of the reflections."""
    count, n = taus.shape[0], a.shape[1]

    def unit(c: Index) -> None:
        a[:, c] = 0
        a[c, c] = 1

    def step(k: Index) -> None:
        tau = taus[k, 0]
        reflect(p, a, k, tau)
        a[:k, k] = 0
        a[k, k] = p.constant(1) - tau
        a[k + 1 :, k] = -tau * a[k + 1 :, k]

    p.repeat(count, n, unit)
    p.repeat(0, count, step, reverse=True)
