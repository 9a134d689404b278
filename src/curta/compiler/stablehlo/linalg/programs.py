"""The table of programs by op class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.compiler.linalg.programs import Program, algorithm, staged
from curta.compiler.stablehlo.linalg import eig, householder, jacobi, schur
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.jaxpr import ClosedJaxpr
from curta.primitives.linalg.condensed import Hessenberg, Tridiagonal
from curta.primitives.linalg.eigen import Eig, Eigh
from curta.primitives.linalg.lu import LU, LUPivotsToPermutation
from curta.primitives.linalg.qr import QR, Geqrf, HouseholderProduct
from curta.primitives.linalg.schur import Schur
from curta.primitives.linalg.svd import SVD
from curta.primitives.linalg.tridiagonal import TridiagonalSolve
from curta.primitives.linalg.updates import CholeskyUpdate, Ormqr

_SHARED: tuple[type, ...] = (LU, LUPivotsToPermutation, TridiagonalSolve)
_SHARED += (Geqrf, HouseholderProduct, CholeskyUpdate)

PROGRAMS: dict[type, Program] = {
    **{cls: algorithm(cls, unrolled=False) for cls in _SHARED},
    QR: householder.qr,
    Ormqr: householder.ormqr,
    Hessenberg: householder.hessenberg,
    Tridiagonal: householder.tridiagonal,
    Eig: eig.eig,
    Eigh: jacobi.eigh,
    Schur: schur.schur,
    SVD: jacobi.svd,
}


def program(op: Any, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """The jaxpr of other ops that a decomposition stands for.

    The batch may be of symbolic sizes, the matrices may not.
    """
    sizes = [d for a, rank in zip(avals, op.ranks) for d in a.shape[a.ndim - rank :]]
    if any(map(is_symbolic_dim, sizes)):
        raise NotImplementedError(
            f"Shape polymorphism for '{op.name}' of matrices of non-constant sizes is"
            f" not supported: shapes={[a.shape for a in avals]}. Export the program for"
            " sizes that are known; those of the batch need not be."
        )
    return staged(PROGRAMS[type(op)], op, avals)
