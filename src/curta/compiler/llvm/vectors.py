"""Lanes and memory: shuffles, reductions over lanes, loads and stores of every kind."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from curta.compiler.llvm.folding import known
from curta.compiler.llvm.instructions import Instructions
from curta.compiler.llvm.types import I1, I8, I32, I64, PTR, Operand, Type, Value
from curta.compiler.targets import CACHE_LINE


class VectorInstructions(Instructions, ABC):
    """Instructions that need lanes or memory."""

    @property
    @abstractmethod
    def vector_bytes(self) -> int:
        """How wide the registers of the machine are."""

    # ------------------------------------------------------------------- lanes

    def splat(self, x: Value, lanes: int) -> Value:
        """A scalar in every lane."""
        if lanes == 1:
            return x
        to = x.type.with_lanes(lanes)
        first = f"insertelement {to} poison, {x.type} {x.text}, i64 0"
        return self.shuffle(self.instruction(first, to), None, [0] * lanes)

    def interleaved(self, columns: Sequence[Value]) -> list[Value]:
        """Vectors with the first lanes of all columns, then the second ones, and so on.

        A register's worth of each at a time: LLVM takes long over wider shuffles.
        """
        lanes = columns[0].lanes
        size = math.gcd(lanes, self.vector_bytes // columns[0].type.size)
        size = lanes if size == 1 else size  # of an odd number, all at once
        result = []
        for first in range(0, lanes, size):
            parts = [self.shuffle(x, None, range(first, first + size)) for x in columns]
            two_by_two = len(parts) & (len(parts) - 1) == 0
            result += [self._merged(parts)] if two_by_two else self._woven(parts)
        return result

    def _woven(self, columns: Sequence[Value]) -> list[Value]:
        """Columns interleaved into registers, by one shuffle a column."""
        count, size = len(columns), columns[0].lanes
        result = []
        for start in range(0, size * count, size):
            woven, order = columns[0], [0] * size
            for number, column in enumerate(columns):
                for i in range(size):
                    lane, of = divmod(start + i, count)
                    if of == number:
                        order[i] = lane + (size if number else 0)
                if number:
                    woven, order = self.shuffle(woven, column, order), [*range(size)]
            result.append(woven)
        return result

    def _merged(self, columns: Sequence[Value]) -> Value:
        """One vector, merged of pairs: of two columns, four, or eight."""
        if len(columns) == 1:
            return columns[0]
        half, lanes = len(columns) // 2, columns[0].lanes
        low, high = self._merged(columns[:half]), self._merged(columns[half:])
        order: list[int] = []
        for i in range(0, half * lanes, half):
            order += range(i, i + half)
            order += range(low.lanes + i, low.lanes + i + half)
        return self.shuffle(low, high, order)

    def shuffle(self, x: Value, y: Value | None, indices: Sequence[int]) -> Value:
        """Lanes of x (0, 1, ...) and of y (counting on after x's), in a new order."""
        to = x.type.with_lanes(len(indices))
        if len(indices) == 1:
            source, lane = (x, indices[0])
            if lane >= x.lanes and y is not None:
                source, lane = y, lane - x.lanes
            return self.extract(source, lane)
        mask = "<" + ", ".join(f"i32 {i}" for i in indices) + ">"
        if not any(indices):
            mask = "zeroinitializer"
        second = y.text if y is not None else "poison"
        operands = f"{x.type} {x.text}, {x.type} {second}"
        text = f"shufflevector {operands}, <{len(indices)} x i32> {mask}"
        return self.instruction(text, to)

    def extract(self, x: Value, lane: int | Value) -> Value:
        if x.lanes == 1:
            return x
        index = self.operand(lane, I64)
        text = f"extractelement {x.type} {x.text}, i64 {index.text}"
        return self.instruction(text, x.type.with_lanes(1))

    def insert(self, x: Value, element: Operand, lane: int | Value) -> Value:
        value = self.operand(element, x.type.with_lanes(1))
        if x.lanes == 1:
            return value
        index = self.operand(lane, I64)
        operands = f"{x.type} {x.text}, {value.type} {value.text}, i64 {index.text}"
        return self.instruction(f"insertelement {operands}", x.type)

    def reduce_lanes(self, x: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """All lanes combined into one, halving: lane i with lane i + lanes/2."""
        while x.lanes > 1:
            half = x.lanes // 2
            low = self.shuffle(x, None, range(half))
            high = self.shuffle(x, None, range(half, 2 * half))
            x = combine(low, high)
        return x

    def any_lane(self, mask: Value) -> Value:
        """Whether an `i1` holds in some lane."""
        if mask.lanes == 1:
            return mask
        return self.call(f"llvm.vector.reduce.or.{mask.type.suffix}", I1, mask)

    def first_lanes(self, count: Value, lanes: int) -> Value:
        """The mask of the first `count` lanes (an i64, zero or more)."""
        if lanes == 1:
            return self.compare("gt", count, 0)
        if (number := known(count)) is not None:
            return self.vector(Type("i1", lanes), [i < number for i in range(lanes)])
        few = self.convert(self.min(count, lanes), "i32")
        index = self.lane_index(I32.with_lanes(lanes))
        return self.compare("lt", index, self.splat(few, lanes))

    # ------------------------------------------------------------------ memory

    def offset(self, pointer: Value, index: Operand, element: Type) -> Value:
        """The address of element `index`; a vector of indices gives addresses."""
        i = index if isinstance(index, Value) else self.const(I64, index)
        if i.text == "0":
            return pointer
        text = f"getelementptr {element.with_lanes(1)}, ptr {pointer.text}, "
        return self.instruction(f"{text}{i.type} {i.text}", PTR.with_lanes(i.lanes))

    def load(self, type_: Type, pointer: Value, align: int | None = None) -> Value:
        """A scalar or consecutive lanes; unless told, aligned as one element."""
        text = f"load {type_}, ptr {pointer.text}, align {align or self._align(type_)}"
        return self.instruction(text, type_)

    def store(
        self, value: Value, pointer: Value, align: int | None = None,
        streaming: bool = False,
    ) -> None:  # fmt: skip
        """Store consecutive lanes; a streaming store goes past the caches.

        That takes an address that is a multiple of a cache line, or of the vector if
        that is smaller, and `publish()` before another thread may read.
        """
        text, hint = f"store {value.type} {value.text}, ptr {pointer.text}", ""
        if streaming:
            align = min(CACHE_LINE, value.lanes * value.type.size)
            hint = ", !nontemporal !0"
        self.emit(f"  {text}, align {align or self._align(value.type)}{hint}")

    def _align(self, type_: Type) -> int:
        """The alignment of one element in memory."""
        return self.pointer_bytes if type_.kind == "ptr" else type_.size

    def publish(self) -> None:
        """Make what streaming stores wrote visible to the next reader."""
        self.emit("  fence seq_cst")

    def joined(self, parts: Sequence[Value]) -> Value:
        """The lanes of as many vectors as a power of two, one after the other."""
        while len(parts) > 1:
            order = range(2 * parts[0].lanes)
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [self.shuffle(low, high, order) for low, high in pairs]
        return parts[0]

    def masked_load(
        self, type_: Type, pointer: Value, mask: Value, default: Operand = 0
    ) -> Value:
        """Consecutive lanes where the mask holds, the default elsewhere.

        Memory under a false lane is not touched.
        """
        name = f"llvm.masked.load.{_many(type_).suffix}.p0"
        other = self.operand(default, type_)
        return self.call(name, type_, self._aligned(pointer, type_), mask, other)

    def masked_store(self, value: Value, pointer: Value, mask: Value) -> None:
        """Store the lanes where the mask holds.

        If that is known to be the first one, by a scalar store: of a truncated vector
        LLVM would store the lane as it was before.
        """
        if mask.text == self.first_lanes(self.const(I64, 1), value.lanes).text:
            self.store(self.extract(value, 0), pointer)
            return
        name = f"llvm.masked.store.{_many(value.type).suffix}.p0"
        self.call(name, None, value, self._aligned(pointer, value.type), mask)

    def gather(
        self, type_: Type, pointers: Value, mask: Value | None = None,
        default: Operand = 0,
    ) -> Value:  # fmt: skip
        """Lanes from an address each; no mask means all of them."""
        if type_.lanes == 1 and mask is None:
            return self.load(type_, pointers)
        name = f"llvm.masked.gather.{_many(type_).suffix}.v{type_.lanes}p0"
        mask = mask or self.const(type_.as_mask, 1)
        other = self.operand(default, type_)
        return self.call(name, type_, self._aligned(pointers, type_), mask, other)

    def scatter(self, value: Value, pointers: Value, mask: Value | None = None) -> None:
        """Store lanes at an address each, in the order of the lanes."""
        if value.lanes == 1 and mask is None:
            return self.store(value, pointers)
        name = f"llvm.masked.scatter.{_many(value.type).suffix}.v{value.lanes}p0"
        mask = mask or self.const(value.type.as_mask, 1)
        self.call(name, None, value, self._aligned(pointers, value.type), mask)
        return None

    def packed(self, value: Value, mask: Value) -> Value:
        """The lanes where the mask holds, first; the others are anything.

        For registers of 64 bytes: LLVM writes beyond the stack where it has to split
        the vector, and takes long over elements of less than 32 bits.
        """
        if value.type.bits < 32:
            wide = self.convert(value, "i32", unsigned=True)
            return self.convert(self.packed(wide, mask), value.type.kind)
        if value.lanes * value.type.size > 64:
            raise TypeError(f"cannot pack the lanes of {value.type}")
        name = f"llvm.experimental.vector.compress.{_many(value.type).suffix}"
        rest = Value("poison", value.type, self)
        return self.call(name, value.type, value, mask, rest)

    def count_lanes(self, mask: Value) -> Value:
        """How many lanes of a mask hold, as an i64."""
        if mask.lanes == 1:
            return self.convert(mask, "i64")
        bits = self.bitcast(mask, Type(f"i{mask.lanes}"))
        return self.convert(self.population_count(bits), "i64", unsigned=True)

    def compress(self, value: Value, pointer: Value, mask: Value) -> None:
        """Store the lanes where the mask holds, without gaps, and anything after them.

        As many lanes are written as there are.
        """
        one = value.lanes == 1
        self.store(value if one else self.packed(value, mask), pointer)

    def strided(self, pointer: Value, stride: Operand, element: Type) -> Value:
        """Addresses of lanes that lie `stride` elements apart, for gather, scatter."""
        lanes = self.lane_index(I64.with_lanes(element.lanes))
        if isinstance(stride, Value):
            stride = self.splat(stride, element.lanes)
        return self.offset(pointer, self.mul(lanes, stride), element)

    def _aligned(self, pointer: Value, type_: Type) -> Value:
        return Value(f"align {type_.size} {pointer.text}", pointer.type, self)

    def copy(self, to: Value, source: Value, count: Operand) -> None:
        """Copy bytes between addresses that do not overlap (or are the same)."""
        size = self.operand(count, I64)
        self.call("llvm.memcpy.p0.p0.i64", None, to, source, size, self.const(I1, 0))

    def fill(self, to: Value, byte: Operand, count: Operand) -> None:
        """Set bytes to one value."""
        value, size = self.operand(byte, I8), self.operand(count, I64)
        self.call("llvm.memset.p0.i64", None, to, value, size, self.const(I1, 0))


def _many(type_: Type) -> Type:
    if type_.lanes == 1:
        raise TypeError("a masked access has more than one lane")
    return type_
