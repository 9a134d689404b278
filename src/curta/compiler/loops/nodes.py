"""The loop IR: scalar expressions, statements over buffers, kernels and regions.

A kernel has parallel `dims` around a list of `LoopNest`s: inner dims with one body that
stores elements and folds reductions. The nests of a kernel run one after the other for
each index of the outer dims, which is how softmax reads its input once. The nodes
describe the computation. The order and the width of loops are in the `Schedule`
(schedule.py); bufferize.py decides where a buffer is stored.

A region is structured code, whose statements are nests, copies, calls of programs,
loops and branches. Loops hand on values in registers, or the addresses of memory.

Expressions are nodes of a graph: the builder makes equal ones the same object, and
they compare by identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Literal

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.compiler.callee import Callee
from curta.compiler.loops.index import Affine, Bounds, IndexAtom, LoopVar
from curta.core.dim import is_symbolic_dim

_LARGEST: Final = int(np.iinfo(np.int64).max)

# ------------------------------------------------------------------ expressions


class Expr:
    """A scalar expression; `dtype` is a NumPy dtype, never complex."""

    __slots__ = ()
    dtype: Any

    def as_index(self) -> Affine:
        """This integer as (part of) an index."""
        if self.dtype.kind not in "iub":
            raise TypeError(f"an index must be an integer, not {self.dtype}")
        known = known_index(self)
        return Affine({DataIndex(self): 1}, 0) if known is None else known

    @property
    def bounds(self) -> Bounds:
        """The least and the greatest value that this integer can have."""
        index = known_index(self)
        if index is not None and not any(map(is_symbolic_dim, index.bounds)):
            return index.bounds
        if self.dtype.kind == "b":
            return 0, 1
        info = np.iinfo(self.dtype)
        return int(info.min), int(info.max)


@dataclass(frozen=True, eq=False)
class Const(Expr):
    """A constant; `value` is a Python bool, int or float."""

    value: Any
    dtype: Any


@dataclass(frozen=True, eq=False)
class Instr(Expr):
    """`name(args)`; emit.py says what each name becomes.

    An integer lies within its `limits`, where more is known than its dtype says.
    """

    name: str
    args: tuple[Expr, ...]
    dtype: Any
    limits: Bounds | None = None

    @property
    def bounds(self) -> Bounds:
        """The least and the greatest value that this integer can have."""
        return super().bounds if self.limits is None else self.limits


@dataclass(frozen=True, eq=False)
class Load(Expr):
    """The element of a buffer `offset` elements from its start.

    Memory is not touched where `where` is false, and the value is then arbitrary.
    """

    buffer: Buffer
    offset: Affine
    where: Expr | None
    dtype: Any


@dataclass(frozen=True, eq=False)
class IndexValue(Expr):
    """An index as an int64 value."""

    index: Affine
    dtype: Any = np.dtype("int64")


@dataclass(frozen=True, eq=False)
class Placeholder(Expr):
    """An operand of a reduction's `combine`."""

    name: str
    dtype: Any


def known_index(expr: Expr) -> Affine | None:
    """The index that an integer expression is the number of, if its dtype has it."""
    if isinstance(expr, IndexValue):
        return expr.index
    if expr.dtype.kind not in "iub":
        return None
    if isinstance(expr, Const):
        return Affine({}, int(expr.value))
    if isinstance(expr, Instr) and expr.name == "convert":
        (inner,) = expr.args
        if isinstance(inner, IndexValue) and is_within(inner.index, expr.dtype):
            return inner.index
    return None


def is_within(index: Affine, dtype: Any) -> bool:
    """Whether a dtype of integers has all values of an index, as int64 has."""
    low, high = index.bounds
    if dtype.kind not in "iu" or is_symbolic_dim(low) or is_symbolic_dim(high):
        return False
    info = np.iinfo(dtype)
    return bool(info.min <= low and high <= min(info.max, _LARGEST))


@dataclass(frozen=True)
class DataIndex(IndexAtom):
    """An index read from data: an integer expression, sign- or zero-extended."""

    value: Expr

    @property
    def bounds(self) -> Bounds:
        return self.value.bounds

    def __repr__(self) -> str:
        return "[data]"


# ---------------------------------------------------------------------- buffers


@dataclass(frozen=True, eq=False)
class View:
    """Memory of another buffer, from an element on."""

    of: Buffer
    first: Affine


@dataclass(frozen=True, eq=False)
class Table:
    """Elements known when the code is made."""

    numbers: tuple[float, ...]


Storage = Literal["planned", "register", "vector", "stack", "carried"] | View | Table
"""Where a buffer lies: as bufferize.py says, in registers, on the stack, in another.

What is in registers is number by number or in one vector, which a "vector" always is.

One that is carried lies in memory whose address a loop carries.
"""


