"""Eigenvalues and eigenvectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.trace import typeof
from curta.primitives.elementwise import (
    abs_,
    add,
    complex_,
    convert_element_type,
    div,
    eq,
    imag,
    mul,
    neg,
    real,
)
from curta.primitives.elementwise.complex import part_dtype
from curta.primitives.linalg.family import (
    MatrixOp,
    Shape,
    by_lapack,
    checked_subset,
    in_single,
    nan_where_it_fails,
    not_a_number,
    require_square,
)
from curta.primitives.linalg.lu import lu
from curta.primitives.linalg.matrices import (
    adjoint,
    along_rows,
    conjugate,
    diagonal,
    differences,
    matmul,
    reciprocal_off_diagonal,
)
from curta.primitives.linalg.qr import solved_by_lu
from curta.primitives.reduction import ArgMax
from curta.primitives.shape import Iota
from curta.primitives.structure import reduce_sum


@dataclass(frozen=True)
class Eigh(MatrixOp):
    """Eigenvectors, as columns, and ascending eigenvalues of Hermitian matrices.

    Only one triangle is read. `subset_by_index` (start, end) keeps some of them.
    """

    name: ClassVar[str] = "eigh"
    multiple_results: ClassVar[bool] = True
    param_names: ClassVar[Mapping[str, str | None]] = {"lower": "lower_triangle"}
    lower_triangle: bool = True
    sort_eigenvalues: bool = True
    subset_by_index: tuple[int, int] | None = None
    algorithm: Any = None

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        ((n, m),) = shapes
        if n != m:
            raise ValueError(
                "Argument to symmetric eigendecomposition must have shape [..., n, n],"
                f" got shape {shapes[0]}"
            )
        start, end = 0, n
        if self.subset_by_index is not None:
            start, end = checked_subset(self.name, self.subset_by_index, n)
        return [(n, end - start), (end - start,)]

    def out_dtypes(self, dtype: Any) -> Sequence[Any]:
        return [dtype, part_dtype(dtype)]

    def eval(self, *args: Any) -> Any:
        (x,) = args
        v, w = nan_where_it_fails(self._decompose, in_single(x))
        kept = slice(*self.subset_by_index) if self.subset_by_index else slice(None)
        v, w = v[..., kept], w[..., kept]
        return [v.astype(x.dtype), w.astype(part_dtype(x.dtype))]

    def _decompose(self, x: Any) -> Sequence[Any]:
        w, v = np.linalg.eigh(x, "L" if self.lower_triangle else "U")
        return v, w

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        # Giles, "An extended collection of matrix derivative results" (2008), section
        # 3.1, for eigenvalues that differ; the tangent is taken to be Hermitian.
        (a,), (da,) = primals, tangents
        aval = typeof(a)
        if self.subset_by_index not in (None, (0, aval.shape[-1])):
            raise NotImplementedError(
                "Derivatives not defined for partial eigen decomposition: eigh with"
                f" subset_by_index={self.subset_by_index}. Take part of the full one."
            )
        two = aval.dtype.type(2)
        v, w = self(div(add(a, adjoint(a)), two))
        gaps = differences(convert_element_type(w, aval.dtype))
        inner = matmul(matmul(adjoint(v), da), v)
        dv = matmul(v, mul(reciprocal_off_diagonal(gaps), inner))
        dw = diagonal(inner)
        return [v, w], [dv, real(dw) if aval.dtype.kind == "c" else dw]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        # Of a derivative in a direction that is not Hermitian, only half is asked.
        rough = {"values": [4.0, 1.0, 1.0, 3.0], "rough": True}
        for dtype in ("float64", "complex128", "float16"):
            yield cls(), [((2, 2), dtype, rough)]
            yield cls(False), [((2, 2, 2), dtype, rough)]
        yield cls(), [((0, 0), "float32", {"rough": True})]


@dataclass(frozen=True)
class Eig(MatrixOp):
    """Eigenvalues, then left and right eigenvectors, as columns, if asked for.

    Eigenvectors have length 1, and their greatest element is real.
    """

    name: ClassVar[str] = "eig"
    multiple_results: ClassVar[bool] = True
    compute_left_eigenvectors: bool = True
    compute_right_eigenvectors: bool = True
    enable_eigvec_derivs: bool = False
    implementation: Any = None

    def _count(self) -> int:
        return self.compute_left_eigenvectors + self.compute_right_eigenvectors

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        (shape,) = shapes
        require_square(self.name, shape)
        return [shape[:1]] + [shape] * self._count()

    def out_dtypes(self, dtype: Any) -> Sequence[Any]:
        wide = np.result_type(in_single(np.empty(0, dtype)), np.complex64)
        return [wide] * (1 + self._count())

    def eval(self, *args: Any) -> Any:
        if self.compute_left_eigenvectors:
            return by_lapack(self, args)
        (x,) = args
        finite = np.isfinite(x).all((-2, -1), keepdims=True)
        outs = nan_where_it_fails(self._decompose, in_single(np.where(finite, x, 0)))
        dtype = self.out_dtypes(x.dtype)[0]
        nan = not_a_number(dtype)
        masks = [finite[..., 0], *[finite] * self._count()]
        return [
            np.where(mask, out, nan).astype(dtype)
            for mask, out in zip(masks, outs, strict=True)
        ]

    def _decompose(self, x: Any) -> Sequence[Any]:
        if not self._count():
            return [np.linalg.eigvals(x)]
        return np.linalg.eig(x)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        (a,), (da,) = primals, tangents
        if self._count() and not self.enable_eigvec_derivs:
            raise NotImplementedError(
                "Derivatives of non-symmetric eigenvectors are only valid if all"
                " eigenvalues differ and no eigenvector has two greatest elements,"
                " which cannot be checked beforehand. Pass enable_eigvec_derivs=True to"
                " lax.linalg.eig to have them nevertheless."
            )
        full = dataclasses.replace(self, compute_right_eigenvectors=True)
        outs = full(a)
        w, right = outs[0], outs[-1]
        da = convert_element_type(da, typeof(right).dtype)
        tangents_out = [diagonal(_in_basis(right, da))]
        if self.compute_left_eigenvectors:
            tangents_out.append(_moved(conjugate(w), outs[1], adjoint(da)))
        if self.compute_right_eigenvectors:
            tangents_out.append(_moved(w, right, da))
        return outs[: 1 + self._count()], tangents_out

    @classmethod
    def samples(cls) -> Iterator[Any]:
        values = {"values": [1.0, 2.0, 0.5, 3.0]}
        for dtype in ("float64", "complex128"):
            yield cls(False, False), [((2, 2), dtype, values)]
            yield cls(True, True, True), [((2, 2), dtype, values)]
        yield cls(False, True, True), [((2, 2, 2), "float32", values)]
        yield cls(False, False), [((0, 0), "float32")]


def _in_basis(v: Any, da: Any) -> Any:
    """V^-1 a' V, of which the diagonal is the tangent of the eigenvalues."""
    factors, _, order = lu(v)
    return matmul(solved_by_lu(factors, order, da), v)


def _moved(w: Any, v: Any, da: Any) -> Any:
    """The tangent of normalised eigenvectors.

    Giles (2008), section 3.1: with P = V^-1 a' V it is V (F * P), F the reciprocal
    differences of eigenvalues, up to a multiple of each eigenvector. The multiple
    keeps the length 1 and the greatest element real.
    """
    inner = mul(reciprocal_off_diagonal(differences(w)), _in_basis(v, da))
    moved = matmul(v, inner)
    shape = typeof(v).shape
    rows = len(shape) - 2
    greatest = ArgMax((rows,), np.dtype(np.int32))(abs_(v))
    row_numbers = Iota(np.dtype(np.int32), shape, rows)()
    mask = convert_element_type(eq(row_numbers, along_rows(greatest)), typeof(v).dtype)
    length = real(reduce_sum(mul(conjugate(v), moved), (rows,)))
    phase = div(
        imag(reduce_sum(mul(mask, moved), (rows,))),
        real(reduce_sum(mul(mask, v), (rows,))),
    )
    multiple = along_rows(complex_(neg(length), neg(phase)))
    return add(moved, mul(v, multiple))
