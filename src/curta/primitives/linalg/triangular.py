"""Equations with triangular matrices."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.config import config
from curta.core.op import BatchDims, Batched
from curta.core.tangents import Zero, is_linear
from curta.core.trace import typeof
from curta.primitives.elementwise import neg
from curta.primitives.linalg.family import MatrixOp, Shape, in_single
from curta.primitives.linalg.matrices import conjugate, matmul, swapped, tril, triu
from curta.primitives.structure import add_tangents, move_dim, reshape, zero_like_output
from curta.primitives.taylor import sum_of_products, total


@dataclass(frozen=True)
class TriangularSolve(MatrixOp):
    """x of `op(a) x = b`, or of `x op(a) = b` if not `left_side`.

    Only the lower triangle of a is read if `lower`, else the upper one, and not its
    diagonal if `unit_diagonal`; op transposes or conjugates it.
    """

    name: ClassVar[str] = "triangular_solve"
    ranks: ClassVar[tuple[int, ...]] = (2, 2)
    param_names: ClassVar[Mapping[str, str | None]] = {"lower": "lower_triangle"}
    left_side: bool = False
    lower_triangle: bool = False
    transpose_a: bool = False
    conjugate_a: bool = False
    unit_diagonal: bool = False

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        a, b = shapes
        if a[0] != a[1]:
            raise ValueError(
                "The first input to triangular_solve must be a square matrix. Got shape"
                f" {a}."
            )
        if a[1] != b[0 if self.left_side else 1]:
            raise ValueError(
                f"Incompatible shapes for arguments to triangular_solve: {a} and {b}."
            )
        return [b]

    def eval(self, *args: Any) -> Any:
        a, b = map(in_single, args)
        if self.conjugate_a:
            a = a.conj()
        lower = self.lower_triangle != self.transpose_a
        if self.transpose_a:
            a = a.swapaxes(-1, -2)
        if not self.left_side:  # x a = b is a^T x^T = b^T
            a, b, lower = a.swapaxes(-1, -2), b.swapaxes(-1, -2), not lower
        if lower:
            x = _forward(a, b, self.unit_diagonal)
        else:  # in reverse order the upper triangle is a lower one
            a, b = a[..., ::-1, ::-1], b[..., ::-1, :]
            x = _forward(a, b, self.unit_diagonal)[..., ::-1, :]
        x = x if self.left_side else x.swapaxes(-1, -2)
        return np.ascontiguousarray(x, args[1].dtype)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        (a, b), (da, db) = primals, tangents
        x = self(a, b)
        tangent: Any = zero_like_output(x)
        if type(da) is not Zero:
            tangent = self._moved_by(a, da, x)
        if type(db) is not Zero:
            tangent = add_tangents(tangent, self(a, db))
        return x, tangent

    def taylor(self, k: int, out: Sequence[Any], *series: Sequence[Any]) -> Any:
        a, b = series  # op(a) out = b

        def product(da: Any, x: Any) -> Any:
            da = self._negated(da)
            return matmul(da, x) if self.left_side else matmul(x, da)

        rest = sum_of_products(product, [(a[k - i], out[i]) for i in range(k)])
        rest = total([b[k], rest])
        return None if rest is None else self(a[0], rest)

    def _negated(self, da: Any) -> Any:
        """-op(da)."""
        off = 1 if self.unit_diagonal else 0
        da = neg(tril(da, -off) if self.lower_triangle else triu(da, off))
        da = swapped(da) if self.transpose_a else da
        return conjugate(da) if self.conjugate_a else da

    def _moved_by(self, a: Any, da: Any, x: Any) -> Any:
        """-op(a)^-1 op(da) x, the products in the cheaper order."""
        da = self._negated(da)
        m, n = typeof(x).shape[-2:]
        if self.left_side:
            return self(a, matmul(da, x)) if m > n else matmul(self(a, da), x)
        return self(a, matmul(x, da)) if m < n else matmul(x, self(a, da))

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        a, b = args
        assert is_linear(b) and not is_linear(a)
        op = dataclasses.replace(self, transpose_a=not self.transpose_a)
        return [None, op(a, cotangent)]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (a, b), (a_dim, b_dim) = args, dims
        if a_dim is not None or typeof(a).ndim > 2 or typeof(b).ndim > 3:
            return super().batch(axis, args, dims)
        # One matrix for all: the batch becomes more columns (or rows) of b.
        dim = 1 if self.left_side else 0
        b = move_dim(b, b_dim, dim)
        shape = typeof(b).shape
        if self.left_side:
            flat = (shape[0], shape[1] * shape[2])
        else:
            flat = (shape[0] * shape[1], shape[2])
        return reshape(self(a, reshape(b, flat)), shape), dim

    @classmethod
    def samples(cls) -> Iterator[Any]:
        away = {"low": 0.5, "high": 2.0}
        for dtype in ("float64", "complex128"):
            yield cls(True, True), [((3, 3), dtype, away), ((3, 2), dtype)]
            yield cls(True, False), [((2, 2), dtype, away), ((2, 3), dtype)]
            yield (
                cls(False, True, True, True, True),
                [((2, 3, 3), dtype, away), ((2, 2, 3), dtype)],
            )
        yield cls(False, False, True), [((2, 2), "float32", away), ((4, 2), "float32")]
        yield cls(True), [((0, 0), "float32"), ((0, 2), "float32")]
        yield cls(True), [((1, 1), "float16", away), ((1, 2), "float16")]


def _forward(a: Any, b: Any, unit_diagonal: bool) -> Any:
    """x of a x = b by substitution, reading the lower triangle of a."""
    x = b.copy()
    size = a.shape[-1]
    with np.errstate(all="ignore"):
        block = config.tuning.triangular_block
        for start in range(0, size, block):
            stop = min(start + block, size)
            if start:
                known = a[..., start:stop, :start] @ x[..., :start, :]
                x[..., start:stop, :] -= known
            for i in range(start, stop):
                row = x[..., i : i + 1, :]
                if i > start:
                    row -= a[..., i : i + 1, start:i] @ x[..., start:i, :]
                if not unit_diagonal:
                    row /= a[..., i : i + 1, i : i + 1]
    return x
