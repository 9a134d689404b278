"""Scalar expressions to LLVM instructions, one lane or many at a time.

`Evaluator` gives the value of an expression at the current loop indices. One loop
variable, `lane`, may stand for as many consecutive indices as a vector has lanes;
whatever does not depend on it stays a scalar. Values are cached until the loop in which
they were computed ends, so each is computed once, as far out as possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from curta.compiler.llvm import vector_math
from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.columns import Columns
from curta.compiler.llvm.index_values import IndexValues
from curta.compiler.llvm.scalar_instructions import (
    INSTRUCTIONS,
    constant,
    memory_kind,
)
from curta.compiler.llvm.types import I64, Type, Value
from curta.compiler.loops.index import Affine, IndexAtom, LoopVar
from curta.compiler.loops.nodes import (
    Buffer,
    Const,
    DataIndex,
    Expr,
    IndexValue,
    Instr,
    Load,
    Placeholder,
    walk,
)
from curta.compiler.targets import CACHE_LINE
from curta.core.dim import is_same, is_symbolic_dim, may_exceed

Streams = frozenset[tuple[Buffer, Affine]]


class Evaluator(IndexValues):
    """The values of expressions inside one function."""

    def __init__(self, b: Builder, pointers: Mapping[Buffer, Value]) -> None:
        super().__init__(b)
        self._pointers = dict(pointers)
        self._origin: dict[Buffer, frozenset[LoopVar]] = {}
        self._orders: dict[Expr, list[Expr]] = {}
        self._row_rest: dict[tuple[Buffer, Affine], Affine] = {}
        self._assumed: Expr | None = None
        self._streamed: Streams = frozenset()

    @contextmanager
    def assumed(self, condition: Expr) -> Iterator[None]:
        """Inside, loads take it that the condition holds."""
        before, self._assumed = self._assumed, condition
        yield
        self._assumed = before

    @contextmanager
    def streamed(self, streams: Streams) -> Iterator[None]:
        """Inside, whole vectors go past the caches to these aligned addresses."""
        before, self._streamed = self._streamed, streams
        yield
        self._streamed = before

    def hoist(self, body: Sequence[Expr], inside: Iterable[Any], lanes: int) -> None:
        """Compute now what the iterations of a loop share.

        `inside` are the variables of the loop and of those in it, and the buffers
        written there; `lanes` is how wide the body will be.
        """
        inner = frozenset(inside)
        for expr in body:
            if isinstance(expr, Load) and (expr.buffer, expr.offset) not in self._memo:
                self.hoist_row(expr.buffer, expr.offset, inner)
            if not isinstance(expr, (Instr, Load)):
                continue
            if not self.depends(expr) & inner:
                self.value(expr)
            elif isinstance(expr, Instr) and lanes > 1:
                for arg in expr.args:
                    if not isinstance(arg, (Const, Placeholder)):
                        if not self.depends(arg) & inner:
                            value = self.value(arg)
                            if value.lanes == 1:
                                self._splat(value, lanes)

    # ----------------------------------------------------------- expressions

    def compute(self, expr: Expr) -> Value:
        """The value of an expression, operands first: it may be deep."""
        order = self._orders.get(expr)
        if order is None:
            order = self._orders[expr] = walk([expr])
        for operand in order:
            if not isinstance(operand, IndexValue):  # most are only compared
                self.value(operand)
        return self.value(expr)

    def value(self, expr: Expr) -> Value:
        """The value of an expression: a scalar, or as many lanes as there are.

        It calls itself for operands that have no value yet.
        """
        if isinstance(expr, Const):
            return constant(self.b, expr, 1)
        known = self._memo.get(expr)
        if known is not None:
            return known
        if isinstance(expr, Instr):
            value = self._instruction(expr)
        elif isinstance(expr, Load):
            value = self._load(expr)
        elif isinstance(expr, IndexValue):
            value = self.index(expr.index)
        else:
            raise KeyError(f"{expr} has no value here")
        self._remember(expr, value)
        return value

    def vector_value(self, expr: Expr) -> Value:
        """The value in as many lanes as there are."""
        if isinstance(expr, Const):
            return constant(self.b, expr, self.lanes)
        return self.spread(self.value(expr))

    def compute_lanes(self, expr: Expr) -> Value:
        """`vector_value` of what may be deep."""
        self.compute(expr)
        return self.vector_value(expr)

    def _instruction(self, expr: Instr) -> Value:
        if expr.name.startswith("compare.") and self.lanes > 1:
            compared = self._compare_index(expr)
            if compared is not None:
                return compared
        if self.lane in self.depends(expr) or self._wide(expr.args):
            args = [self.vector_value(a) for a in expr.args]
        else:
            args = [self.value(a) for a in expr.args]
        name, _, detail = expr.name.partition(".")
        if name == "math":
            return vector_math.FUNCTIONS[detail](self.b, *args)
        if name == "compare":
            unsigned = expr.args[0].dtype.kind in "ub"
            return self.b.compare(detail, args[0], args[1], unsigned)
        return INSTRUCTIONS[name](self.b, expr, *args)

    def _wide(self, args: Iterable[Expr]) -> bool:
        """Whether an operand has lanes without varying with a loop: a placeholder."""
        return any(
            isinstance(d, Placeholder) and self._memo[d].lanes > 1
            for a in args
            for d in self.depends(a)
        )

    # ------------------------------------------------------------------ memory

    def locate(
        self, buffer: Buffer, pointer: Value, origin: frozenset[LoopVar] = frozenset()
    ) -> None:
        """Where a buffer lies; it is indexed without the variables of `origin`."""
        self._pointers[buffer] = pointer
        self._origin[buffer] = origin

    def in_memory(self, buffer: Buffer) -> bool:
        """Whether a buffer is in memory, not in registers."""
        return buffer in self._pointers

    def pointer(self, buffer: Buffer) -> Value:
        """Where a buffer in memory lies."""
        return self._pointers[buffer]

    def is_aligned(self, buffer: Buffer) -> Value:
        """Whether a buffer begins at the start of a cache line."""
        pointer = self.pointer(buffer)
        address = self.b.instruction(f"ptrtoint ptr {pointer.text} to i64", I64)
        return self.b.eq(self.b.and_(address, CACHE_LINE - 1), 0)

    def address(self, buffer: Buffer, offset: Affine) -> Value:
        """The address of an element (of the first lane)."""
        type_ = Type(memory_kind(buffer.dtype))
        return self._address(buffer, self._within(buffer, offset), type_)

    def load_lines(self, load: Load, apart: int) -> list[Value]:
        """As many vectors of neighbors as they have lanes, `apart` elements apart."""
        type_ = Type(memory_kind(load.dtype))
        first = self.address(load.buffer, load.offset)
        addresses = [self.b.offset(first, i * apart, type_) for i in range(self.lanes)]
        return [self.b.load(type_.with_lanes(self.lanes), p) for p in addresses]

    def as_value(self, load: Load, loaded: Value) -> Value:
        """The loaded value: a bool is a byte in memory."""
        return self.b.ne(loaded, 0) if load.dtype.kind == "b" else loaded

    def _load(self, expr: Load) -> Value:
        forwarded = self._memo.get((expr.buffer, expr.offset))
        if forwarded is not None:
            return forwarded
        type_ = Type(memory_kind(expr.dtype))
        guard = None if expr.where is self._assumed else expr.where
        where = None if guard is None else self.value(guard)
        offset = self._within(expr.buffer, expr.offset)
        varies = self.lanes > 1 and self.lane in self._index_depends(offset)
        if not varies and (where is None or where.lanes == 1):
            value = self._load_scalar(expr.buffer, offset, type_, where)
        else:
            value = self._load_lanes(expr.buffer, offset, type_, where)
        return self.as_value(expr, value)

    def _load_scalar(
        self, buffer: Buffer, offset: Affine, type_: Type, where: Value | None
    ) -> Value:
        if where is None:
            return self.b.load(type_, self._address(buffer, offset, type_))
        index = self._scalar_index(offset)
        safe = self.b.select(where, index, self.b.const(I64, 0))
        return self.b.load(type_, self.b.offset(self.pointer(buffer), safe, type_))

    def _load_lanes(
        self, buffer: Buffer, offset: Affine, type_: Type, where: Value | None
    ) -> Value:
        mask = self._both(self.mask, where)
        if mask is not None:
            mask = self.spread(mask)
        wide = type_.with_lanes(self.lanes)
        stride = self._stride(offset)
        if stride is None:
            pointers = self.b.offset(self.pointer(buffer), self.index(offset), type_)
            return self.b.gather(wide, pointers, mask)
        pointer = self._address(buffer, offset, type_)
        if where is not None and mask is not None:
            # To pass over what no page has, if only by a mask, takes 0.1 to 1 us.
            some = where if where.lanes == 1 else self.b.any_lane(mask)
            pointer = self.b.select(some, pointer, self.pointer(buffer))
            if where.lanes == 1 == stride and self._has_lanes(buffer):
                mask = self.mask
        if stride == 1:
            if mask is None:
                return self.b.load(wide, pointer)
            return self.b.masked_load(wide, pointer, mask)
        if is_same(stride, 2) and self.lanes > 1:
            return self._load_every_other(wide, pointer, mask)
        if mask is None and self._picks(stride):
            return self._column(buffer, offset, wide, stride)
        if stride == -1:
            order = self._backwards()
            first = self.b.offset(pointer, 1 - self.lanes, type_)
            if mask is None:
                return self.b.shuffle(self.b.load(wide, first), None, order)
            mask = self.b.shuffle(mask, None, order)
            return self.b.shuffle(self.b.masked_load(wide, first, mask), None, order)
        if stride == 0:
            return self.b.gather(wide, self.b.splat(pointer, self.lanes), mask)
        return self.b.gather(wide, self.b.strided(pointer, stride, wide), mask)

    def _has_lanes(self, buffer: Buffer) -> bool:
        """Whether a vector can be read from where a buffer begins."""
        known = buffer not in self._origin and not is_symbolic_dim(buffer.size)
        return known and buffer.size >= self.lanes

    def _picks(self, stride: int) -> bool:
        """Whether lanes are picked out of vectors of all that lies between them."""
        few = not is_symbolic_dim(stride) and 2 < stride <= self.b.module.picked_stride
        return few and self.lanes & (self.lanes - 1) == 0

    def _column(self, buffer: Buffer, offset: Affine, wide: Type, count: int) -> Value:
        """A column of a few; the others are at hand, if they are all in the array."""
        on_stack = buffer in self._origin
        column = 0 if on_stack else offset.const % count
        low, high = (offset - column).bounds
        ends = on_stack or low < 0 or may_exceed(high + count, buffer.size)
        key = ("columns", buffer, offset if ends else offset - column)
        parts = self._memo.get(key)
        if parts is None:
            one = wide.with_lanes(1)
            lanes = max(1, min(self.lanes, self.b.vector_bytes // one.size))
            first = self._address(buffer, key[2], one)
            parts = []
            for start in range(0, self.lanes, lanes):
                at = self.b.offset(first, start * count, one)
                last = ends and start + lanes == self.lanes
                parts.append(Columns(self.b, wide.with_lanes(lanes), at, count, last))
            self._remember(key, parts)
        return self.b.joined([p.column(0 if ends else column) for p in parts])

    def _load_every_other(
        self, wide: Type, pointer: Value, mask: Value | None
    ) -> Value:
        """Two loads that overlap by an element, so as not to read beyond the last."""
        lanes = wide.lanes
        rest = self.b.offset(pointer, lanes - 1, wide.with_lanes(1))
        # Which elements of the two loads go to the lanes.
        low = range(0, lanes, 2)
        high = range(1 + lanes % 2, lanes, 2)
        order = [*low, *(lanes + i for i in high)]
        if mask is None:
            halves = self.b.load(wide, pointer), self.b.load(wide, rest)
        else:
            none = self.b.const(mask.type, 0)
            first, second = [0] * lanes, [0] * lanes
            for lane, i in enumerate(order):
                (second if i >= lanes else first)[i % lanes] = lanes + lane
            halves = (
                self.b.masked_load(wide, pointer, self.b.shuffle(none, mask, first)),
                self.b.masked_load(wide, rest, self.b.shuffle(none, mask, second)),
            )
        return self.b.shuffle(*halves, order)

    def store_columns(
        self, buffer: Buffer, offset: Affine, parts: Sequence[Value], dtype: Any
    ) -> bool:
        """Store neighbors for each lane, if they fill the space between lanes."""
        offset = self._within(buffer, offset)
        if self.lanes == 1 or self.mask is not None:
            return False
        if not is_same(self._stride(offset), len(parts)):
            return False
        columns = [self.spread(self._stored(x, dtype)) for x in parts]
        address = self._address(buffer, offset, columns[0].type.with_lanes(1))
        for vector in self.b.interleaved(columns):
            self.b.store(vector, address)
            address = self.b.offset(address, vector.lanes, vector.type)
        return True

    def _stored(self, value: Value, dtype: Any) -> Value:
        """A value as memory has it."""
        return self.b.convert(value, "i8") if dtype.kind == "b" else value

    def store(self, buffer: Buffer, offset: Affine, value: Value, dtype: Any) -> None:
        """Store the value of the current lanes, as far as the mask allows."""
        value = self._stored(value, dtype)
        type_, target = value.type.with_lanes(1), (buffer, offset)
        offset = self._within(buffer, offset)
        if self.lanes == 1:
            return self.b.store(value, self._address(buffer, offset, type_))
        value = self.spread(value)
        stride = self._stride(offset)
        pointer = self._address(buffer, offset, type_) if stride is not None else None
        if stride == 1 and pointer is not None:
            if self.mask is None:
                return self.b.store(value, pointer, streaming=target in self._streamed)
            return self.b.masked_store(value, pointer, self.mask)
        if stride == -1 and pointer is not None and self.mask is None:
            first = self.b.offset(pointer, 1 - self.lanes, type_)
            reversed_ = self.b.shuffle(value, None, self._backwards())
            return self.b.store(reversed_, first)
        if pointer is not None:
            pointers = self.b.strided(pointer, stride or 0, value.type)
        else:
            pointers = self.b.offset(self.pointer(buffer), self.index(offset), type_)
        return self.b.scatter(value, pointers, self.mask)

    def store_where(
        self, where: Value, buffer: Buffer, offset: Affine, value: Value, dtype: Any
    ) -> None:
        """Store where a condition holds: the same for all lanes, or one for each."""
        if where.lanes == 1:
            with self.b.when(where), self.scope():
                return self.store(buffer, offset, value, dtype)
        before, self.mask = self.mask, self._both(self.mask, where)
        self.store(buffer, offset, value, dtype)
        self.mask = before
        return None

    def _backwards(self) -> range:
        return range(self.lanes - 1, -1, -1)

    def _both(self, a: Value | None, b: Value | None) -> Value | None:
        if a is None or b is None:
            return b if a is None else a
        return self.b.and_(self.spread(a), self.spread(b))

    def _stride(self, offset: Affine) -> int | None:
        """How far apart the lanes are; None if that differs."""
        assert self.lane is not None
        for atom in offset.terms:
            if atom != self.lane and self.lane in self._index_depends(atom.as_index()):
                return None
        return offset.coefficient(self.lane)

    def _within(self, buffer: Buffer, offset: Affine) -> Affine:
        origin = self._origin.get(buffer)
        if not origin:
            return offset
        return offset.substitute(lambda atom: 0 if atom in origin else None)

    def _address(self, buffer: Buffer, offset: Affine, type_: Type) -> Value:
        """The address of the (first lane's) element, from that of its row if known."""
        row, rest = self._known_row(buffer, offset)
        if not rest.terms and not rest.const:
            return row
        return self.b.offset(row, self._scalar_index(rest), type_)

    def _known_row(self, buffer: Buffer, offset: Affine) -> tuple[Value, Affine]:
        inner = self._memo.get(("row of", buffer, offset))
        if inner is None:
            return self.pointer(buffer), offset
        return inner, self._row_rest[buffer, offset]

    def hoist_row(
        self, buffer: Buffer, offset: Affine, inner: frozenset[LoopVar]
    ) -> None:
        """Compute now what of an address the iterations of loops share."""
        offset = self._within(buffer, offset)
        moving: dict[IndexAtom, int] = {}
        still: dict[IndexAtom, int] = {}
        for atom, k in offset.terms.items():
            varies = self._index_depends(atom.as_index()) & inner
            (moving if varies else still)[atom] = k
        key = ("row of", buffer, offset)
        if not still or key in self._memo or not self.in_memory(buffer):
            return
        if any(isinstance(a, DataIndex) for a in Affine(still, 0).atoms()):
            return
        start = self._scalar_index(Affine(still, 0))
        type_ = Type(memory_kind(buffer.dtype))
        self._remember(key, self.b.offset(self.pointer(buffer), start, type_))
        self._row_rest[buffer, offset] = Affine(moving, offset.const)
