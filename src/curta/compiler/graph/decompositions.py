"""Decompositions of matrices as calls of LAPACK, from native code.

LAPACK keeps matrices column after column, so that it sees ours transposed. Where that
is as good, it is told so (a triangle is then the other one); elsewhere matrices are
transposed, by ops that join whatever is around them. What fails is NaN, as in `eval`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from curta.compiler.graph.routines import LibraryOp
from curta.compiler.graph.small_matrices import staged_in_single
from curta.compiler.library import blas
from curta.compiler.library.lapack_calls import (
    Argument,
    BatchedCall,
    Operand,
    Result,
    Space,
    Work,
)
from curta.compiler.library.permutation import Permutations
from curta.compiler.library.rotations import RankOneUpdate
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.memo import kept_by_settings
from curta.core.op import Op
from curta.core.trace import typeof
from curta.lazy_dataclass import dataclass
from curta.primitives.elementwise.arithmetic import add, mul, neg, sub
from curta.primitives.elementwise.bitwise import and_
from curta.primitives.elementwise.comparison import gt, lt, ne
from curta.primitives.elementwise.complex import complex_, imag, part_dtype, real
from curta.primitives.elementwise.rounding import is_finite
from curta.primitives.elementwise.select import select
from curta.primitives.linalg.cholesky import Cholesky
from curta.primitives.linalg.condensed import Hessenberg, Tridiagonal
from curta.primitives.linalg.eigen import Eig, Eigh
from curta.primitives.linalg.family import not_a_number
from curta.primitives.linalg.lu import LU, LUPivotsToPermutation
from curta.primitives.linalg.matrices import (
    columns,
    conjugate,
    matmul,
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
from curta.primitives.linalg.updates import CholeskyUpdate, Ormqr, SymmetricProduct
from curta.primitives.reduction import ReduceAnd
from curta.primitives.slicing import Pad
from curta.primitives.structure import BroadcastInDim, zeros

Shape = tuple[int, ...]
_INT = np.dtype(np.int32)
_LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
INFO = ((), _INT)


@dataclass(frozen=True)
class Lapack(LibraryOp):
    """A routine of LAPACK called for each matrix of a batch.

    `outs` are the shapes and dtypes of the results for one matrix, `ranks` the ranks of
    one of each operand; `each` is roughly how many operations a call takes. The rest is
    as in `BatchedCall`.
    """

    name: ClassVar[str] = "lapack"
    multiple_results: ClassVar[bool] = True
    routine_name: str
    arguments: tuple[Argument, ...]
    outs: tuple[tuple[Shape, Any], ...]
    each: int
    copied: tuple[tuple[int, int], ...] = ((0, 0),)
    cleared: tuple[int, ...] = ()
    ranks: tuple[int, ...] = (2,)

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        batch = self._batch(avals)
        return [ShapedArray((*batch, *shape), dtype) for shape, dtype in self.outs]

    def _batch(self, avals: Sequence[ShapedArray]) -> Shape:
        return avals[0].shape[: avals[0].ndim - self.ranks[0]]

    def routine(self, *avals: ShapedArray) -> BatchedCall:
        count = int(np.prod(self._batch(avals), dtype=int))
        return BatchedCall(
            _LETTERS[avals[0].dtype.name] + self.routine_name,
            self.arguments,
            count,
            tuple(_bytes(a, count) for a in self.aval(*avals)),
            tuple(_bytes(a, count) for a in avals),
            self.copied,
            self.cleared,
            self.each,
        )


def _bytes(aval: ShapedArray, count: int) -> int:
    return aval.size // count * aval.dtype.itemsize


@dataclass(frozen=True)
class Permuted(LibraryOp):
    """`LUPivotsToPermutation`, natively."""

    name: ClassVar[str] = "permuted"
    size: int

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return ShapedArray((*avals[0].shape[:-1], self.size), _INT)

    def routine(self, *avals: ShapedArray) -> Permutations:
        (pivots,) = avals
        count = pivots.shape[-1]
        return Permutations(pivots.size // count, count, self.size)


@dataclass(frozen=True)
class Rotated(LibraryOp):
    """`CholeskyUpdate`, natively."""

    name: ClassVar[str] = "rotated"

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return avals[0]

    def eval(self, *args: Any) -> Any:
        return CholeskyUpdate().eval(*args)

    def routine(self, *avals: ShapedArray) -> RankOneUpdate:
        n = avals[1].shape[-1]
        kind = "f64" if avals[0].dtype.itemsize == 8 else "f32"
        return RankOneUpdate(avals[1].size // n, n, kind)


def decomposed(op: Op, avals: Sequence[ShapedArray]) -> ClosedJaxpr | None:
    """The jaxpr that such an op stands for; None for others and for empty arrays."""
    if type(op) not in _RULES or not all(a.size for a in avals):
        return None
    if not blas.available():
        return None
    return _decomposed(op, tuple(a.strip_weak_type() for a in avals))


@kept_by_settings(maxsize=256)
def _decomposed(op: Op, avals: tuple[ShapedArray, ...]) -> ClosedJaxpr | None:
    outs = op.aval(*avals)
    given = outs if op.multiple_results else [outs]
    if not all(a.size for a in given):
        return None
    return staged_in_single(_RULES[type(op)], op, avals)


# ---------------------------------------------------------------- factorisations


def _cholesky(op: Any, a: Any) -> list[Any]:
    # To LAPACK the lower triangle is the upper one of the conjugate, whose factor is
    # the transpose of the one wanted.
    n, dtype = typeof(a).shape[-1], typeof(a).dtype
    arguments = (b"U", n, Result(0), n, Result(1))
    outs = (((n, n), dtype), INFO)
    factor, info = Lapack("potrf", arguments, outs, n**3 // 3)(a)
    return _unless(info, tril(factor))


def _lu(op: Any, a: Any) -> list[Any]:
    *_, m, n = typeof(a).shape
    least = min(m, n)
    arguments = (m, n, Result(0), m, Result(1), Result(2))
    outs = (((n, m), typeof(a).dtype), ((least,), _INT), INFO)
    call = Lapack("getrf", arguments, outs, m * n * least)
    factors, pivots, _ = call(swapped(a))
    pivots = sub(pivots, np.int32(1))
    return [swapped(factors), pivots, Permuted(m)(pivots)]


def _permutation(op: Any, pivots: Any) -> list[Any]:
    return [Permuted(op.permutation_size)(pivots)]


def _geqrf(op: Any, a: Any) -> list[Any]:
    packed, taus = _reflections(a)
    return [swapped(packed), taus]


def _reflections(a: Any) -> list[Any]:
    """The transposed result of `Geqrf`, and the factors."""
    *_, m, n = typeof(a).shape
    dtype, least = typeof(a).dtype, min(m, n)
    work = Work(_LETTERS[dtype.name])
    arguments = (m, n, Result(0), m, Result(1), work, Result(2))
    outs = (((n, m), dtype), ((least,), dtype), INFO)
    call = Lapack("geqrf", arguments, outs, 2 * m * n * least)
    return call(swapped(a))[:2]


def _pivoted_reflections(a: Any) -> list[Any]:
    """The same with columns exchanged, and their order."""
    *_, m, n = typeof(a).shape
    dtype, least = typeof(a).dtype, min(m, n)
    arguments: tuple[Argument, ...] = (
        m, n, Result(0), m, Result(1), Result(2), Work(_LETTERS[dtype.name]),
        *_real_space(dtype, 2 * n), Result(3),
    )  # fmt: skip
    outs = (((n, m), dtype), ((n,), _INT), ((least,), dtype), INFO)
    call = Lapack("geqp3", arguments, outs, 4 * m * n * least, cleared=(1,))
    packed, order, taus, _ = call(swapped(a))
    return [packed, taus, sub(order, np.int32(1))]


def _product_of(packed: Any, taus: Any) -> Any:
    """The product of reflections, whose vectors are rows; transposed as they are."""
    *_, n, m = typeof(packed).shape
    dtype, count = typeof(packed).dtype, typeof(taus).shape[-1]
    name = "ungqr" if dtype.kind == "c" else "orgqr"
    work = Work(_LETTERS[dtype.name])
    arguments = (m, n, count, Result(0), m, Operand(1), work, Result(1))
    outs = (((n, m), dtype), INFO)
    call = Lapack(name, arguments, outs, 4 * m * n * count, ranks=(2, 1))
    return call(packed, taus)[0]


def _qr(op: Any, a: Any) -> list[Any]:
    *_, m, n = typeof(a).shape
    packed, taus, *order = (_pivoted_reflections if op.pivoting else _reflections)(a)
    k = m if op.full_matrices else min(m, n)
    r = triu(rows(swapped(packed), 0, k))
    if k > n:
        padding = (*[(0, 0, 0)] * (typeof(a).ndim - 2), (0, k - n, 0), (0, 0, 0))
        packed = Pad(padding)(packed, np.zeros((), typeof(a).dtype))
    return [swapped(_product_of(rows(packed, 0, k), taus)), r, *order]


def _householder(op: Any, a: Any, taus: Any) -> list[Any]:
    return [swapped(_product_of(swapped(a), taus))]


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
        n, m, 1.0, Operand(0), size, Result(0), n,
    )  # fmt: skip
    outs = (((m, n), typeof(b).dtype),)
    call = Lapack("trsm", arguments, outs, m * n * size, ((0, 1),), ranks=(2, 2))
    return call(a, b)


# ------------------------------------------------- eigenvalues, singular values


def _eigh(op: Any, a: Any) -> list[Any]:
    n, dtype = typeof(a).shape[-1], typeof(a).dtype
    real = part_dtype(dtype)
    is_complex = dtype.kind == "c"
    works = [
        Work(_LETTERS[t.name]) for t in ((dtype, real) if is_complex else (dtype,))
    ]
    triangle = b"L" if op.lower_triangle else b"U"
    arguments: tuple[Argument, ...] = (
        b"V", triangle, n, Result(0), n, Result(1), *works, Work("i"), Result(2)
    )  # fmt: skip
    outs = (((n, n), dtype), ((n,), real), INFO)
    name = "heevd" if is_complex else "syevd"
    vectors, values, info = Lapack(name, arguments, outs, 9 * n**3)(swapped(a))
    vectors, values = _unless(info, swapped(vectors), values)
    start, end = op.subset_by_index or (0, n)
    return [columns(vectors, start, end), columns(values, start, end)]


def _svd(op: Any, a: Any) -> list[Any]:
    a, finite = _only_finite(a)  # of infinities gesdd does not come to an end
    *_, m, n = typeof(a).shape
    dtype, least, most = typeof(a).dtype, min(m, n), max(m, n)
    left, right = (m, n) if op.full_matrices else (least, least)
    letter = (b"A" if op.full_matrices else b"S") if op.compute_uv else b"N"
    vectors: tuple[Argument, ...] = (Result(3), m, Result(4), right)
    outs = [((least,), part_dtype(dtype)), INFO, ((n, m), dtype)]
    if op.compute_uv:
        outs += [((left, m), dtype), ((n, right), dtype)]
    else:
        vectors = (Space(16), 1, Space(16), 1)
    room = max(5 * least * least + 7 * least, 2 * least * (most + least) + least)
    arguments: tuple[Argument, ...] = (
        letter, m, n, Result(2), m, Result(0), *vectors, Work(_LETTERS[dtype.name]),
        *_real_space(dtype, room), Space(32 * least), Result(1),
    )  # fmt: skip
    call = Lapack("gesdd", arguments, tuple(outs), 8 * most * least**2, ((2, 0),))
    s, info, _, *both = call(swapped(a))
    result = _unless(_failed(info, finite), s, *map(swapped, both))
    if op.subset_by_index and not op.full_matrices:
        parts = (columns, columns, rows)
        bounds = (op.subset_by_index[0], min(op.subset_by_index[1], least))
        return [f(x, *bounds) for f, x in zip(parts, result, strict=False)]
    return result


def _schur(op: Any, a: Any) -> list[Any]:
    n, dtype = typeof(a).shape[-1], typeof(a).dtype
    values = [Space(16 * n)] * (1 if dtype.kind == "c" else 2)
    arguments: tuple[Argument, ...] = (
        b"V" if op.compute_schur_vectors else b"N", b"N", None, n, Result(0), n,
        Space(8), *values, Result(1), n, Work(_LETTERS[dtype.name]),
        *_real_space(dtype, n), None, Result(2),
    )  # fmt: skip
    outs = (((n, n), dtype), ((n, n), dtype), INFO)
    t, z, info = Lapack("gees", arguments, outs, 25 * n**3)(swapped(a))
    kept = [swapped(t), swapped(z)][: 1 + op.compute_schur_vectors]
    return _unless(info, *kept)


def _hessenberg(op: Any, a: Any) -> list[Any]:
    n, dtype = typeof(a).shape[-1], typeof(a).dtype
    work = Work(_LETTERS[dtype.name])
    arguments = (n, 1, n, Result(0), n, Result(1), work, Result(2))
    outs = (((n, n), dtype), ((n - 1,), dtype), INFO)
    packed, taus, info = Lapack("gehrd", arguments, outs, 4 * n**3)(swapped(a))
    return _unless(info, swapped(packed), taus)


def _tridiagonal(op: Any, a: Any) -> list[Any]:
    n, dtype = typeof(a).shape[-1], typeof(a).dtype
    real = part_dtype(dtype)
    arguments = (
        b"L" if op.lower_triangle else b"U", n, Result(0), n, Result(1), Result(2),
        Result(3), Work(_LETTERS[dtype.name]), Result(4),
    )  # fmt: skip
    shapes = ((n, n), dtype), ((n,), real), ((n - 1,), real), ((n - 1,), dtype), INFO
    name = "hetrd" if dtype.kind == "c" else "sytrd"
    packed, *others, info = Lapack(name, arguments, shapes, 2 * n**3)(swapped(a))
    return _unless(info, swapped(packed), *others)


def _eig(op: Any, a: Any) -> list[Any]:
    n, dtype = typeof(a).shape[-1], typeof(a).dtype
    is_complex = dtype.kind == "c"
    a, finite = _only_finite(a)
    values = [Result(i) for i in range(1 if is_complex else 2)]
    wanted = op.compute_left_eigenvectors, op.compute_right_eigenvectors
    count = len(values)
    arguments: tuple[Argument, ...] = (
        *(b"V" if w else b"N" for w in wanted), n, Result(count), n, *values,
        Result(count + 1), n, Result(count + 2), n, Work(_LETTERS[dtype.name]),
        *_real_space(dtype, 2 * n), Result(count + 3),
    )  # fmt: skip
    outs = (*[((n,), dtype)] * count, *[((n, n), dtype)] * 3, INFO)
    call = Lapack("geev", arguments, outs, 25 * n**3, ((count, 0),))
    *parts, _, left, right, info = call(swapped(a))
    vectors = [v for v, w in zip((left, right), wanted, strict=True) if w]
    if is_complex:
        result = [*parts, *map(swapped, vectors)]
    else:
        pairs = [_paired(parts[1], v) for v in vectors]
        result = [complex_(*parts), *map(swapped, pairs)]
    return _unless(_failed(info, finite), *result)


def _paired(imaginary: Any, rows_: Any) -> Any:
    """Complex eigenvectors, as rows: of a pair, the real part comes first."""
    zero, first = zeros(typeof(rows_)), typeof(rows_).ndim - 2
    padding = [(0, 0, 0)] * typeof(rows_).ndim
    nothing = np.zeros((), typeof(rows_).dtype)
    shifted = []
    for low, high in ((-1, 1), (1, -1)):  # the next row, and the one before
        padding[first] = (low, high, 0)
        shifted.append(Pad(tuple(padding))(rows_, nothing))
    none = zeros(typeof(imaginary))
    above, below = (_spread(f(imaginary, none), rows_) for f in (gt, lt))
    re = select(below, shifted[1], rows_)
    im = select(above, shifted[0], select(below, neg(rows_), zero))
    return complex_(re, im)


def _only_finite(a: Any) -> tuple[Any, Any]:
    """The matrices, 0 where they have an element that is not finite, and whether."""
    finite = _all_finite(a)
    return select(_spread(finite, a), a, zeros(typeof(a))), finite


def _failed(info: Any, finite: Any) -> Any:
    """Whether a routine failed, or was not given the matrix."""
    return select(finite, info, BroadcastInDim(typeof(info).shape, ())(np.int32(1)))


def _all_finite(a: Any) -> Any:
    """Whether all elements of each matrix are finite."""
    rank = typeof(a).ndim
    parts = [real(a), imag(a)] if typeof(a).dtype.kind == "c" else [a]
    whole = [ReduceAnd((rank - 2, rank - 1))(is_finite(x)) for x in parts]
    return whole[0] if len(whole) == 1 else and_(*whole)


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
    return _unless(info, swapped(x))


def _ormqr(op: Any, a: Any, taus: Any, c: Any) -> list[Any]:
    *_, m, n = typeof(c).shape
    *_, size, given = typeof(a).shape
    dtype, count = typeof(a).dtype, typeof(taus).shape[-1]
    is_complex = dtype.kind == "c"
    arguments: tuple[Argument, ...] = (
        b"L" if op.left else b"R",
        (b"C" if is_complex else b"T") if op.transposed else b"N",
        m, n, count, Result(2), size, Operand(1), Result(0), m,
        Work(_LETTERS[dtype.name]), Result(1),
    )  # fmt: skip
    # The routine changes the reflections for a while.
    outs = ((n, m), dtype), INFO, ((given, size), dtype)
    name, copied = "unmqr" if is_complex else "ormqr", ((0, 2), (2, 0))
    call = Lapack(name, arguments, outs, 4 * m * n * count, copied, (), (2, 1, 2))
    return [swapped(call(swapped(a), taus, swapped(c))[0])]


def _cholesky_update(op: Any, r: Any, w: Any) -> list[Any]:
    return [Rotated()(r, w)]


def _symmetric_product(op: Any, a: Any, c: Any) -> list[Any]:
    scalar = typeof(a).dtype.type
    product = mul(matmul(a, swapped(a)), scalar(op.alpha))
    return [add(product, mul(c, scalar(op.beta)))]


# ------------------------------------------------------------------------ helpers


def _real_space(dtype: Any, count: int) -> list[Space]:
    """Workspace of real numbers that routines of complex matrices want besides."""
    return [Space(count * dtype.itemsize // 2)] if dtype.kind == "c" else []


def _unless(info: Any, *values: Any) -> list[Any]:
    """The values, NaN where a routine has failed."""
    failed = ne(info, BroadcastInDim(typeof(info).shape, ())(np.int32(0)))
    result = []
    for x in values:
        aval = typeof(x)
        nan = BroadcastInDim(aval.shape, ())(not_a_number(aval.dtype))
        result.append(select(_spread(failed, x), nan, x))
    return result


def _spread(flags: Any, like: Any) -> Any:
    """What holds of each matrix of a batch, for every element of something."""
    return BroadcastInDim(typeof(like).shape, tuple(range(typeof(flags).ndim)))(flags)


_RULES: dict[type[Op], Callable[..., list[Any]]] = {
    Cholesky: _cholesky,
    LU: _lu,
    LUPivotsToPermutation: _permutation,
    Geqrf: _geqrf,
    HouseholderProduct: _householder,
    QR: _qr,
    TriangularSolve: _triangular,
    Eigh: _eigh,
    SVD: _svd,
    Schur: _schur,
    Hessenberg: _hessenberg,
    Tridiagonal: _tridiagonal,
    Eig: _eig,
    TridiagonalSolve: _tridiagonal_solve,
    Ormqr: _ormqr,
    CholeskyUpdate: _cholesky_update,
    SymmetricProduct: _symmetric_product,
}
