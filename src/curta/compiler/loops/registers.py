"""The register IR: structured code over values so small that none of them is memory.

A value of few elements is a `Buffer` that lies in registers: in scalars, or in lanes
of one vector. Straight code is a list of steps, each of which computes one value;
loops carry values, and a choice runs one of several blocks. Arrays in
memory are read and written row by row, one an iteration, or as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator

from curta.compiler.loops.build import CannotLower
from curta.compiler.loops.index import Affine, LoopVar
from curta.compiler.loops.nodes import (
    Buffer,
    Expr,
    Instr,
    Load,
    index_operands,
    walk,
)
from curta.compiler.loops.schedule import (
    chains_of,
    compute_size,
    weight,
)
from curta.compiler.native import UNKNOWN
from curta.config import config
from curta.lazy_dataclass import dataclass

_WEIGHT = 32  # of an expression, since nothing runs side by side


class CannotUseRegisters(CannotLower):
    """A loop or branch cannot be code in registers."""


@dataclass(frozen=True, eq=False)
class Compute:
    """The value of `result`.

    Without a `lane` there is an expression for each of its numbers. With one there is
    an expression (two of a complex value) of the lane, which stands for all elements.
    """

    result: Buffer
    lane: LoopVar | None
    values: tuple[Expr, ...]


@dataclass(frozen=True, eq=False)
class Table:
    """A value known when the code is made."""

    result: Buffer
    numbers: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Write:
    """A value to an array in memory."""

    value: Buffer
    array: Buffer


@dataclass(frozen=True, eq=False)
class Save:
    """A value to an array in memory, each number to a slot of its own."""

    value: Buffer
    array: Buffer
    offsets: tuple[Affine, ...]


@dataclass(frozen=True, eq=False)
class Rename:
    """`result` is another name for an array in memory."""

    array: Buffer
    result: Buffer


@dataclass(frozen=True, eq=False)
class Update:
    """`result` is the memory of `array`, with new numbers from `offset` on.

    Nothing happens unless `where` holds.
    """

    array: Buffer
    result: Buffer
    offset: Affine
    values: tuple[Expr, ...]
    where: Expr | None


@dataclass(frozen=True, eq=False)
class Carry:
    """A carried value: before the loop, in an iteration, after it, and in the end."""

    first: Buffer
    now: Buffer
    then: Buffer
    last: Buffer


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of an array, one an iteration, which are read or written."""

    array: Buffer
    row: Buffer


@dataclass(frozen=True, eq=False)
class CountedLoop:
    """`length` iterations, maybe in `reverse`; `iteration` is the index of the row."""

    length: int
    reverse: bool
    carries: tuple[Carry, ...]
    reads: tuple[Rows, ...]
    writes: tuple[Rows, ...]
    body: tuple[Step, ...]
    iteration: LoopVar | None = None


@dataclass(frozen=True, eq=False)
class WhileLoop:
    """Iterations while `goes_on`, which `condition` computes before each."""

    carries: tuple[Carry, ...]
    condition: tuple[Step, ...]
    goes_on: Buffer
    body: tuple[Step, ...]


@dataclass(frozen=True, eq=False)
class Choice:
    """One of several blocks with their results; the index is clamped."""

    index: Buffer
    blocks: tuple[tuple[Step, ...], ...]
    found: tuple[tuple[Buffer, ...], ...]
    results: tuple[Buffer, ...]


Step = (
    Compute | Table | Write | Save | Rename | Update | CountedLoop | WhileLoop | Choice
)


@dataclass(frozen=True, eq=False)
class RegisterCode:
    """A block with the arrays in memory that it reads and writes.

    With a `lane` it runs for every block of the indices of that, which are the lanes
    of its vectors: values have one for each of their numbers.
    """

    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    lane: LoopVar | None = None


