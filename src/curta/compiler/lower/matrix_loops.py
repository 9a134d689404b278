"""Items of matrix ops as loop programs (linalg/loops.py).

Many matrices are decomposed at a time, over lanes: a block of as many matrices
as a vector has lanes is transposed, so that a vector has the same element of each; the
loops of an algorithm run on it; and what they make is transposed back. A last block
that is not full overlaps the one before it. Of one matrix a row is a vector. Loops over
small matrices are written out, in registers.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from curta.compiler.linalg.algorithms import Algorithm
from curta.compiler.linalg.loop_matrices import LoopMatrix, MemoryMatrix, RegisterMatrix
from curta.compiler.linalg.loops import LoopMachine
from curta.compiler.loops.element_types import INT32
from curta.compiler.loops.index import LoopVar, as_index
from curta.compiler.loops.nodes import Buffer, Region, View
from curta.compiler.lower.item_builder import ItemBuilder
from curta.compiler.lower.items import RegionItem
from curta.compiler.lower.routines import in_memory
from curta.compiler.rewrite.matrix_loops import (
    MatrixLoops,
    algorithm_of,
    batch_and_ends,
    is_small,
    vectors_of,
)
from curta.compiler.targets import Tuning
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Eqn


def matrix_loop_item(lowering: ItemBuilder, eqn: Eqn) -> None:
    """Add the item of a `MatrixLoops`."""
    op = cast(MatrixLoops, eqn.op).op
    avals = [v.aval for v in eqn.invars]
    batch, _ = batch_and_ends(op, avals)
    count, dtype = math.prod(batch), avals[0].dtype
    algorithm = algorithm_of(op, avals)
    operands = tuple(in_memory(lowering, v) for v in eqn.invars)
    results = lowering.results(eqn)
    lanes, strip = vectors_of(op, avals, lowering.target)
    block = LoopVar("block", -(-count // lanes))
    chunk = LoopVar("chunk", _chunks(lowering, algorithm, count, block.extent, dtype))
    b = lowering.builder
    first = as_index(block) * lanes
    if count % lanes:
        last = b.const(count - lanes, np.int64)
        first = b.min(b.index_value(first), last).as_index()

    def rows(array: Buffer) -> Buffer:
        size = array.size // count
        return Buffer(array.name, array.dtype, lanes * size, View(array, first * size))

    unrolled = (
        _fit_registers(algorithm, lowering.tuning)
        if lanes > 1
        else is_small(op, avals, lowering.tuning)
    )
    machine = LoopMachine(b, dtype, lowering.tuning, unrolled, lanes, strip)
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


def _fit_registers(algorithm: Algorithm, tuning: Tuning) -> bool:
    """Whether registers have room for the matrices of a block."""
    first, *_ = algorithm.arrays
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


def _chunks(
    lowering: ItemBuilder, algorithm: Algorithm, count: int, blocks: int, dtype: Any
) -> int:
    """How many blocks are worked on at a time, in memory of their own."""
    work = count * algorithm.work * (4 if dtype.kind == "c" else 1)
    most = min(blocks, lowering.tuning.lane_chunks)
    return max(1, min(most, work // lowering.tuning.lane_chunk_work))
