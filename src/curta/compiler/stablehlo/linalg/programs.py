"""The table of programs by op class."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from curta.compiler.linalg.programs import outs_of, staged_in_single
from curta.compiler.stablehlo.linalg import eig, householder, jacobi, schur
from curta.compiler.stablehlo.linalg.ops import Program, algorithm
from curta.compiler.stablehlo.linalg.tensors import EXAMPLES, MatrixTensor
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.jaxpr import ClosedJaxpr
from curta.core.trace import typeof
from curta.primitives.linalg.condensed import Hessenberg, Tridiagonal
from curta.primitives.linalg.eigen import Eig, Eigh
from curta.primitives.linalg.lu import LU, LUPivotsToPermutation
from curta.primitives.linalg.qr import QR, Geqrf, HouseholderProduct
from curta.primitives.linalg.schur import Schur
from curta.primitives.linalg.svd import SVD
from curta.primitives.linalg.tridiagonal import TridiagonalSolve
from curta.primitives.linalg.updates import CholeskyUpdate, Ormqr
from curta.primitives.structure import Reshape, batch_dim_at, zeros
from curta.transforms.vmap import BatchAxis, batch

_SHARED: tuple[type, ...] = (LU, LUPivotsToPermutation, TridiagonalSolve)
_SHARED += (Geqrf, HouseholderProduct, CholeskyUpdate)

PROGRAMS: dict[type, Program] = {
    **{cls: algorithm(cls) for cls in _SHARED},
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


def staged(function: Program, op: Any, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """The jaxpr of a program on a batch of matrices, halves in single precision.

    The batch may be of symbolic sizes.
    """
    outs = outs_of(op, avals)
    lead = avals[0].shape[: avals[0].ndim - op.ranks[0]]

    def one(*args: Any) -> list[Any]:
        return [x.value for x in function(op, *map(_matrix, args))]

    def run(op: Any, *args: Any) -> list[Any]:
        if not any(a.size for a in outs):
            return [zeros(a) for a in outs]
        result = _mapped(one, math.prod(lead), len(lead), args) if lead else one(*args)
        return [Reshape(a.shape)(x) for x, a in zip(result, outs, strict=True)]

    return staged_in_single(run, op, [a.strip_weak_type() for a in avals])


def _matrix(x: Any) -> MatrixTensor:
    shape = typeof(x).shape
    return MatrixTensor(x if len(shape) == 2 else Reshape((*shape, 1))(x))


def _mapped(
    one: Callable[..., list[Any]], count: int, rank: int, args: Sequence[Any]
) -> list[Any]:
    """A function of single matrices on a batch, as one of `count`."""
    flat = [Reshape((count, *typeof(x).shape[rank:]))(x) for x in args]
    outs, dims = batch(one, BatchAxis(count, EXAMPLES), flat, [0] * len(flat))
    return [batch_dim_at(x, d, count, 0) for x, d in zip(outs, dims, strict=True)]
