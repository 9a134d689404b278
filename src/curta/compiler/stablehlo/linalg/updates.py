"""Small products and updates of factors.

Golub and Van Loan, "Matrix Computations" (2013), section 6.5.4: a factor is updated by
rotations of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.compiler.linalg.parts import where
from curta.compiler.linalg.tensors import (
    Tensor,
    joined,
    length,
    repeat,
)
from curta.primitives.linalg.updates import SymmetricProduct


def cholesky_update(op: Any, r: Tensor, w: Tensor) -> Sequence[Tensor]:
    """Row k and w are rotated so that nothing is left of w's element k."""

    def step(k: Any, r: Tensor, w: Tensor) -> Sequence[Tensor]:
        a, b = r.element(k, k), w.column(k)
        none = b.equals(0)
        size = where(none, 1, length(joined(1, a, b)))
        c, s = where(none, 1, a / size), b / size
        row = r.row(k)
        return [r.with_row(k, c * row + s * w), c * w - s * row]

    return repeat(r.shape[0], step, [r, w.T])[:1]


def symmetric_product(op: SymmetricProduct, a: Tensor, c: Tensor) -> Sequence[Tensor]:
    return [op.alpha * (a @ a.T) + op.beta * c]
