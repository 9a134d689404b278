"""Small matrices inside of loops in registers: their algorithms, written out.

The matrices of a batch come one after the other, but each of many examples has a lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta.compiler.linalg.loop_matrices import RegisterMatrix
from curta.compiler.linalg.loops import LoopMachine
from curta.compiler.loops.build import CannotUseRegisters
from curta.compiler.loops.element_types import INT32
from curta.compiler.loops.index import as_index, row_major
from curta.compiler.lower.register_blocks import RegisterBlocks
from curta.compiler.rewrite.matrix_loops import (
    MatrixLoops,
    algorithm_of,
    batch_and_ends,
    is_small,
)
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom
from curta.primitives.linalg.family import MatrixOp

Index = tuple[Any, ...]
Elements = Callable[[Any, Any], Any]
"""From a row and a column to the element."""


def decomposed(
    lowering: RegisterBlocks,
    loops: MatrixLoops,
    args: Sequence[Atom],
    avals: Sequence[ShapedArray],
) -> list[Atom]:
    """The results, which have these avals.

    Raises:
        CannotUseRegisters: the matrices are too large.
    """
    op, given = loops.op, [a.aval for a in args]
    if not is_small(op, given, lowering.tuning):
        raise CannotUseRegisters(f"matrices of {given[0].shape}")
    batch, _ = batch_and_ends(op, given)
    made = {at: _one(lowering, op, args, at) for at in lowering.indices(batch)}

    def element(result: int, index: Index) -> Any:
        b, rank = lowering.builder, len(batch)
        here, place = row_major(index[:rank], batch), (*index[rank:], 0, 0)[:2]
        value = None
        for at, elements in made.items():
            there, x = row_major(at, batch), elements[result](*place)
            if value is None or here == there:
                value = x
            elif not lowering.examples:
                value = b.select(b.compare("eq", here, there), x, value)
        return value

    return [
        lowering.computed(aval, args, lambda index, k=k: element(k, index))
        for k, aval in enumerate(avals)
    ]


def _one(
    lowering: RegisterBlocks, op: MatrixOp, args: Sequence[Atom], at: Index
) -> list[Elements]:
    """The statements for one matrix of a batch; what gives elements of the results."""
    algorithm = algorithm_of(op, [a.aval for a in args])
    machine = LoopMachine(
        lowering.builder, args[0].aval.dtype, lowering.tuning, unrolled=True
    )
    if any(as_index(i) == as_index(lane) for i in at for lane in lowering.examples):
        machine.dims = lowering.examples
    matrices = []
    for array in algorithm.arrays:
        dtype = INT32 if array.integer else machine.dtype
        given = machine, array.shape, dtype, array.view
        matrices.append(RegisterMatrix(not lowering.examples, *given))
    for i, operand in zip(algorithm.operands, args, strict=True):
        matrices[i].take(_elements(lowering, operand, at))
    algorithm.function(machine, *matrices, *algorithm.options)
    level = lowering.level(*args)
    for statement in machine.body:
        lowering.add(statement, level)
    return [matrices[i].given() for i in algorithm.results]


def _elements(lowering: RegisterBlocks, operand: Atom, at: Index) -> Elements:
    """Those of a matrix, or vector, of a batch."""
    rank = operand.aval.ndim - len(at)
    return lambda i, j: lowering.elements.at(operand, (*at, *(i, j)[:rank]))
