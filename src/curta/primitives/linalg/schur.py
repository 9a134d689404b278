"""The Schur decomposition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta.lazy_dataclass import dataclass
from curta.primitives.linalg import lapack
from curta.primitives.linalg.family import (
    MatrixOp,
    Shape,
    in_single,
    nan_like,
    require_square,
)


@dataclass(frozen=True)
class Schur(MatrixOp):
    """The triangular T and the unitary Z of a = Z T Z^H; only T if not asked for Z.

    Of a real matrix T is real, with 2x2 blocks on the diagonal where eigenvalues are
    complex.
    """

    name: ClassVar[str] = "schur"
    multiple_results: ClassVar[bool] = True
    compute_schur_vectors: bool = True
    sort_eig_vals: bool = False
    select_callable: Any = None

    def out_shapes(self, *shapes: Shape) -> Sequence[Shape]:
        require_square(self.name, shapes[0])
        return [shapes[0]] * (1 + self.compute_schur_vectors)

    def out_dtypes(self, dtype: Any) -> Sequence[Any]:
        return [dtype] * (1 + self.compute_schur_vectors)

    def eval(self, *args: Any) -> Any:
        (x,) = args
        outs = lapack.each(_decompose, in_single(x))
        kept = outs[: 1 + self.compute_schur_vectors]
        return [out.astype(x.dtype, copy=False) for out in kept]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        fixed = {"constant": True}
        for dtype in ("float64", "complex64"):
            yield cls(), [((3, 3), dtype, fixed)]
            yield cls(False), [((2, 2, 2), dtype, fixed)]
        yield cls(), [((0, 0), "float32", fixed)]


def _decompose(a: Any) -> tuple[Any, Any]:
    n, dtype = a.shape[0], a.dtype
    t = np.array(a, order="F")
    z = np.zeros_like(t)
    w = np.zeros(max(n, 1), dtype)
    real = np.zeros(max(n, 1), w.real.dtype)
    # The routine gives real and imaginary parts apart where the matrix is real.
    values = (w,) if dtype.kind == "c" else (w, w.copy())
    extra = (real,) if dtype.kind == "c" else ()
    sorted_ = np.zeros(1, np.int32)
    head = (b"V", b"N", None, n, t, max(n, 1), sorted_, *values, z, max(n, 1), "work")
    failed = n and lapack.call_with_workspace("gees", dtype, *head, *extra, None)
    if failed:
        return nan_like(t), nan_like(z)
    return t, z
