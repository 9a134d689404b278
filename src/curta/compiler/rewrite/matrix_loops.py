"""Matrices decomposed by loops, many at a time over lanes, or a small one by itself.

They are too small for LAPACK to be worth its calls. The ops stay themselves, on as many
matrices as before (lower/matrix_loops.py makes their loop programs).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from curta._base.lazy_dataclass import dataclass
from curta.compiler.linalg.algorithms import ALGORITHMS, Algorithm
from curta.compiler.linalg.programs import qr, staged_in_single
from curta.compiler.targets import Target, Tuning
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.memo import kept_by_settings
from curta.core.op import Op
from curta.primitives.linalg.cholesky import Cholesky
from curta.primitives.linalg.family import MatrixOp
from curta.primitives.linalg.lu import LU, LUPivotsToPermutation
from curta.primitives.linalg.qr import QR, Geqrf, HouseholderProduct
from curta.primitives.linalg.triangular import TriangularSolve
from curta.primitives.linalg.tridiagonal import TridiagonalSolve
from curta.primitives.linalg.updates import CholeskyUpdate

_KINDS = {"f": "f32", "d": "f64", "F": "f32", "D": "f64", "i": "i32"}


@dataclass(frozen=True)
class MatrixLoops(Op):
    """An op on matrices, as a loop program."""

    name: ClassVar[str] = "matrix_loops"
    multiple_results: ClassVar[bool] = True
    op: MatrixOp

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        outs = self.op.aval(*avals)
        return outs if self.op.multiple_results else [outs]

    def eval(self, *args: Any) -> Any:
        outs = self.op.eval(*args)
        return outs if self.op.multiple_results else [outs]


def matrix_loop(
    op: MatrixOp, avals: Sequence[ShapedArray], target: Target
) -> ClosedJaxpr | None:
    """The jaxpr that does an op by loops over lanes; None if LAPACK does better."""
    rule = _RULES.get(type(op))
    if rule is None or op.params().get("pivoting"):
        return None
    if not all(0 < d for a in avals for d in a.shape):
        return None
    # LAPACK has none of these, and does not perturb.
    only_here = type(op) in (CholeskyUpdate, LUPivotsToPermutation)
    only_here |= bool(op.params().get("perturb_singular"))
    if (
        not only_here
        and not _are_lanes(op, avals, target)
        and not is_small(op, avals, target.tuning)
    ):
        return None
    return _in_lanes(op, tuple(a.strip_weak_type() for a in avals))


def vectors_of(
    op: MatrixOp, avals: Sequence[ShapedArray], target: Target
) -> tuple[int, int]:
    """The lanes, of a matrix each, or one, and the columns of a strip."""
    strip = target.lanes(_KINDS[avals[0].dtype.char])
    if not _are_lanes(op, avals, target) and not is_small(op, avals, target.tuning):
        return 1, strip
    batch, _ = batch_and_ends(op, avals)
    return 1 << (min(math.prod(batch), strip).bit_length() - 1), strip


def algorithm_of(op: MatrixOp, avals: Sequence[ShapedArray]) -> Algorithm:
    """The algorithm for one matrix of a batch; vectors are columns."""
    _, ends = batch_and_ends(op, avals)
    return ALGORITHMS[type(op)](op, *(e if e[1:] else (*e, 1) for e in ends))


def is_small(op: MatrixOp, avals: Sequence[ShapedArray], tuning: Tuning) -> bool:
    """Whether loops over a matrix are worth being written out, even if it is alone."""
    _, ends = batch_and_ends(op, avals)
    return type(op) in _WRITTEN_OUT and all(
        d <= tuning.small_matrix for end in ends for d in end
    )


def _are_lanes(op: MatrixOp, avals: Sequence[ShapedArray], target: Target) -> bool:
    """Whether there are many matrices, and not too large for a lane."""
    batch, ends = batch_and_ends(op, avals)
    lanes = target.lanes("f64" if avals[0].dtype.char in "dD" else "f32")
    many = lanes > 1 and math.prod(batch) >= target.tuning.lane_blocks * lanes
    if 1 in op.ranks[:-1]:  # given by diagonals, of any length that lies near
        fits = sum(map(math.prod, ends)) <= target.tuning.lane_matrix_elements
    else:
        fits = all(d <= target.tuning.lane_matrix for end in ends for d in end)
    return many and fits


def batch_and_ends(
    op: MatrixOp, avals: Sequence[ShapedArray]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The dims of the batch, and those of one matrix of each operand."""
    ranks = op.ranks
    batch = avals[0].shape[: avals[0].ndim - ranks[0]]
    ends = [a.shape[a.ndim - r :] for a, r in zip(avals, ranks, strict=True)]
    return batch, ends


@kept_by_settings(maxsize=256)
def _in_lanes(op: Op, avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    return staged_in_single(_RULES[type(op)], op, avals)


def _itself(op: MatrixOp, *args: Any) -> Sequence[Any]:
    return MatrixLoops(op)(*args)


def _reduced(a: Any) -> Sequence[Any]:
    return _itself(Geqrf(), a)


def _product(*args: Any) -> Any:
    return _itself(HouseholderProduct(), *args)[0]


_WRITTEN_OUT = (
    Cholesky,
    LU,
    LUPivotsToPermutation,
    TriangularSolve,
    Geqrf,
    HouseholderProduct,
    QR,
)

_RULES: dict[type[Op], Callable[..., Sequence[Any]]] = {
    **dict.fromkeys((Cholesky, LU, LUPivotsToPermutation, TriangularSolve), _itself),
    **dict.fromkeys((Geqrf, HouseholderProduct, TridiagonalSolve), _itself),
    CholeskyUpdate: _itself,
    QR: lambda op, a: qr(op, a, _reduced, _product),
}