def pretty_steps(steps: tuple[Step, ...], indent: str = "    ") -> Iterator[str]:
    """A line for each step; those inside of loops are indented."""
    deeper = indent + "    "
    for step in steps:
        if isinstance(step, Compute):
            yield f"{indent}{step.result.name}[{step.result.size}] = computed"
        elif isinstance(step, Table):
            yield f"{indent}{step.result.name}[{step.result.size}] = constant"
        elif isinstance(step, Write):
            yield f"{indent}{step.array.name} = {step.value.name}"
        elif isinstance(step, Save):
            yield f"{indent}{step.array.name}[...] = {step.value.name}"
        elif isinstance(step, Rename):
            yield f"{indent}{step.result.name} = {step.array.name}, in its memory"
        elif isinstance(step, Update):
            yield f"{indent}{step.result.name} = {step.array.name}, one element new"
        elif isinstance(step, Choice):
            for i, block in enumerate(step.blocks):
                yield f"{indent}case {i} of {step.index.name}:"
                yield from pretty_steps(block, deeper)
        else:
            carried = ", ".join(c.now.name for c in step.carries)
            if isinstance(step, CountedLoop):
                yield f"{indent}{step.length} iterations, carrying {carried}:"
            else:
                yield f"{indent}while, carrying {carried}:"
                yield from pretty_steps(step.condition, deeper)
                yield f"{indent}do:"
            yield from pretty_steps(step.body, deeper)


def phis_of(size: int) -> int:
    """The values that LLVM hands from iteration to iteration for so many numbers.

    Vectors of other numbers of lanes than powers of two it takes apart.
    """
    in_vector = size > config.tuning.register_scalars and not size & (size - 1)
    return 1 if in_vector else size


def code_cost(steps: tuple[Step, ...], iterations: int = UNKNOWN) -> int:
    """What running the steps costs, in simple scalar operations.

    `iterations` is the trip count assumed for a while loop: nobody knows.
    """
    total = 0
    for step in steps:
        if isinstance(step, CountedLoop):
            total += step.length * (1 + code_cost(step.body, iterations))
        elif isinstance(step, WhileLoop):
            total += iterations * (
                1 + code_cost(step.condition + step.body, iterations)
            )
        elif isinstance(step, Choice):
            total += max(code_cost(block, iterations) for block in step.blocks)
        elif isinstance(step, (Compute, Update)):
            total += _WEIGHT * len(step.values)
    return total


def is_polled(loop: CountedLoop | WhileLoop) -> bool:
    """Whether a loop may take too long to be left alone."""
    return code_cost((loop,)) > config.tuning.interruptible_cost


def polls(steps: tuple[Step, ...]) -> bool:
    """Whether there is a loop that may take too long to be left alone."""
    for step in steps:
        if isinstance(step, (CountedLoop, WhileLoop)) and is_polled(step):
            return True
        if isinstance(step, Choice) and any(map(polls, step.blocks)):
            return True
    return False


def is_long(code: RegisterCode) -> bool:
    """Whether the code polls: in a loop, or between its blocks of examples."""
    if code.lane is None or polls(code.steps):
        return polls(code.steps)
    most = config.tuning.interruptible_cost
    return code.lane.extent * code_cost(code.steps) > most


@dataclass(frozen=True)
class Blocks:
    """How examples are shared out: lanes of a vector, blocks of a chunk, chunks."""

    lanes: int
    grain: int
    chunks: int


def blocks(code: RegisterCode, vector_bytes: int) -> Blocks:
    """The blocks of code over many examples, from its shapes alone.

    Short code takes several registers a vector, which hides latency; a chunk is worth
    some work, and there are enough for every thread.
    """
    if code.lane is None:
        return Blocks(1, 1, 1)
    result = _expressions(code.steps)
    sizes = [compute_size(e) for e in result if isinstance(e, (Instr, Load))]
    heavy = sum(map(weight, result))
    lanes = max(1, vector_bytes // max(sizes, default=4)) * chains_of(heavy)
    while lanes >= 2 * code.lane.extent:
        lanes //= 2
    count = -(-code.lane.extent // lanes)
    cost = (
        2 * code_cost(code.steps, config.tuning.assumed_trip_count) // _WEIGHT * lanes
    )
    tuning = config.tuning
    least = 4 * tuning.chunk_cost  # as the iterations of a loop are a guess
    grain = max(1, -(-least // max(1, cost)), -(-count // tuning.most_chunks))
    return Blocks(lanes, min(grain, count), -(-count // min(grain, count)))


def _expressions(steps: tuple[Step, ...]) -> list[Expr]:
    """What the steps compute, those of loops included."""
    return walk(_roots(steps))


def _roots(steps: tuple[Step, ...]) -> Iterator[Expr]:
    for step in steps:
        if isinstance(step, Compute):
            yield from step.values
        elif isinstance(step, Update):
            yield from (*step.values, *index_operands(step.offset))
        elif isinstance(step, Choice):
            for block in step.blocks:
                yield from _roots(block)
        elif isinstance(step, (CountedLoop, WhileLoop)):
            if isinstance(step, WhileLoop):
                yield from _roots(step.condition)
            yield from _roots(step.body)
