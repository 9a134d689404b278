"""The Schur decomposition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from curta._base.lazy_dataclass import dataclass
from curta.primitives.linalg.family import MatrixOp, Shape, by_lapack, require_square


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
        return by_lapack(self, args)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        fixed = {"constant": True}
        for dtype in ("float64", "complex64"):
            yield cls(), [((3, 3), dtype, fixed)]
            yield cls(False), [((2, 2, 2), dtype, fixed)]
        yield cls(), [((0, 0), "float32", fixed)]
