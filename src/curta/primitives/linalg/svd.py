"""The singular value decomposition."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.dim import min_dim
from curta.core.trace import typeof
from curta.primitives.elementwise import (
    add,
    convert_element_type,
    div,
    eq,
    mul,
    real,
    sub,
)
from curta.primitives.elementwise.complex import part_dtype
from curta.primitives.linalg.family import (
    MatrixOp,
    Shape,
    checked_subset,
    in_single,
    nan_where_it_fails,
    not_a_number,
)
from curta.primitives.linalg.matrices import (
    adjoint,
    along_columns,
    along_rows,
    diagonal,
    eye,
    matmul,
    reciprocal_off_diagonal,
)
from curta.primitives.structure import zeros


@dataclass(frozen=True)
class SVD(MatrixOp):
    """Descending singular values s; then U and V^H with a = U diag(s) V^H if asked for.

    U and V are square if `full_matrices`, else have as many columns as s elements.
    `subset_by_index` (start, end) keeps some singular values and their vectors.
    """

    name: ClassVar[str] = "svd"
    multiple_results: ClassVar[bool] = True
    full_matrices: bool = True
    compute_uv: bool = True
    subset_by_index: tuple[int, int] | None = None
    algorithm: Any = None

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        ((m, n),) = shapes
        rank = min_dim(m, n)
        if self.subset_by_index is not None:
            subset = self.subset_by_index
            if self.full_matrices and subset != (0, rank):
                raise ValueError("full_matrices and subset_by_index cannot both be set")
            start, end = checked_subset(self.name, subset, rank)
            rank = end - start
        if not self.compute_uv:
            return [(rank,)]
        if self.full_matrices:
            return [(rank,), (m, m), (n, n)]
        return [(rank,), (m, rank), (rank, n)]

    def out_dtypes(self, dtype: Any) -> Sequence[Any]:
        return [part_dtype(dtype), dtype, dtype][: 3 if self.compute_uv else 1]

    def eval(self, *args: Any) -> Any:
        (x,) = args
        # Of infinities LAPACK's routine does not come to an end.
        finite = np.isfinite(x).all((-2, -1), keepdims=True)
        outs = nan_where_it_fails(self._decompose, in_single(np.where(finite, x, 0)))
        masks = [finite[..., 0], *[finite] * (len(outs) - 1)]
        outs = [
            np.where(mask, out, not_a_number(out.dtype))
            for mask, out in zip(masks, outs, strict=True)
        ]
        if self.subset_by_index and not self.full_matrices:
            kept = slice(*self.subset_by_index)
            parts = [(..., kept), (..., kept), (..., kept, slice(None))]
            outs = [out[i] for out, i in zip(outs, parts, strict=False)]
        kinds = self.out_dtypes(x.dtype)
        return [out.astype(kind) for out, kind in zip(outs, kinds, strict=True)]

    def _decompose(self, x: Any) -> Sequence[Any]:
        if not self.compute_uv:
            return [np.linalg.svd(x, compute_uv=False)]
        u, s, vh = np.linalg.svd(x, self.full_matrices)
        return s, u, vh

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        # Townsend, "Differentiating the singular value decomposition" (2016), for
        # singular values that differ, and are not 0 if the matrix is not square.
        (a,), (da,) = primals, tangents
        op = dataclasses.replace(self, full_matrices=False, compute_uv=True)
        s, u, vh = op(a)
        m, n = typeof(a).shape[-2:]
        if self.compute_uv and self.full_matrices and m != n:
            raise NotImplementedError(
                "Singular value decomposition JVP not implemented for full matrices:"
                f" got shape {typeof(a).shape}. Pass full_matrices=False."
            )
        v = adjoint(vh)
        inner = matmul(matmul(adjoint(u), da), v)
        ds = diagonal(inner)
        ds = real(ds) if typeof(ds).dtype.kind == "c" else ds
        if not self.compute_uv:
            return [s], [ds]
        du, dv = _vector_tangents(s, u, v, inner)
        if m > n:
            du = add(du, _outside(u, matmul(da, v), s))
        if n > m:
            dv = add(dv, _outside(v, matmul(adjoint(da), u), s))
        return [s, u, vh], [ds, du, adjoint(dv)]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        values = {"values": [1.0, 2.0, 5.0, 3.0, -4.0, 0.5, 2.5, -1.0, 7.0, 0.3, 1.7]}
        for shape in ((3, 3), (3, 2), (2, 3), (2, 3, 2)):
            yield cls(False), [(shape, "float64", values)]
            yield cls(True, False), [(shape, "complex128", values)]
        yield cls(), [((2, 2), "float64", values)]
        yield cls(), [((2, 2), "float16", values)]
        yield cls(False, True, (0, 1)), [((2, 2), "float32", values)]
        yield cls(False), [((0, 2), "float32")]


def _vector_tangents(s: Any, u: Any, v: Any, inner: Any) -> tuple[Any, Any]:
    """The tangents of U and V within the spaces that their columns span."""
    dtype, rank = typeof(u).dtype, typeof(u).ndim
    gaps = mul(
        add(along_rows(s), along_columns(s)), sub(along_rows(s), along_columns(s))
    )
    factors = convert_element_type(reciprocal_off_diagonal(gaps), dtype)
    wide = convert_element_type(s, dtype)
    right, left = mul(inner, along_rows(wide)), mul(along_columns(wide), inner)
    du = mul(factors, add(right, adjoint(right)))
    dv = mul(factors, add(left, adjoint(left)))
    if dtype.kind == "c":
        # The phases: which of U and V turns is a choice.
        none = convert_element_type(eq(s, zeros(typeof(s))), typeof(s).dtype)
        inverse = sub(div(typeof(s).dtype.type(1), add(s, none)), none)
        inverse = along_rows(convert_element_type(inverse, dtype))
        unit = eye(dtype, typeof(s).shape[-1], rank)
        skew = mul(sub(inner, adjoint(inner)), mul(unit, inverse))
        du = add(du, mul(skew, dtype.type(0.5)))
    return matmul(u, du), matmul(v, dv)


def _outside(u: Any, moved: Any, s: Any) -> Any:
    """The part of a tangent orthogonal to the columns of `u`."""
    rest = sub(moved, matmul(u, matmul(adjoint(u), moved)))
    return div(rest, along_rows(convert_element_type(s, typeof(u).dtype)))
