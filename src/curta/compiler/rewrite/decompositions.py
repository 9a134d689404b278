"""Decompositions of matrices as calls of LAPACK, from native code.

LAPACK keeps matrices column after column, so that it sees ours transposed. Where that
is as good, it is told so (a triangle is then the other one); elsewhere matrices are
transposed, by ops that join whatever is around them. What fails is NaN, as in `eval`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from curta.compiler.library.lapack_calls import (
    Argument,
    OperandAddress,
    Result,
    Space,
    Work,
)
from curta.compiler.linalg.programs import nan_unless, qr, staged_in_single, succeeded
from curta.compiler.rewrite import eigenproblems
from curta.compiler.rewrite.lapack_ops import (
    INFO,
    INT,
    LETTERS,
    Lapack,
    by_columns,
    real_space,
)
from curta.compiler.targets import Target, Tuning
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.memo import kept_by_settings
from curta.core.op import Op
from curta.core.trace import typeof
from curta.primitives.elementwise.arithmetic import sub
from curta.primitives.linalg.cholesky import Cholesky
from curta.primitives.linalg.condensed import Hessenberg, Tridiagonal
from curta.primitives.linalg.eigen import Eig, Eigh
from curta.primitives.linalg.lu import LU, LUPivotsToPermutation
from curta.primitives.linalg.matrices import (
    columns,
    conjugate,
    rows,
    swapped,
    tril,
    triu,
)
from curta.primitives.linalg.qr import QR, Geqrf, HouseholderProduct
from curta.primitives.linalg.schur import Schur
from curta.primitives.linalg.svd import SVD
from curta.primitives.linalg.triangular import TriangularSolve
from curta.primitives.linalg.tridiagonal import TridiagonalSolve
from curta.primitives.linalg.updates import Ormqr


def decomposed(
    op: Op, avals: Sequence[ShapedArray], target: Target
) -> ClosedJaxpr | None:
    """The jaxpr that such an op stands for; None for others and for empty arrays."""
    if type(op) not in {*_RULES, QR} or not all(a.size for a in avals):
        return None
    if not target.services.lapack:
        return None
    return _decomposed(op, tuple(a.strip_weak_type() for a in avals), target.tuning)


@kept_by_settings(maxsize=256)
def _decomposed(op: Op, avals: tuple[ShapedArray, ...], tuning: Tuning) -> ClosedJaxpr:
    rule: Callable[..., list[Any]] = (
        partial(_qr, tuning) if type(op) is QR else _RULES[type(op)]
    )
    return staged_in_single(rule, op, avals)


# ---------------------------------------------------------------- factorisations


def _cholesky(op: Any, a: Any) -> list[Any]:
    # To LAPACK the lower triangle is the upper one of the conjugate, whose factor is
    # the transpose of the one wanted.
    n, dtype = typeof(a).shape[-1], typeof(a).dtype
    arguments = (b"U", n, Result(0), n, Result(1))
    outs = (((n, n), dtype), INFO)
    factor, info = Lapack("potrf", arguments, outs, n**3 // 3)(a)
    return nan_unless(succeeded(info), tril(factor))


def _lu(op: Any, a: Any) -> list[Any]:
    *_, m, n = typeof(a).shape
    least = min(m, n)
    arguments = (m, n, Result(0), m, Result(1), Result(2))
    outs = (((n, m), typeof(a).dtype), ((least,), INT), INFO)
    call = Lapack("getrf", arguments, outs, m * n * least)
    factors, pivots, _ = call(swapped(a))
    pivots = sub(pivots, np.int32(1))
    return [swapped(factors), pivots, LUPivotsToPermutation(m)(pivots)]


def _geqrf(op: Any, a: Any) -> list[Any]:
    *_, m, n = typeof(a).shape
    dtype, least = typeof(a).dtype, min(m, n)
    work, (x, pitch) = Work(LETTERS[dtype.name]), by_columns(a)
    arguments = (m, n, Result(0), pitch, Result(1), work, Result(2))
    outs = (((n, pitch), dtype), ((least,), dtype), INFO)
    call = Lapack("geqrf", arguments, outs, 2 * m * n * least)
    packed, taus, _ = call(x)
    return [swapped(columns(packed, 0, m)), taus]


def _pivoted_reflections(op: Any, a: Any) -> list[Any]:
    """The same with columns exchanged, and their order."""
    *_, m, n = typeof(a).shape
    dtype, least = typeof(a).dtype, min(m, n)
    arguments: tuple[Argument, ...] = (
        m, n, Result(0), m, Result(1), Result(2), Work(LETTERS[dtype.name]),
        *real_space(dtype, 2 * n), Result(3),
    )  # fmt: skip
    outs = (((n, m), dtype), ((n,), INT), ((least,), dtype), INFO)
    call = Lapack("geqp3", arguments, outs, 4 * m * n * least, cleared=(1,))
    packed, order, taus, _ = call(swapped(a))
    return [swapped(packed), taus, sub(order, np.int32(1))]


def _product_of(op: Any, packed: Any, taus: Any) -> list[Any]:
    *_, m, n = typeof(packed).shape
    dtype, count = typeof(packed).dtype, typeof(taus).shape[-1]
    name = "ungqr" if dtype.kind == "c" else "orgqr"
    work = Work(LETTERS[dtype.name])
    arguments = (m, n, count, Result(0), m, OperandAddress(1), work, Result(1))
    outs = (((n, m), dtype), INFO)
    call = Lapack(name, arguments, outs, 4 * m * n * count, ranks=(2, 1))
    return [swapped(call(swapped(packed), taus)[0])]


def _qr(tuning: Tuning, op: Any, a: Any) -> list[Any]:
    *_, m, n = typeof(a).shape
    wide = not op.full_matrices or m <= n
    if wide and not op.pivoting and m * min(m, n) > tuning.compact_wy:
        return _qr_by_blocks(a, tuning)
    reduce = _pivoted_reflections if op.pivoting else _geqrf
    return qr(op, a, partial(reduce, op), lambda *xs: _product_of(op, *xs)[0])


def _qr_by_blocks(a: Any, tuning: Tuning) -> list[Any]:
    """Q and R of recursive panels, whose reflections are kept as 1 - V T V^H.

    Elmroth and Gustavson, "Applying recursion to serial and parallel QR factorization
    leads to better performance" (2000). Q is made of the same T, where `orgqr` would
    make them again.
    """
    *_, m, n = typeof(a).shape
    dtype, least, (x, pitch) = typeof(a).dtype, min(m, n), by_columns(a)
    block, letter = min(tuning.lapack_block, least), LETTERS[dtype.name]
    arguments: tuple[Argument, ...] = (
        m, n, block, Result(0), pitch, Result(1), block,
        Space(block * n * dtype.itemsize), Result(2),
    )  # fmt: skip
    outs = ((n, pitch), dtype), ((least, block), dtype), INFO
    packed, triangles, _ = Lapack("geqrt", arguments, outs, 2 * m * n * least)(x)
    arguments = (
        m, least, m + 1, block, Result(0), pitch, OperandAddress(1), block,
        Work(letter), Result(1),
    )  # fmt: skip
    name = "ungtsqr_row" if dtype.kind == "c" else "orgtsqr_row"
    of_q, each = (((least, pitch), dtype), INFO), 4 * m * least * least
    call = Lapack(name, arguments, of_q, each, ranks=(2, 2))
    q, _ = call(rows(packed, 0, least), triangles)
    q, r = (swapped(columns(x, 0, k)) for x, k in ((q, m), (packed, least)))
    return [q, triu(r)]


def _triangular(op: Any, a: Any, b: Any) -> list[Any]:
    # x op(a) = b is op(a)^T x^T = b^T, and so LAPACK sees it.
    if op.conjugate_a and not op.transpose_a:
        a = conjugate(a)
    letter = b"N"
    if op.transpose_a:
        letter = b"C" if op.conjugate_a else b"T"
    *_, m, n = typeof(b).shape
    size = typeof(a).shape[-1]
    arguments = (
        b"R" if op.left_side else b"L",
        b"U" if op.lower_triangle else b"L",
        letter,
        b"U" if op.unit_diagonal else b"N",
        n, m, 1.0, OperandAddress(0), size, Result(0), n,
    )  # fmt: skip
    outs = (((m, n), typeof(b).dtype),)
    call = Lapack("trsm", arguments, outs, m * n * size, ((0, 1),), ranks=(2, 2))
    return call(a, b)


# ------------------------------------------------------------------ other equations


def _tridiagonal_solve(op: Any, dl: Any, d: Any, du: Any, b: Any) -> list[Any]:
    *_, n, width = typeof(b).shape
    dtype = typeof(b).dtype
    diagonals = Result(2), Result(3), Result(4)
    arguments = (n, width, *diagonals, Result(0), n, Result(1))
    outs = (((width, n), dtype), INFO, *(((k,), dtype) for k in (n - 1, n, n - 1)))
    copied = ((0, 3), (2, 0), (3, 1), (4, 2))
    call = Lapack("gtsv", arguments, outs, 8 * n * width, copied, (), (1, 1, 1, 2))
    x, info, *_ = call(columns(dl, 1, n), d, columns(du, 0, n - 1), swapped(b))
    return nan_unless(succeeded(info), swapped(x))


def _ormqr(op: Any, a: Any, taus: Any, c: Any) -> list[Any]:
    *_, m, n = typeof(c).shape
    *_, size, given = typeof(a).shape
    dtype, count = typeof(a).dtype, typeof(taus).shape[-1]
    is_complex = dtype.kind == "c"
    arguments: tuple[Argument, ...] = (
        b"L" if op.left else b"R",
        (b"C" if is_complex else b"T") if op.transposed else b"N",
        m, n, count, Result(2), size, OperandAddress(1), Result(0), m,
        Work(LETTERS[dtype.name]), Result(1),
    )  # fmt: skip
    # The routine changes the reflections for a while.
    outs = ((n, m), dtype), INFO, ((given, size), dtype)
    name, copied = "unmqr" if is_complex else "ormqr", ((0, 2), (2, 0))
    call = Lapack(name, arguments, outs, 4 * m * n * count, copied, (), (2, 1, 2))
    return [swapped(call(swapped(a), taus, swapped(c))[0])]


_RULES: dict[type[Op], Callable[..., list[Any]]] = {
    Cholesky: _cholesky,
    LU: _lu,
    Geqrf: _geqrf,
    HouseholderProduct: _product_of,
    TriangularSolve: _triangular,
    Eigh: eigenproblems.eigh,
    SVD: eigenproblems.svd,
    Schur: eigenproblems.schur,
    Hessenberg: eigenproblems.hessenberg,
    Tridiagonal: eigenproblems.tridiagonal,
    Eig: eigenproblems.eig,
    TridiagonalSolve: _tridiagonal_solve,
    Ormqr: _ormqr,
}
