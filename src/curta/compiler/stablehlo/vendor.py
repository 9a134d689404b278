"""Decompositions by cuSOLVER and cuSPARSE.

NVIDIA's plugin does not call them itself: their handlers come in a package of their
own, and are registered with it (runtime/pjrt/handlers.py). Targets and results are
those of the handlers: `info` is LAPACK's, 0 where a routine succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.compiler.linalg.programs import (
    conjugate_pairs,
    nan_unless,
    only_finite,
    succeeded,
)
from curta.compiler.stablehlo.custom_calls import CallRoutine
from curta.control.ffi_call import FfiCall
from curta.core.avals import ShapedArray
from curta.core.trace import typeof
from curta.primitives.elementwise.arithmetic import sub
from curta.primitives.elementwise.bitwise import and_
from curta.primitives.elementwise.comparison import ge
from curta.primitives.elementwise.complex import imag, part_dtype
from curta.primitives.linalg.cholesky import Cholesky
from curta.primitives.linalg.condensed import Tridiagonal
from curta.primitives.linalg.eigen import Eig, Eigh
from curta.primitives.linalg.lu import LU, LUPivotsToPermutation
from curta.primitives.linalg.matrices import adjoint, columns, rows, tril
from curta.primitives.linalg.qr import Geqrf, HouseholderProduct
from curta.primitives.linalg.svd import SVD
from curta.primitives.linalg.tridiagonal import TridiagonalSolve
from curta.primitives.linalg.updates import Ormqr
from curta.primitives.structure import full, zeros

_INT = np.dtype(np.int32)
# SVDs of matrices up to 1024 rows and columns are made by Jacobi's method; up to 32 its
# routine for batches is called, which makes whole bases.
_JACOBI, _JACOBI_OF_BATCHES = 1024, 32


def _call(target: str, args: Sequence[Any], results: Any, **options: Any) -> list[Any]:
    """Call a handler on a batch of matrices.

    Args:
      target: its name.
      args: the operands; the first is a batch of matrices.
      results: shapes, without the dims of the batch, and dtypes of the results.
      **options: `aliases`, else settings of the handler.
    """
    batch = _batch(args[-1])
    types = [ShapedArray((*batch, *shape), dtype) for shape, dtype in results]
    return _handled(target, args, types, len(batch), **options)


def _handled(
    target: str,
    args: Sequence[Any],
    results: Sequence[ShapedArray],
    batch: int,
    aliases: Any = (),
    **settings: Any,
) -> list[Any]:
    """Call a handler whose matrices are stored column by column, behind a batch."""
    ins, outs = (
        tuple(_column_by_column(a.ndim, batch) for a in avals)
        for avals in (map(typeof, args), results)
    )
    op = FfiCall(
        target,
        tuple(results),
        tuple(sorted(settings.items())),
        aliases,
        layouts=(ins, outs),
        batch_rank=batch,
    )
    return list(op(*args))


def _column_by_column(rank: int, batch: int) -> tuple[int, ...]:
    """The dims of a batch of matrices or vectors, from that of the greatest stride."""
    return (*range(min(batch, rank)), *reversed(range(batch, rank)))


def _batch(x: Any) -> tuple[int, ...]:
    return typeof(x).shape[:-2]


# ----------------------------------------------------------------- factorisations


def cholesky(op: Cholesky, x: Any) -> list[Any]:
    n, dtype = typeof(x).shape[-1], typeof(x).dtype
    results = [((n, n), dtype), ((), _INT)]
    factor, info = _call(
        "cusolver_potrf_ffi", [x], results, lower=True, aliases=((0, 0),)
    )
    return nan_unless(succeeded(info), tril(factor))


def lu(op: LU, x: Any) -> list[Any]:
    (m, n), dtype = typeof(x).shape[-2:], typeof(x).dtype
    results = [((m, n), dtype), ((min(m, n),), _INT), ((), _INT)]
    packed, pivots, info = _call("cusolver_getrf_ffi", [x], results, aliases=((0, 0),))
    pivots = sub(pivots, full(typeof(pivots), 1))  # they count from 1
    (packed,) = nan_unless(ge(info, zeros(typeof(info))), packed)  # > 0: singular
    return [packed, pivots, *permutation(LUPivotsToPermutation(m), pivots)]


def permutation(op: LUPivotsToPermutation, pivots: Any) -> list[Any]:
    batch = typeof(pivots).shape[:-1]
    result = ShapedArray((*batch, op.permutation_size), _INT)
    target = "cu_lu_pivots_to_permutation"
    return _handled(target, [pivots], [result], len(batch))


def geqrf(op: Geqrf, x: Any) -> list[Any]:
    (m, n), dtype = typeof(x).shape[-2:], typeof(x).dtype
    results = [((m, n), dtype), ((min(m, n),), dtype)]
    return _call("cusolver_geqrf_ffi", [x], results, aliases=((0, 0),))


def householder_product(op: HouseholderProduct, x: Any, taus: Any) -> list[Any]:
    aval = typeof(x)
    own = ((0, 0),)
    target = "cusolver_orgqr_ffi"
    return _handled(target, [x, taus], [aval], aval.ndim - 2, aliases=own)


def ormqr(op: Ormqr, x: Any, taus: Any, c: Any) -> list[Any]:
    results = [(typeof(c).shape[-2:], typeof(c).dtype)]
    settings = {"left": op.left, "transpose": op.transposed}
    return _call(
        "cusolver_ormqr_ffi", [x, taus, c], results, aliases=((2, 0),), **settings
    )


def tridiagonal(op: Tridiagonal, x: Any) -> list[Any]:
    n, dtype = typeof(x).shape[-1], typeof(x).dtype
    real = part_dtype(dtype) if dtype.kind == "c" else dtype
    results = [
        *[((n, n), dtype), ((n,), real), ((n - 1,), real), ((n - 1,), dtype)],
        ((), _INT),
    ]
    *outs, info = _call(
        "cusolver_sytrd_ffi", [x], results, lower=op.lower_triangle, aliases=((0, 0),)
    )
    return nan_unless(succeeded(info), *outs)


def tridiagonal_solve(op: TridiagonalSolve, *args: Any) -> list[Any]:
    right = typeof(args[-1])
    results = [(right.shape[-2:], right.dtype)]
    return _call("cusparse_gtsv2_ffi", args, results, aliases=((3, 0),))


# ------------------------------------------------------------------- eigenvalues


def eigh(op: Eigh, x: Any) -> list[Any]:
    n, dtype = typeof(x).shape[-1], typeof(x).dtype
    x, finite = only_finite(x)
    results = [((n, n), dtype), ((n,), part_dtype(dtype)), ((), _INT)]
    v, w, info = _call(
        "cusolver_syevd_ffi",
        [x],
        results,
        aliases=((0, 0),),
        algorithm=np.uint8(0),
        lower=op.lower_triangle,
    )
    v, w = nan_unless(and_(succeeded(info), finite), v, w)
    if op.subset_by_index is not None:
        v, w = columns(v, *op.subset_by_index), columns(w, *op.subset_by_index)
    return [v, w]


def eig(op: Eig, x: Any) -> list[Any]:
    n, dtype = typeof(x).shape[-1], typeof(x).dtype
    wide = np.result_type(dtype, np.complex64)
    x, finite = only_finite(x)
    matrix = (n, n), dtype
    results = [matrix, ((n,), wide), matrix, matrix, ((), _INT)]
    vectors = op.compute_right_eigenvectors
    _, w, _, v, info = _call(
        "cusolver_geev_ffi", [x], results, left=False, right=vectors
    )
    ok = and_(succeeded(info), finite)
    if not vectors:
        return nan_unless(ok, w)
    if dtype.kind != "c":
        v = conjugate_pairs(imag(w), v)
    return nan_unless(ok, w, v)


def svd(op: SVD, x: Any) -> list[Any]:
    m, n = typeof(x).shape[-2:]
    x, finite = only_finite(x)
    by_qr = getattr(op.algorithm, "name", None) == "QR"
    if max(m, n) <= _JACOBI and not by_qr:
        s, u, vh, info = _by_jacobi(op, x)
    elif m >= n:
        s, u, vh, info = _by_qr(op, x)
    else:  # the routine is for tall matrices
        s, v, uh, info = _by_qr(op, adjoint(x))
        u, vh = (adjoint(uh), adjoint(v)) if op.compute_uv else (uh, v)
    if not op.full_matrices and op.subset_by_index is not None:
        kept = op.subset_by_index
        s, u, vh = columns(s, *kept), columns(u, *kept), rows(vh, *kept)
    ok = and_(succeeded(info), finite)
    return nan_unless(ok, *(s, u, vh)[: 3 if op.compute_uv else 1])


def _by_jacobi(op: SVD, x: Any) -> tuple[Any, ...]:
    (m, n), dtype = typeof(x).shape[-2:], typeof(x).dtype
    k = min(m, n)
    whole = op.full_matrices or max(m, n) <= _JACOBI_OF_BATCHES
    results = [
        *[((m, n), dtype), ((k,), part_dtype(dtype))],
        *[((m, m if whole else k), dtype), ((n, n if whole else k), dtype)],
        ((), _INT),
    ]
    _, s, u, v, info = _call(
        "cusolver_gesvdj_ffi",
        [x],
        results,
        aliases=((0, 0),),
        compute_uv=op.compute_uv,
        full_matrices=whole,
    )
    vh = adjoint(v)
    if whole and not op.full_matrices:
        u, vh = columns(u, 0, k), rows(vh, 0, k)
    return s, u, vh, info


def _by_qr(op: SVD, x: Any) -> tuple[Any, ...]:
    (m, n), dtype = typeof(x).shape[-2:], typeof(x).dtype
    batch = _batch(x)
    bases = [(m, m if op.full_matrices else n), (n, n)]
    types = [
        ShapedArray((*batch, m, n), dtype),
        ShapedArray((*batch, n), part_dtype(dtype)),
        # Without vectors there are no bases, not even of the batch.
        *[ShapedArray((*batch, *b) if op.compute_uv else (), dtype) for b in bases],
        ShapedArray(batch, _INT),
    ]
    _, *outs = _handled(
        *("cusolver_gesvd_ffi", [x], types, len(batch)),
        aliases=((0, 0),),
        compute_uv=op.compute_uv,
        full_matrices=op.full_matrices,
        transposed=False,
    )
    return tuple(outs)


def _routines(*rows: Any) -> dict[type, CallRoutine]:
    return {cls: CallRoutine(frozenset(targets), *rest) for cls, targets, *rest in rows}


ROUTINES: dict[type, CallRoutine] = _routines(
    (Cholesky, ["cusolver_potrf_ffi"], cholesky),
    (LU, ["cusolver_getrf_ffi", "cu_lu_pivots_to_permutation"], lu),
    (LUPivotsToPermutation, ["cu_lu_pivots_to_permutation"], permutation),
    (Geqrf, ["cusolver_geqrf_ffi"], geqrf),
    (HouseholderProduct, ["cusolver_orgqr_ffi"], householder_product),
    (Ormqr, ["cusolver_ormqr_ffi"], ormqr),
    (Tridiagonal, ["cusolver_sytrd_ffi"], tridiagonal),
    (
        *(TridiagonalSolve, ["cusparse_gtsv2_ffi"], tridiagonal_solve),
        lambda op: not op.perturb_singular,
    ),
    (Eigh, ["cusolver_syevd_ffi"], eigh),
    (
        *(Eig, ["cusolver_geev_ffi"], eig),
        lambda op: not op.compute_left_eigenvectors,
    ),
    (SVD, ["cusolver_gesvd_ffi", "cusolver_gesvdj_ffi"], svd),
)
