"""Eigenvalues and eigenvectors of matrices that are not symmetric.

Golub and Van Loan, "Matrix Computations" (2013), section 7.6.3: back-substitution in
the Schur form of the balanced matrix gives all eigenvectors at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.compiler.linalg.parts import where
from curta.compiler.stablehlo.linalg.balance import balanced
from curta.compiler.stablehlo.linalg.pairs import eigenvalues, triangular
from curta.compiler.stablehlo.linalg.schur import decomposed
from curta.compiler.stablehlo.linalg.shifts import not_zero, quotient
from curta.compiler.stablehlo.linalg.tensors import (
    INT,
    MatrixTensor,
    column_numbers,
    eye,
    joined,
    repeat,
    row_numbers,
    scaled,
)
from curta.primitives.elementwise.arithmetic import sub
from curta.primitives.elementwise.complex import complex_
from curta.primitives.linalg.eigen import Eig
from curta.primitives.linalg.family import not_a_number


def eig(op: Eig, a: MatrixTensor) -> Sequence[MatrixTensor]:
    """NaN where the elements are not finite, and if the iteration does not converge."""
    finite = a.is_finite().all()
    a, factor = scaled(where(finite, a, 0))
    balance = balanced(a)
    sides = op.compute_left_eigenvectors, op.compute_right_eigenvectors
    t, z, converged = decomposed(balance.matrix, any(sides))
    kinds = None
    if a.is_complex:
        w = t.diagonal()
    else:
        w, kinds = eigenvalues(t)
    outs = [w.T * factor]
    if z is not None:
        if kinds is not None:
            t, z = triangular(t, z)
        for wanted, left in zip(sides, (True, False), strict=True):
            if wanted:
                vectors = z @ (_left(t) if left else _right(t))
                outs.append(_normalised(balance.undone(vectors, left), kinds))
    nan = not_a_number(w.dtype)
    return [where(finite & converged, x, nan) for x in outs]


def _left(t: MatrixTensor) -> MatrixTensor:
    """Those of the adjoint, which is an upper triangle in reverse order."""
    return _right(t.H.reversed(0, 1)).reversed(0, 1)


def _right(t: MatrixTensor) -> MatrixTensor:
    """The eigenvectors of an upper triangle, as columns, of any length.

    Equal eigenvalues are taken to differ by a rounding error. Columns are made shorter
    whenever an element becomes greater than 1, so that none overflows.
    """
    n = t.shape[0]
    limits = np.finfo(t.dtype)
    t, _ = scaled(t, always=True)
    w = t.diagonal()
    least = float(limits.tiny) * (n / float(limits.eps))
    least_gap = (w.pivot_size() * float(limits.eps)).maximum(least)

    def step(
        iteration: Any, x: MatrixTensor, *fixed: MatrixTensor
    ) -> Sequence[MatrixTensor]:
        t, w, least = fixed
        i, numbers = sub(INT.type(n - 2), iteration), column_numbers(n)
        row = t.row(i)
        here = w.element(INT.type(0), i)
        gap = here - w
        gap = where(gap.pivot_size() < least, least.astype(t.dtype), gap)
        new = quotient(-(where(numbers > i, row, 0) @ x), gap)
        new = where(numbers > i, new, 0)
        size = new.pivot_size().maximum(1)
        x = x / size
        return [x.with_row(i, where(numbers > i, new / size, x.row(i)))]

    return repeat(n - 1, step, [eye(n, n, t.dtype)], [t, w, least_gap])[0]


def _normalised(v: MatrixTensor, kinds: MatrixTensor | None) -> MatrixTensor:
    """Columns of length 1 whose greatest element is real; those of pairs are conjugate.

    `kinds` are those of the eigenvalues of a real matrix, whose eigenvectors are real
    where the eigenvalues are.
    """
    n = v.shape[0]
    v = v / not_zero(v.part_size().max(0))
    sizes = v.squared()
    greatest = where(sizes.equals(sizes.max(0)), -row_numbers(n), -n)
    chosen = (-row_numbers(n)).equals(greatest.max(0))
    element = where(chosen, v, 0).sum(0)
    v = v * (element.conj() / not_zero(element.abs()))
    imag = where(chosen, 0, v.imag)
    if kinds is not None:
        imag = where(kinds.equals(0), 0, imag)
    v = MatrixTensor(complex_(v.real.value, imag.value))
    v = v / not_zero(v.squared().sum(0).sqrt())
    if kinds is None or n < 2:
        return v
    before = joined(1, v.part(1, 0, 1), v.part(1, 0, n - 1))
    return where(kinds < 0, before.conj(), v)
