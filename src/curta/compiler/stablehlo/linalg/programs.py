"""The table of programs by op class, and how they are made for batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from curta.compiler.stablehlo.linalg import gaussian, householder, jacobi, updates
from curta.compiler.stablehlo.linalg.tensors import Tensor
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.jaxpr import ClosedJaxpr
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.dtypes import working_dtype
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.linalg.condensed import Hessenberg, Tridiagonal
from curta.primitives.linalg.eigen import Eigh
from curta.primitives.linalg.lu import LU, LUPivotsToPermutation
from curta.primitives.linalg.qr import QR, Geqrf, HouseholderProduct
from curta.primitives.linalg.svd import SVD
from curta.primitives.linalg.tridiagonal import TridiagonalSolve
from curta.primitives.linalg.updates import CholeskyUpdate, Ormqr, SymmetricProduct
from curta.primitives.structure import Reshape, batch_dim_at, zeros
from curta.transforms.vmap import BatchAxis, batch

# Each takes the op and matrices, vectors as columns, and gives matrices.
PROGRAMS: dict[type, Callable[..., Sequence[Tensor]]] = {
    LU: gaussian.lu,
    LUPivotsToPermutation: gaussian.pivots_to_permutation,
    TridiagonalSolve: gaussian.tridiagonal_solve,
    QR: householder.qr,
    Geqrf: householder.geqrf,
    HouseholderProduct: householder.householder_product,
    Ormqr: householder.ormqr,
    Hessenberg: householder.hessenberg,
    Tridiagonal: householder.tridiagonal,
    Eigh: jacobi.eigh,
    SVD: jacobi.svd,
    CholeskyUpdate: updates.cholesky_update,
    SymmetricProduct: updates.symmetric_product,
}


def program(op: Any, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """The jaxpr of other ops that a decomposition stands for.

    Halves are computed in single precision, as by `eval`. The batch may be of symbolic
    sizes, the matrices may not.
    """
    sizes = [d for a, rank in zip(avals, op.ranks) for d in a.shape[a.ndim - rank :]]
    if any(map(is_symbolic_dim, sizes)):
        raise NotImplementedError(
            f"Shape polymorphism for '{op.name}' of matrices of non-constant sizes is"
            f" not supported: shapes={[a.shape for a in avals]}. Export the program for"
            " sizes that are known; those of the batch need not be."
        )
    outs = op.aval(*avals)
    outs = list(outs) if op.multiple_results else [outs]
    lead = avals[0].shape[: avals[0].ndim - op.ranks[0]]

    def one(*args: Any) -> list[Any]:
        matrices = (_matrix(x) for x in args)
        return [x.value for x in PROGRAMS[type(op)](op, *matrices)]

    def run(*args: Any) -> list[Any]:
        if not any(a.size for a in outs):
            return [zeros(a) for a in outs]
        if lead:
            result = _mapped(one, math.prod(lead), len(lead), args)
        else:
            result = one(*map(_in_single, args))
        return [
            convert_element_type(Reshape(a.shape)(x), a.dtype)
            for x, a in zip(result, outs, strict=True)
        ]

    return stage(run, [a.strip_weak_type() for a in avals])


def _in_single(x: Any) -> Any:
    return convert_element_type(x, working_dtype(typeof(x).dtype))


def _matrix(x: Any) -> Tensor:
    shape = typeof(x).shape
    return Tensor(x if len(shape) == 2 else Reshape((*shape, 1))(x))


def _mapped(
    one: Callable[..., list[Any]], count: int, rank: int, args: Sequence[Any]
) -> list[Any]:
    """A function of single matrices on a batch, as one of `count`."""
    flat = [Reshape((count, *typeof(x).shape[rank:]))(_in_single(x)) for x in args]
    outs, dims = batch(one, BatchAxis(count), flat, [0] * len(flat))
    return [batch_dim_at(x, d, count, 0) for x, d in zip(outs, dims, strict=True)]
