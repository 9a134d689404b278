"""Householder's reflections: QR, and products with what they make.

Golub and Van Loan, "Matrix Computations" (2013), algorithms 5.1.1, 5.1.6 and 5.2.1,
with LAPACK's signs (`larfg`, `geqr2`, `org2r`, `orm2r`): a reflection is
1 - tau v v^H, where v begins with 1, and its adjoint makes a column's rest zero and the
element before it real.
"""

from __future__ import annotations

from typing import Any

from curta.compiler.linalg.parts import Index, Machine, Matrix, where


def reflections(p: Machine, a: Matrix, taus: Matrix) -> None:
    """R and the vectors of reflections below it, and their factors."""

    def column(k: Index) -> None:
        beta, tau, below = reflection(p, a[k, k], a[k + 1 :, k])
        a[k + 1 :, k] = below
        a[k, k] = beta
        taus[k, 0] = tau
        reflect(p, a, k, tau.conj(), a, k + 1)

    p.repeat(0, min(a.shape), column)


def reflection(p: Machine, alpha: Any, below: Any) -> tuple[Any, Any, Any]:
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


def reflect(p: Machine, a: Matrix, k: Index, tau: Any, c: Matrix, start: Index) -> None:
    """Apply the reflection of column k of a to the columns of c from `start` on."""

    def columns(j: Any) -> None:
        first = c[k, j]
        products = (a[k + 1 :, k].conj() * c[k + 1 :, j]).sum()
        weights = -tau * (first + products)
        c[k, j] = first + weights
        c[k + 1 :, j] = c[k + 1 :, j] + a[k + 1 :, k] * weights

    p.by_columns(c, start, columns)


def product_of_reflections(p: Machine, a: Matrix, taus: Matrix) -> None:
    """The first columns of the product of the reflections."""
    count, n = taus.shape[0], a.shape[1]

    def unit(c: Index) -> None:
        a[:, c] = 0
        a[c, c] = 1

    def step(k: Index) -> None:
        tau = taus[k, 0]
        reflect(p, a, k, tau, a, k + 1)
        a[:k, k] = 0
        a[k, k] = p.constant(1) - tau
        a[k + 1 :, k] = -tau * a[k + 1 :, k]

    p.repeat(count, n, unit)
    p.repeat(0, count, step, reverse=True)


def multiply(p: Machine, a: Matrix, taus: Matrix, c: Matrix, adjoint: bool) -> None:
    """The product of the reflections, or its adjoint, times c."""

    def step(k: Index) -> None:
        tau = taus[k, 0]
        reflect(p, a, k, tau.conj() if adjoint else tau, c, 0)

    p.repeat(0, taus.shape[0], step, reverse=not adjoint)
