"""Triangular factors of matrices, and equations with them.

Golub and Van Loan, "Matrix Computations" (2013), algorithms 3.1.1, 3.4.1, 4.2.1, 4.3.6
and section 6.5.4, as LAPACK's `getf2`, `potf2` and `gtsv` and BLAS's `trsm` do them; so
is what happens to NaN and to singular matrices.
"""

from __future__ import annotations

from typing import Any

from curta.compiler.linalg.parts import Index, Matrix, MatrixMachine, Part, where


def cholesky(p: MatrixMachine, a: Matrix) -> None:
    """The lower factor of the lower triangle, zeros above; NaN where there is none."""
    n, _ = a.shape

    def column(k: Index, good: Part) -> list[Part]:
        square = a[k, k].real
        root = square.sqrt()
        a[k, k] = root
        a[k + 1 :, k] = a[k + 1 :, k].over(root)
        left = a[k + 1 :, k]
        a.set_lower(
            (slice(k + 1, None), slice(k + 1, None)),
            a[k + 1 :, k + 1 :] - left * left.H,
        )
        return [good & (square > 0)]

    def clear(i: Index) -> None:
        a[i, i + 1 :] = 0

    (good,) = p.repeat(0, n, column, p.constant(True))
    p.repeat(0, n, clear)
    a.set_nan_where(~good)


def lu(p: MatrixMachine, a: Matrix, pivots: Matrix, order: Matrix) -> None:
    """L and U in one matrix, the pivots and the permutation."""
    p.number_rows(order)

    def column(k: Index) -> None:
        chosen = a[k:, k].pivot_size().argmax()
        pivots[k, 0] = chosen
        p.exchange_rows(k, chosen, a, order)
        pivot, below = a[k, k], a[k + 1 :, k]
        a[k + 1 :, k] = where(pivot.equals(0), below, below / pivot)
        a[k + 1 :, k + 1 :] = a[k + 1 :, k + 1 :] - a[k + 1 :, k] * a[k, k + 1 :]

    p.repeat(0, min(a.shape), column)


def permutation(p: MatrixMachine, pivots: Matrix, order: Matrix) -> None:
    """The order in which the exchanges of rows leave them."""
    p.number_rows(order)

    def exchange(k: Index) -> None:
        p.exchange_rows(k, pivots[k, 0], order, start=0)

    p.repeat(0, pivots.shape[0], exchange)


def substitute(p: MatrixMachine, a: Matrix, x: Matrix, unit: bool) -> None:
    """x of a x = b, for a lower triangle a, of which the diagonal is 1 if `unit`."""

    def row(i: Index) -> None:
        if not unit:
            x[i, :] = x[i, :].over(a[i, i])
        x[i + 1 :, :] = x[i + 1 :, :] - a[i + 1 :, i] * x[i, :]

    p.repeat(0, a.shape[0], row)


def update(p: MatrixMachine, r: Matrix, w: Matrix) -> None:
    """The upper triangle r' with r'^T r' = r^T r + w^T w, for a row w, which changes.

    Row k and w are rotated so that nothing is left of w's element k.
    """

    def rotate(k: Index) -> None:
        x, y = r[k, k], w[0, k]
        none = y.equals(0)
        divisor = where(none, 1, x.abs().maximum(y.abs()))
        x, y = x / divisor, y / divisor
        length = (x * x + y * y).sqrt()
        cosine, sine = where(none, 1, x / length), where(none, 0, y / length)
        row, rest = r[k, :], w[0, :]
        rotated = cosine * row + sine * rest
        p.set_rows((r, k, rotated), (w, 0, cosine * rest - sine * row))

    p.repeat(0, r.shape[0], rotate)


def tridiagonal(
    p: MatrixMachine,
    lower: Matrix,
    first: Matrix,
    second: Matrix,
    x: Matrix,
    third: Matrix,
    perturb: bool,
) -> None:
    """x of a x = b by elimination with exchanges of rows; NaN where a pivot is 0.

    Given are the lower diagonal, the others, which become those of a triangle, b, which
    becomes x, and room for a third diagonal. If `perturb`, small pivots become larger.
    """
    n, _ = x.shape
    second[n - 1, 0] = 0
    third[:, 0] = 0

    def eliminate(i: Index) -> None:
        """Take row i, or the next one if that begins with more, off the other one."""
        j = i + 1
        pivot, below = first[i, 0], lower[j, 0]
        swap = pivot.pivot_size() < below.pivot_size()
        greater, smaller = where(swap, below, pivot), where(swap, pivot, below)
        none = greater.equals(0)
        factor = where(none, 0, smaller / where(none, 1, greater))
        above, under, beyond = second[i, 0], first[j, 0], second[j, 0]
        kept, changed = where(swap, under, above), where(swap, above, under)
        first[i, 0] = greater
        second[i, 0] = kept
        third[i, 0] = where(swap, beyond, 0)
        first[j, 0] = changed - factor * kept
        second[j, 0] = where(swap, -(factor * beyond), beyond)
        here, there = x[i, :], x[j, :]
        upper = where(swap, there, here)
        under = where(swap, here, there) - factor * upper
        p.set_rows((x, i, upper), (x, j, under))

    p.repeat(0, n - 1, eliminate)
    if perturb:
        _perturb(p, first, second, third)

    def solve(i: Index, known: Any) -> None:
        value = x[i, :]
        for distance, diagonal in enumerate(known, 1):
            value = value - diagonal[i, 0] * x[i + distance, :]
        x[i, :] = value / first[i, 0]

    diagonals = second, third
    p.repeat(n - 1, n, lambda i: solve(i, ()))
    p.repeat(max(n - 2, 0), n - 1, lambda i: solve(i, diagonals[:1]))
    p.repeat(0, n - 2, lambda i: solve(i, diagonals), reverse=True)
    x.set_nan_where(~first[:, 0].differs(0).all())


def _perturb(p: MatrixMachine, first: Matrix, second: Matrix, third: Matrix) -> None:
    """Make pivots that are almost 0 larger, keeping the sign of the real part."""
    sizes = [x[:, 0].pivot_size().largest() for x in (first, second, third)]
    limits = p.limits
    least = sizes[0].maximum(sizes[1]).maximum(sizes[2]) * float(limits.eps)
    least = least.maximum(float(limits.tiny / limits.eps))
    pivot = first[:, 0]
    larger = where(pivot.real < 0, -least, least)
    first[:, 0] = where(pivot.pivot_size() < least, larger, pivot)
