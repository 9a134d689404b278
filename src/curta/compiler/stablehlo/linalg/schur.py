"""The Schur decomposition."""

from __future__ import annotations

from collections.abc import Sequence

from curta.compiler.linalg.parts import where
from curta.compiler.stablehlo.linalg.francis import Iterated, iterated
from curta.compiler.stablehlo.linalg.householder import hessenberg, product
from curta.compiler.stablehlo.linalg.pairs import standardised
from curta.compiler.stablehlo.linalg.tensors import (
    MatrixTensor,
    below_diagonal,
    eye,
    filled,
    joined,
    scaled,
)
from curta.primitives.linalg.family import not_a_number
from curta.primitives.linalg.schur import Schur


def decomposed(a: MatrixTensor, vectors: bool) -> Iterated:
    """T, and Z if asked for, of a matrix of finite elements, which is not empty."""
    n = a.shape[0]
    packed, *taus = hessenberg(None, a)
    z = None
    if vectors:
        z = eye(n, n, a.dtype)
        if n > 1:
            below = packed.part(0, 1, n).part(1, 0, n - 1)
            inner = joined(1, filled(n - 1, 1, a.dtype), product(below, taus[0]))
            z = joined(0, z.part(0, 0, 1), inner)
    h = where(below_diagonal(n, n, -2), 0, packed)
    t, z, converged = iterated(h, z)
    if a.is_complex:
        return Iterated(where(below_diagonal(n, n, -1), 0, t), z, converged)
    t, z = standardised(t, z)
    return Iterated(where(below_diagonal(n, n, -2), 0, t), z, converged)


def schur(op: Schur, a: MatrixTensor) -> Sequence[MatrixTensor]:
    """NaN where the elements are not finite, and if the iteration does not converge."""
    finite = a.is_finite().all()
    a, factor = scaled(where(finite, a, 0))
    t, z, converged = decomposed(a, op.compute_schur_vectors)
    outs = [t * factor] if z is None else [t * factor, z]
    nan = not_a_number(a.dtype)
    return [where(finite & converged, x, nan) for x in outs]
