"""Factors applied to, or changed by, something else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.dim import min_dim
from curta.core.trace import typeof
from curta.dtypes import working_dtype
from curta.primitives.composed import Composed
from curta.primitives.elementwise import add, convert_element_type, mul
from curta.primitives.linalg.family import MatrixOp, Shape, in_single
from curta.primitives.linalg.matrices import matmul, swapped
from curta.primitives.structure import instantiate


class CholeskyUpdate(MatrixOp):
    """The upper triangular R' with R'^T R' = R^T R + w w^T."""

    name: ClassVar[str] = "cholesky_update"
    ranks: ClassVar[tuple[int, ...]] = (2, 1)
    accepts: ClassVar[tuple[Any, ...]] = (np.floating,)

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        r, w = shapes
        if r[0] != r[1] or w[0] != r[1]:
            raise ValueError(
                "Rank-1 update to Cholesky decomposition takes a square matrix and a"
                f" vector of the same size as input. Got shapes {r} and {w} instead"
            )
        return [r]

    def eval(self, *args: Any) -> Any:
        r, w = (in_single(x).copy() for x in args)
        for k in range(w.shape[-1]):
            # A rotation of row k and w that leaves nothing of w's element k.
            a, b = r[..., k, k].copy(), w[..., k].copy()
            length = np.where(b == 0, 1, np.hypot(a, b))
            c = np.where(b == 0, 1, a / length)[..., None]
            s = (b / length)[..., None]
            row = r[..., k, :].copy()
            r[..., k, :] = c * row + s * w
            w = c * w - s * row
        return r.astype(args[0].dtype, copy=False)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        fixed = {"constant": True}
        yield cls(), [((3, 3), "float64", fixed), ((3,), "float64", fixed)]
        yield cls(), [((2, 2, 2), "float32", fixed), ((2, 2), "float32", fixed)]


@dataclass(frozen=True)
class SymmetricProduct(Composed, MatrixOp):
    """alpha a a^T + beta c, for symmetric c."""

    name: ClassVar[str] = "symmetric_product"
    ranks: ClassVar[tuple[int, ...]] = (2, 2)
    accepts: ClassVar[tuple[Any, ...]] = (np.floating,)
    alpha: float = 1.0
    beta: float = 0.0

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        a, c = shapes
        if a[0] != c[1] or c[0] != c[1]:
            raise ValueError(
                "symmetric_update expects a rectangular matrix of shape (m, n) and a"
                f" square matrix of shape (m, m). Got shapes {a} and {c}."
            )
        return [c]

    def compose(self, *args: Any) -> Any:
        dtype = working_dtype(typeof(args[1]).dtype)
        a, c = (convert_element_type(x, dtype) for x in args)
        product = mul(matmul(a, swapped(a)), dtype.type(self.alpha))
        out = add(product, mul(c, dtype.type(self.beta)))
        return convert_element_type(out, typeof(args[1]).dtype)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        (a, c), (da, dc) = primals, map(instantiate, tangents)
        out = self(a, c)
        scalar = typeof(a).dtype.type
        change = matmul(da, swapped(a))
        change = mul(add(change, swapped(change)), scalar(self.alpha))
        return out, add(change, mul(dc, scalar(self.beta)))

    @classmethod
    def samples(cls) -> Iterator[Any]:
        for dtype in ("float64", "float32"):
            yield cls(2.0, 0.5), [((3, 2), dtype), ((3, 3), dtype)]
        yield cls(), [((2, 3, 2), "float64"), ((2, 3, 3), "float64")]


@dataclass(frozen=True)
class Ormqr(MatrixOp):
    """Q c, or c Q, with the Q that `Geqrf` gives as reflections; Q^H if `transpose`."""

    name: ClassVar[str] = "ormqr"
    ranks: ClassVar[tuple[int, ...]] = (2, 1, 2)
    param_names: ClassVar[Mapping[str, str | None]] = {"transpose": "transposed"}
    left: bool = True
    transposed: bool = False

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        a, taus, c = shapes
        if self.left and c[0] != a[0]:
            raise ValueError(
                "ormqr with left=True expects c to have the same number of rows as the"
                f" Householder matrix a. Got a shape {a} and c shape {c}."
            )
        if not self.left and c[1] != a[0]:
            raise ValueError(
                "ormqr with left=False expects c to have the same number of columns as"
                f" the Householder matrix a has rows. Got a shape {a} and c shape {c}."
            )
        if taus[0] > min_dim(*a):
            raise ValueError(
                "ormqr expects no more factors of reflections than the Householder"
                f" matrix a has rows or columns. Got a shape {a} and taus shape {taus}."
            )
        return [c]

    def eval(self, *args: Any) -> Any:
        a, taus, c = (in_single(x) for x in args)
        # From the right it is the adjoint, of which the rows are taken from the left.
        out = c.copy() if self.left else c.conj().swapaxes(-1, -2).copy()
        adjoint = self.transposed if self.left else not self.transposed
        count = taus.shape[-1]
        for i in range(count) if adjoint else reversed(range(count)):
            v = a[..., i:, i : i + 1].copy()
            v[..., 0, :] = 1
            tau = taus[..., i, None, None]
            part = out[..., i:, :]
            inner = v.conj().swapaxes(-1, -2) @ part
            part -= (tau.conj() if adjoint else tau) * (v @ inner)
        out = out if self.left else out.conj().swapaxes(-1, -2)
        return np.ascontiguousarray(out, args[2].dtype)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        fixed = {"constant": True}
        for dtype in ("float64", "complex64"):
            for left in (True, False):
                for transposed in (True, False):
                    c = (3, 4) if left else (4, 3)
                    operands = [((3, 2), dtype, fixed), ((2,), dtype, fixed)]
                    yield cls(left, transposed), [*operands, (c, dtype, fixed)]