@dataclass(frozen=True, eq=False)
class Buffer:
    """An array of `size` elements of a dtype (a complex one counts twice).

    One in registers is stored once, as a whole, before it is read.
    """

    name: str
    dtype: Any
    size: int
    storage: Storage = "planned"

    @property
    def in_memory(self) -> bool:
        """Whether elements have addresses, as far as its storage says."""
        apart = self.storage in ("register", "vector")
        return not apart and not isinstance(self.storage, Table)

    @property
    def nbytes(self) -> int:
        return self.size * max(1, int(self.dtype.itemsize))


def memory_of(buffer: Buffer) -> Buffer:
    """The buffer itself, or the one whose memory it is a view of, views of it too."""
    while isinstance(buffer.storage, View):
        buffer = buffer.storage.of
    return buffer


# ------------------------------------------------------------------ loop nests


@dataclass(frozen=True, eq=False)
class Store:
    """`buffer[offset] = value` for each index of the nest where `where` holds."""

    buffer: Buffer
    offset: Affine
    value: Expr
    where: Expr | None = None

    def operands(self) -> tuple[Expr, ...]:
        """The expressions it reads."""
        guards = () if self.where is None else (self.where,)
        return (self.value, *guards, *index_operands(self.offset))


Order = Literal["any", "blocks", "strips", "chain", "joined"]


@dataclass(frozen=True, eq=False)
class Fold:
    """A reduction over the last dims of a nest, one result per index of the others.

    `inputs` are folded into accumulators (more than one of each for argmax) that start
    from `initial`. `combined` says, in terms of the placeholders `left` and `right`,
    how two accumulators become one, or an accumulator and an input. `stores` write the
    results: their values are in terms of `left`, the final accumulators. A `running`
    fold stores at every index what it has accumulated so far. `in_order` is `combined`
    where all on the left comes before all on the right, which may be less to compute.

    `order` says in which order elements are taken in: "any", if the results have the
    same bits; in "blocks" or "strips" (summation.py); one by one, in a "chain"; or one
    by one in float64, as the results of blocks are "joined".
    """

    inputs: tuple[Expr, ...]
    initial: tuple[Const, ...]
    left: tuple[Placeholder, ...]
    right: tuple[Placeholder, ...]
    combined: tuple[Expr, ...]
    stores: tuple[Store, ...]
    running: bool
    in_order: tuple[Expr, ...]
    order: Order = "any"


@dataclass(frozen=True, eq=False)
class LoopNest:
    """Inner dims around stores and folds that read the same indices.

    Folds are over the dims after the first `kept`: they have a result for each index
    of those. An `ordered` nest updates a buffer element by element, in the order of
    its indices, several times where several updates meet; a `selective` one only for
    few of them, where the one guard of its stores holds.
    """

    dims: tuple[LoopVar, ...]
    stores: tuple[Store, ...]
    folds: tuple[Fold, ...]
    kept: int = 0
    ordered: bool = False
    selective: bool = False

    def written(self) -> Iterator[Store]:
        """All stores, those of the folds' results included."""
        yield from self.stores
        for fold in self.folds:
            yield from fold.stores

    @cached_property
    def body(self) -> tuple[Expr, ...]:
        """All expressions, operands first."""
        return tuple(walk(self.roots()))

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """All loads, each once."""
        return tuple(e for e in self.body if isinstance(e, Load))

    def guard(self) -> Expr:
        """The one condition under which a selective nest stores."""
        (guard,) = {s.where for s in self.stores}
        assert guard is not None
        return guard

    def roots(self) -> Iterator[Expr]:
        """The expressions that the body computes."""
        for store in self.stores:
            yield from store.operands()
        for fold in self.folds:
            yield from fold.inputs


# ---------------------------------------------------------------------- regions


@dataclass(frozen=True, eq=False)
class Copy:
    """All elements of a buffer in memory to another one.

    With `unless_same` only if their addresses differ, which the caller decides.
    """

    to: Buffer
    source: Buffer
    unless_same: bool = False


@dataclass(frozen=True, eq=False)
class Pack:
    """As many rows as there are lanes, of `size` elements, to columns; or `back`.

    A row has as many elements as there are lanes, or more.
    """

    rows: Buffer
    columns: Buffer
    size: int
    lanes: int
    back: bool = False


@dataclass(frozen=True, eq=False)
class Call:
    """A call of a native function. If the callee stops, the caller returns at once.

    Fields:
        arena: memory for the callee, if it needs an arena.
        every: the call is made once in this many executions; a power of two.
    """

    program: Callee
    results: tuple[Buffer, ...] = ()
    operands: tuple[Buffer, ...] = ()
    arena: Buffer | None = None
    every: int = 1


