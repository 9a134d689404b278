"""Many small matrices decomposed at a time: each is a lane of vectors.

LAPACK takes longer to begin with a matrix of 4 by 4 than to decompose it. Here the
steps are written out (small_matrices.py) and done to as many matrices as a vector has
lanes, without leaving the registers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from curta.compiler.graph.batch_vectorisation import batch_code
from curta.compiler.graph.item_builder import ItemBuilder
from curta.compiler.graph.items import RegionItem
from curta.compiler.graph.small_matrices import expanded
from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, Eqn
from curta.core.memo import kept_by_settings
from curta.core.op import Op
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.lazy_dataclass import dataclass
from curta.primitives.linalg.family import MatrixOp
from curta.primitives.structure import Reshape


@dataclass(frozen=True)
class BatchedMatrixOp(Op):
    """An op on a batch of matrices that is vectorised over the batch."""

    multiple_results: ClassVar[bool] = True
    op: Op

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        outs = self.op.aval(*avals)
        return outs if self.op.multiple_results else [outs]

    def eval(self, *args: Any) -> Any:
        outs = self.op.eval(*args)
        return outs if self.op.multiple_results else [outs]


@dataclass(frozen=True)
class BatchedSmallMatrices(BatchedMatrixOp):
    """The same for small matrices; each along the first dim is a lane of vectors."""

    name: ClassVar[str] = "batched_small_matrices"


def matrix_program(op: MatrixOp, avals: Sequence[ShapedArray]) -> ClosedJaxpr | None:
    """The jaxpr of an op by lanes; None if the shapes do not suit it."""
    if expanded(op, avals) is None:
        return None
    batch = avals[0].shape[: avals[0].ndim - op.ranks[0]]
    count = math.prod(batch)
    outs = op.aval(*avals)
    values = (*avals, *(outs if op.multiple_results else [outs]))
    if count < config.tuning.fewest_lanes or any(
        a.size > count * config.tuning.lane_vectors for a in values
    ):
        return None
    return _staged(op, tuple(avals), batch)


@kept_by_settings(maxsize=256)
def _staged(
    op: Any, avals: tuple[ShapedArray, ...], batch: tuple[int, ...]
) -> ClosedJaxpr:
    count = math.prod(batch)

    def run(*args: Any) -> Sequence[Any]:
        flat = [
            Reshape((count, *typeof(x).shape[typeof(x).ndim - rank :]))(x)
            for x, rank in zip(args, op.ranks, strict=True)
        ]
        return [
            Reshape((*batch, *typeof(x).shape[1:]))(x)
            for x in BatchedSmallMatrices(op)(*flat)
        ]

    return stage(run, avals)


def batched_matrices_item(lowering: ItemBuilder, eqn: Eqn) -> bool:
    """Add the item of a `BatchedSmallMatrices`, if it can be code in registers."""
    closed = expanded(eqn.op.op, [v.aval for v in eqn.invars])  # type: ignore[attr-defined]
    buffers = [lowering.buffer_of(v) for v in eqn.invars]
    operands = tuple(b for b in buffers if b is not None)
    if closed is None or len(operands) < len(buffers):
        return False
    results = tuple(
        lowering.new_buffer(v.aval, f"lanes{i}") for i, v in enumerate(eqn.outvars)
    )
    code = batch_code(closed, eqn, operands, results)
    if code is None:
        return False
    lowering.buffers.update(zip(eqn.outvars, results, strict=True))
    lowering.items.append(RegionItem(eqn, operands, results, code))
    return True
