"""Matrices decomposed by loops, many at a time over lanes, or a small one by itself.

They are too small for LAPACK to be worth its calls. The ops stay themselves, on as many
matrices as before, and are loop programs (linalg/loops.py): a block of as many matrices
as a vector has lanes is transposed, so that a vector has the same element of each; the
loops of an algorithm run on it; and what they make is transposed back. A last block
that is not full overlaps the one before it. Of one matrix a row is a vector. Loops over
small matrices are written out, in registers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, cast

import numpy as np

from curta.compiler.graph.item_builder import ItemBuilder
from curta.compiler.graph.items import RegionItem
from curta.compiler.graph.routines import in_memory
from curta.compiler.linalg.algorithms import ALGORITHMS, Algorithm
from curta.compiler.linalg.loop_matrices import LoopMatrix, MemoryMatrix, RegisterMatrix
from curta.compiler.linalg.loops import LoopMachine
from curta.compiler.linalg.programs import qr, staged_in_single
from curta.compiler.loops.element_types import INT32
from curta.compiler.loops.index import LoopVar, as_index
from curta.compiler.loops.nodes import Buffer, Region, View
from curta.compiler.targets import Target
from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, Eqn
from curta.core.memo import kept_by_settings
from curta.core.op import Op
from curta.lazy_dataclass import dataclass
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


def matrix_loop_item(lowering: ItemBuilder, eqn: Eqn) -> None:
    """Add the item of a `MatrixLoops`."""
    op = cast(MatrixLoops, eqn.op).op
    avals = [v.aval for v in eqn.invars]
    batch, _ = batch_and_ends(op, avals)
    count, dtype = math.prod(batch), avals[0].dtype
    algorithm = algorithm_of(op, avals)
    operands = tuple(in_memory(lowering, v) for v in eqn.invars)
    results = lowering.results(eqn)
    lanes, strip = _vectors(op, avals, lowering.target)
    block = LoopVar("block", -(-count // lanes))
    chunk = LoopVar("chunk", _chunks(algorithm, count, block.extent, dtype))
    b = lowering.builder
    first = as_index(block) * lanes
    if count % lanes:
        last = b.const(count - lanes, np.int64)
        first = b.min(b.index_value(first), last).as_index()

    def rows(array: Buffer) -> Buffer:
        size = array.size // count
        return Buffer(array.name, array.dtype, lanes * size, View(array, first * size))

    unrolled = _fit_registers(algorithm) if lanes > 1 else is_small(op, avals)
    machine = LoopMachine(b, dtype, unrolled, lanes, strip)
    # A matrix that is alone is changed where the result lies.
    written = dict(zip(algorithm.results, map(rows, results), strict=True))
    there = written if lanes == 1 and not unrolled else {}
    arrays, memory = _matrices(lowering, machine, algorithm, chunk, there)
    for i, operand in zip(algorithm.operands, operands, strict=True):
        arrays[i].read(rows(operand))
    algorithm.function(machine, *arrays, *algorithm.options)
    for i, result in written.items():
        if i not in there:
            arrays[i].write(result)
    region = Region(tuple(machine.body), None, block, chunk)
    lowering.items.append(RegionItem(eqn, operands, results, region, memory))


def _fit_registers(algorithm: Algorithm) -> bool:
    """Whether registers have room for the matrices of a block."""
    tuning, (first, *_) = config.tuning, algorithm.arrays
    if max(first.shape) > tuning.register_matrix:
        return False
    return all(math.prod(a.shape) <= tuning.lane_vectors for a in algorithm.arrays)


def _matrices(
    lowering: ItemBuilder,
    machine: LoopMachine,
    algorithm: Algorithm,
    chunk: LoopVar,
    there: dict[int, Buffer],
) -> tuple[list[LoopMatrix], tuple[Buffer, ...]]:
    """The matrices of a block, and the memory in which each chunk has its own.

    Some are `there`.
    """
    matrices: list[LoopMatrix] = []
    memory: list[Buffer] = []
    for i, array in enumerate(algorithm.arrays):
        dtype = INT32 if array.integer else machine.dtype
        given = machine, array.shape, dtype, array.view
        if machine.unrolled:
            matrices.append(RegisterMatrix(machine.lanes == 1, *given))
            continue
        if i in there:
            matrices.append(MemoryMatrix(there[i], *given))
            continue
        size = math.prod(array.shape) * machine.lanes
        aval = ShapedArray((chunk.extent, size), dtype)
        memory.append(lowering.new_buffer(aval, f"matrices{len(memory)}"))
        whole = memory[-1]
        size = whole.size // chunk.extent
        own = Buffer(whole.name, whole.dtype, size, View(whole, as_index(chunk) * size))
        matrices.append(MemoryMatrix(own, *given))
    return matrices, tuple(memory)


def _chunks(algorithm: Algorithm, count: int, blocks: int, dtype: Any) -> int:
    """How many blocks are worked on at a time, in memory of their own."""
    work = count * algorithm.work * (4 if dtype.kind == "c" else 1)
    most = min(blocks, config.tuning.lane_chunks)
    return max(1, min(most, work // config.tuning.lane_chunk_work))


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
    if not only_here and not _are_lanes(op, avals, target) and not is_small(op, avals):
        return None
    return _in_lanes(op, tuple(a.strip_weak_type() for a in avals))


def _vectors(
    op: MatrixOp, avals: Sequence[ShapedArray], target: Target
) -> tuple[int, int]:
    """The lanes, of a matrix each, or one, and the columns of a strip."""
    strip = target.lanes(_KINDS[avals[0].dtype.char])
    if not _are_lanes(op, avals, target) and not is_small(op, avals):
        return 1, strip
    batch, _ = batch_and_ends(op, avals)
    return 1 << (min(math.prod(batch), strip).bit_length() - 1), strip


def algorithm_of(op: MatrixOp, avals: Sequence[ShapedArray]) -> Algorithm:
    """The algorithm for one matrix of a batch; vectors are columns."""
    _, ends = batch_and_ends(op, avals)
    return ALGORITHMS[type(op)](op, *(e if e[1:] else (*e, 1) for e in ends))


def is_small(op: MatrixOp, avals: Sequence[ShapedArray]) -> bool:
    """Whether loops over a matrix are worth being written out, even if it is alone."""
    _, ends = batch_and_ends(op, avals)
    return type(op) in _WRITTEN_OUT and all(
        d <= config.tuning.small_matrix for end in ends for d in end
    )


def _are_lanes(op: MatrixOp, avals: Sequence[ShapedArray], target: Target) -> bool:
    """Whether there are many matrices, and not too large for a lane."""
    batch, ends = batch_and_ends(op, avals)
    lanes = target.lanes("f64" if avals[0].dtype.char in "dD" else "f32")
    many = lanes > 1 and math.prod(batch) >= config.tuning.lane_blocks * lanes
    if 1 in op.ranks[:-1]:  # given by diagonals, of any length that lies near
        fits = sum(map(math.prod, ends)) <= config.tuning.lane_matrix_elements
    else:
        fits = all(d <= config.tuning.lane_matrix for end in ends for d in end)
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
