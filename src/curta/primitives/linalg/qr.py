"""The QR decomposition, and its parts as LAPACK has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.dim import min_dim
from curta.core.tangents import zero_tangent
from curta.core.trace import typeof
from curta.primitives.elementwise import add, mul, sub
from curta.primitives.joining import Concatenate
from curta.primitives.linalg.family import MatrixOp, Shape, in_single
from curta.primitives.linalg.lu import lu, permuted_rows
from curta.primitives.linalg.matrices import (
    adjoint,
    columns,
    eye,
    matmul,
    real_like,
    rows,
    swapped,
    tril,
)
from curta.primitives.linalg.triangular import TriangularSolve
from curta.primitives.linalg.updates import Ormqr
from curta.primitives.structure import zeros

_INT = np.dtype(np.int32)


@dataclass(frozen=True)
class QR(MatrixOp):
    """The unitary Q and upper triangular R of a = Q R; a[:, p] = Q R if `pivoting`.

    Pivoting takes at every step the column of the greatest norm left. Q has as many
    columns as rows if `full_matrices`, else as many as R has rows.
    """

    name: ClassVar[str] = "qr"
    multiple_results: ClassVar[bool] = True
    pivoting: bool = False
    full_matrices: bool = True
    use_magma: bool | None = None

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        ((m, n),) = shapes
        k = m if self.full_matrices else min_dim(m, n)
        return [(m, k), (k, n), (n,)][: 2 + self.pivoting]

    def out_dtypes(self, dtype: Any) -> Sequence[Any]:
        return [dtype, dtype, _INT][: 2 + self.pivoting]

    def eval(self, *args: Any) -> Any:
        (given,) = args
        x, order = in_single(given), []
        if self.pivoting:
            order = [_greatest_columns_first(x)]
            x = np.take_along_axis(x, order[0][..., None, :], -1)
        q, r = np.linalg.qr(x, "complete" if self.full_matrices else "reduced")
        dtype = given.dtype
        return [q.astype(dtype, copy=False), r.astype(dtype, copy=False), *order]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        (a,), (da,) = primals, tangents
        q, r, *order = self(a)
        aval = typeof(a)
        m, n = aval.shape[-2:]
        if order:
            a, da = (swapped(permuted_rows(swapped(x), order[0])) for x in (a, da))
        if m < n:
            # The first m columns are Q R1; the others Q R2, so that R2 = Q^H a2.
            dq, first = _thin_tangents(q, columns(r, 0, m), columns(da, 0, m))
            second = add(
                matmul(adjoint(dq), columns(a, m, n)),
                matmul(adjoint(q), columns(da, m, n)),
            )
            dr = Concatenate(aval.ndim - 1)(first, second)
        elif self.full_matrices and m > n:
            thin, first = _thin_tangents(columns(q, 0, n), rows(r, 0, n), da)
            dq = _with_complement(q, thin)
            below = aval.update(shape=(*aval.shape[:-2], m - n, n))
            dr = Concatenate(aval.ndim - 2)(first, zeros(below))
        else:
            dq, dr = _thin_tangents(q, r, da)
        return [q, r, *order], [dq, dr, *[zero_tangent(typeof(p)) for p in order]]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        values = {"values": [1.0, 2.0, 5.0, 3.0, -4.0, 0.5, 2.5, -1.0, 7.0, 0.3, 1.7]}
        # Complex numbers that happen to be real are where the last column may jump.
        for dtype, domain in (("float64", values), ("complex128", {"distinct": True})):
            for shape in ((3, 3), (4, 2), (2, 4), (2, 3, 2)):
                for full in (True, False):
                    yield cls(False, full), [(shape, dtype, domain)]
            yield cls(True, False), [((3, 3), dtype, domain)]
            yield cls(True, True), [((2, 4), dtype, domain)]
        yield cls(), [((2, 2), "float16", values)]
        yield cls(False, False), [((0, 2), "float32")]


def _thin_tangents(q: Any, r: Any, da: Any) -> tuple[Any, Any]:
    """The tangents of Q and of a square R.

    J. Townsend, "Differentiating the QR decomposition" (2018): for F = Q^H a' R^-1,
    R' = (F - S) R and Q' = Q (S - F) + a' R^-1, with S = tril(F, -1) made skew.
    """
    moved = TriangularSolve()(r, da)
    inner = matmul(adjoint(q), moved)
    low = tril(inner, -1)
    skew = sub(low, adjoint(low))
    aval = typeof(skew)
    if aval.dtype.kind == "c":  # the diagonal of R stays real
        unit = eye(aval.dtype, aval.shape[-1], aval.ndim)
        skew = add(skew, mul(unit, sub(inner, real_like(inner))))
    rest = sub(inner, skew)
    return sub(moved, matmul(q, rest)), matmul(rest, r)


def _with_complement(q: Any, dq: Any) -> Any:
    """The tangent of a square Q, given that of its first columns.

    The other columns follow the first as Householder reflectors make them:
    arXiv:2409.13374, equations 32 and 33.
    """
    m, n = typeof(dq).shape[-2:]
    first, other = columns(q, 0, n), columns(q, n, m)
    top, bottom = rows(first, 0, n), rows(first, n, m)
    unit = eye(typeof(q).dtype, n, typeof(q).ndim)
    # Z (top - 1) = bottom, through the decomposition of top - 1.
    factors, _, order = lu(swapped(sub(top, unit)))
    z = swapped(solved_by_lu(factors, order, swapped(bottom)))
    dtop, dbottom = rows(dq, 0, n), rows(dq, n, m)
    change = adjoint(sub(dbottom, matmul(z, dtop)))
    complement = sub(
        matmul(dq, adjoint(z)), matmul(add(first, matmul(other, z)), change)
    )
    return Concatenate(typeof(q).ndim - 1)(dq, complement)


def solved_by_lu(factors: Any, permutation: Any, b: Any) -> Any:
    """x of a x = b, for matrices b, given the decomposition of a."""
    x = TriangularSolve(True, True, unit_diagonal=True)(
        factors, permuted_rows(b, permutation)
    )
    return TriangularSolve(True)(factors, x)


def _greatest_columns_first(x: Any) -> Any:
    """The order of the columns that pivoting chooses."""
    rest = x.copy()
    order = np.empty((*x.shape[:-2], x.shape[-1]), _INT)
    order[...] = np.arange(x.shape[-1])
    for k in range(min(x.shape[-2:])):
        norms = (rest[..., k:].real ** 2 + rest[..., k:].imag ** 2).sum(-2)
        chosen = (k + np.argmax(norms, -1))[..., None]
        for array, at in ((order, chosen), (rest, chosen[..., None, :])):
            here = array[..., k : k + 1].copy()
            array[..., k : k + 1] = np.take_along_axis(array, at, -1)
            np.put_along_axis(array, at, here, -1)
        column = rest[..., k : k + 1]
        length = np.linalg.norm(column, axis=-2, keepdims=True)
        unit = np.divide(column, length, out=np.zeros_like(column), where=length != 0)
        after = rest[..., k + 1 :]
        after -= unit @ (unit.conj().swapaxes(-1, -2) @ after)
    return order


class Geqrf(MatrixOp):
    """R and below it the Householder vectors that make Q; and their factors tau."""

    name: ClassVar[str] = "geqrf"
    multiple_results: ClassVar[bool] = True

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        (shape,) = shapes
        return [shape, (min_dim(*shape),)]

    def out_dtypes(self, dtype: Any) -> Sequence[Any]:
        return [dtype, dtype]

    def eval(self, *args: Any) -> Any:
        (x,) = args
        packed, taus = np.linalg.qr(in_single(x), "raw")
        packed = np.ascontiguousarray(packed.swapaxes(-1, -2), x.dtype)
        return [packed, taus.astype(x.dtype, copy=False)]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(), [((3, 2), "float64", {"constant": True})]
        yield cls(), [((2, 2, 3), "complex64", {"constant": True})]
        yield cls(), [((2, 0), "float32", {"constant": True})]


class HouseholderProduct(MatrixOp):
    """The first columns of the product of the reflections that `Geqrf` gives."""

    name: ClassVar[str] = "householder_product"
    ranks: ClassVar[tuple[int, ...]] = (2, 1)

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        (m, n), (k,) = shapes
        if m < n:
            raise ValueError(
                "The first argument to householder_product must have at least as many"
                f" rows as columns, got shape {(m, n)}"
            )
        if k > n:
            raise ValueError(
                "The second argument to householder_product must not have more rows"
                f" than the first argument has columns, got {(k,)} for {(m, n)}"
            )
        return [(m, n)]

    def eval(self, *args: Any) -> Any:
        a, taus = args
        unit = np.broadcast_to(np.eye(*a.shape[-2:], dtype=a.dtype), a.shape)
        return Ormqr().eval(a, taus, unit)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        fixed = {"constant": True}
        yield cls(), [((3, 2), "float64", fixed), ((2,), "float64", fixed)]
        yield cls(), [((2, 3, 3), "complex64", fixed), ((2, 1), "complex64", fixed)]
        yield cls(), [((2, 0), "float32", fixed), ((0,), "float32", fixed)]