@dataclass(frozen=True, eq=False)
class Carry:
    """A carried value: before the loop, in an iteration, after it, and in the end.

    Of one in memory the address is carried, so that two buffers may alternate.
    """

    first: Buffer
    now: Buffer
    then: Buffer
    last: Buffer


@dataclass(frozen=True, eq=False)
class For:
    """Iterations for each index of `var`, the last one first if in `reverse`.

    Or for every `step`-th of those from the first of `bounds` to before the second.
    Of `independent` ones none reads what another one has written to memory.
    """

    var: LoopVar
    carries: tuple[Carry, ...]
    body: Block
    reverse: bool = False
    bounds: tuple[Affine, Affine] | None = None
    step: int = 1
    independent: bool = False


@dataclass(frozen=True, eq=False)
class While:
    """Iterations while `goes_on`, which `condition` computes before each."""

    carries: tuple[Carry, ...]
    condition: Block
    goes_on: Buffer
    body: Block


@dataclass(frozen=True, eq=False)
class If:
    """One of several blocks with their results; the index is clamped.

    Of flags for lanes it is 1 if one is set.
    """

    index: Buffer
    blocks: tuple[Block, ...]
    yields: tuple[tuple[Buffer, ...], ...]
    results: tuple[Buffer, ...]


Statement = LoopNest | Copy | Pack | Call | For | While | If
Block = tuple[Statement, ...]


@dataclass(frozen=True, eq=False)
class Region:
    """A kernel with loops and branches, whose own values are in registers.

    A nest with a dim in it stores vectors, whose lanes are its indices. With a `lane`
    the region runs for every block of the indices of that, which are the lanes of all
    vectors: values have one for each of their numbers. With `parts` it runs for each of
    those, which as many chunks as `chunk` says share out.
    """

    body: Block
    lane: LoopVar | None = None
    parts: LoopVar | None = None
    chunk: LoopVar | None = None

    @cached_property
    def programs(self) -> tuple[Callee, ...]:
        """The programs that are called, each once."""
        calls = (s for s in statements_in(self.body) if isinstance(s, Call))
        return tuple(dict.fromkeys(call.program for call in calls))


def blocks_in(statement: Statement) -> tuple[Block, ...]:
    """The blocks that a statement runs."""
    if isinstance(statement, For):
        return (statement.body,)
    if isinstance(statement, While):
        return statement.condition, statement.body
    return statement.blocks if isinstance(statement, If) else ()


def statements_in(block: Block) -> Iterator[Statement]:
    """The statements of a block, those of loops and branches included."""
    for statement in block:
        yield statement
        for inner in blocks_in(statement):
            yield from statements_in(inner)


# ---------------------------------------------------------------------- kernels


@dataclass(frozen=True, eq=False)
class Kernel:
    """Nests that run one after the other for each index of `dims`.

    Where `piece` is not 0, the first dim of the only nest is cut into pieces of that
    size, and folds have a result per piece, at the index `PIECE_INDEX`.
    """

    dims: tuple[LoopVar, ...]
    nests: tuple[LoopNest, ...]
    piece: int = 0

    def stored(self) -> list[Buffer]:
        """The buffers it writes, each once."""
        return list(dict.fromkeys(s.buffer for g in self.nests for s in g.written()))

    def buffers(self) -> list[Buffer]:
        """The buffers it touches, each once."""
        return list(dict.fromkeys([*self.stored(), *(e.buffer for e in self.loads())]))

    def loads(self) -> list[Load]:
        """All loads of all its expressions, each once."""
        return list(dict.fromkeys(e for s in self.nests for e in s.loads))


def walk(roots: Any) -> list[Expr]:
    """All expressions below `roots`, each once, operands before their users."""
    done: dict[Expr, None] = {}
    for root in roots:
        _visit(root, done)
    return list(done)


def _visit(root: Expr, done: dict[Expr, None]) -> None:
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        expr, ready = stack.pop()
        if expr in done:
            continue
        below = () if ready else [e for e in operands(expr) if e not in done]
        if not below:
            done[expr] = None
            continue
        stack.append((expr, True))
        stack.extend((e, False) for e in reversed(below))


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The expressions that `expr` reads, those inside its indices included."""
    if isinstance(expr, Instr):
        return expr.args
    if isinstance(expr, Load):
        inside = index_operands(expr.offset)
        return inside if expr.where is None else (*inside, expr.where)
    if isinstance(expr, IndexValue):
        return index_operands(expr.index)
    return ()


def index_operands(index: Affine) -> tuple[Expr, ...]:
    """The data that an index reads."""
    return tuple(a.value for a in index.atoms() if isinstance(a, DataIndex))
