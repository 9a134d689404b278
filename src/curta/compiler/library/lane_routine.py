"""Many matrices factored at a time, a matrix in every lane of the vectors.

LAPACK takes a matrix after the other; where they are small it mostly begins and ends.
Here a block of as many matrices as a vector has lanes is transposed, so that a vector
has the same element of each; the loops of an algorithm run on it; and what they make
is transposed back. A last block that is not full overlaps the one before it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from curta.compiler.library.lane_matrices import LaneMachine, View
from curta.compiler.library.lane_numbers import LaneNumbers
from curta.compiler.library.packing import transpose_rows
from curta.compiler.library.routine import Routine, emit_chunks
from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.types import I8, I32, I64, PTR, Type, Value
from curta.config import config
from curta.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Array:
    """A matrix in memory, of numbers or of 32-bit integers, and how it is seen."""

    shape: tuple[int, int]
    integer: bool = False
    view: View = View()

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]


@dataclass(frozen=True)
class LaneAlgorithm:
    """An algorithm of linalg/ on matrices in memory.

    `operands` and `results` are the arrays that begin and end as each of them; `work`
    is roughly how many operations it takes.
    """

    function: Callable[..., None]
    arrays: tuple[Array, ...]
    operands: tuple[int, ...]
    results: tuple[int, ...]
    work: int
    options: tuple[bool, ...] = ()

    def emit(self, m: LaneNumbers, pointers: Sequence[Value]) -> None:
        """Add the code."""
        machine = LaneMachine(m)
        matrices = [
            machine.matrix(pointer, array.shape, array.integer, array.view)
            for pointer, array in zip(pointers, self.arrays, strict=True)
        ]
        self.function(machine, *matrices, *self.options)


@dataclass(frozen=True)
class LaneRoutine(Routine):
    """An algorithm on each matrix of a batch, of numbers with one part or two.

    `batch` is at least `lanes`.
    """

    algorithm: LaneAlgorithm
    batch: int
    kind: str
    parts: int
    lanes: int

    @property
    def work(self) -> int:
        """Roughly how many operations it takes."""
        return self.batch * self.algorithm.work * self.parts**2

    @property
    def chunks(self) -> int:
        """How many blocks are worked on at a time, in memory of their own."""
        most = min(-(-self.batch // self.lanes), config.tuning.lane_chunks)
        return max(1, min(most, self.work // config.tuning.lane_chunk_work))

    @property
    def spaces(self) -> list[int]:
        """Where the arrays of a block begin, and where the last one ends."""
        size = self.parts * Type(self.kind).size * self.lanes
        own = [
            array.size * (4 * self.lanes if array.integer else size)
            for array in self.algorithm.arrays
        ]
        return [0, *accumulate(-(-n // 64) * 64 for n in own)]

    @property
    def scratch(self) -> int:
        """The bytes of memory it needs."""
        return self.chunks * self.spaces[-1]

    @property
    def transposed(self) -> Sequence[Type]:
        """The vectors of blocks that are transposed."""
        return (Type(self.kind, self.lanes),)

    def emit(self, module: Module, name: str) -> None:
        """Add `void name(ptr results.., operands.., scratch, parallel_for)`."""
        block = self._block(module)
        algorithm = self.algorithm
        count = len(algorithm.results) + len(algorithm.operands)
        b = module.function("matrices", [PTR, I64], exported=False)
        table, chunk = b.arguments
        *pointers, scratch = (
            b.load(PTR, b.offset(table, i, PTR)) for i in range(count + 1)
        )
        memory = b.offset(scratch, chunk * self.spaces[-1], I8)
        blocks = -(-self.batch // self.lanes)
        first, last = (b.udiv((chunk + i) * blocks, self.chunks) for i in (0, 1))
        with b.loop(first, last) as loop:
            start = b.min(loop.index * self.lanes, self.batch - self.lanes)
            b.call(block, None, start, memory, *pointers)
        b.ret()
        emit_chunks(module, name, b.name, count + 1, self.chunks)

    def _block(self, module: Module) -> str:
        """`void block(i64 start, ptr memory, ptr results.., operands..)`."""
        algorithm = self.algorithm
        count = len(algorithm.results)
        pointers = [PTR] * (count + len(algorithm.operands))
        b = module.function("block", [I64, PTR, *pointers], exported=False)
        start, memory, *given = b.arguments
        arrays = [b.offset(memory, at, I8) for at in self.spaces[:-1]]
        for i, source in zip(algorithm.operands, given[count:], strict=True):
            vector, size = self._rows(i)
            row = b.offset(source, start * size, vector.with_lanes(1))
            _read(b, vector, arrays[i], row, size)
        vector = Type(self.kind, self.lanes)
        algorithm.emit(LaneNumbers(b, vector, self.parts), arrays)
        for i, result in zip(algorithm.results, given[:count], strict=True):
            vector, size = self._rows(i)
            row = b.offset(result, start * size, vector.with_lanes(1))
            _write(b, vector, row, arrays[i], size)
        b.ret()
        return b.name

    def _rows(self, array: int) -> tuple[Type, int]:
        """The vectors of an array, and how many a matrix has."""
        given = self.algorithm.arrays[array]
        if given.integer:
            return I32.with_lanes(self.lanes), given.size
        return Type(self.kind, self.lanes), given.size * self.parts


def _read(b: Builder, vector: Type, to: Value, source: Value, size: int) -> None:
    """Make columns of as many rows as there are lanes."""
    lanes, element = vector.lanes, vector.with_lanes(1)
    if size >= lanes:
        return transpose_rows(b, vector, (to, lanes), (source, size), size)
    with b.loop(0, size) as loop:
        column = b.strided(b.offset(source, loop.index, element), size, vector)
        address = b.offset(to, loop.index * lanes, element)
        b.store(b.gather(vector, column), address)
    return None


def _write(b: Builder, vector: Type, to: Value, source: Value, size: int) -> None:
    """Make rows of as many columns as there are lanes."""
    lanes, element = vector.lanes, vector.with_lanes(1)
    if size < lanes or not vector.is_float:
        with b.loop(0, size) as loop:
            address = b.offset(source, loop.index * lanes, element)
            column = b.strided(b.offset(to, loop.index, element), size, vector)
            b.scatter(b.load(vector, address), column)
        return
    with b.loop(0, -(-size // lanes)) as loop:
        first = b.min(loop.index * lanes, size - lanes)
        square = b.offset(source, first * lanes, element)
        row = b.offset(to, first, element)
        transpose_rows(b, vector, (row, size), (square, lanes), lanes)
