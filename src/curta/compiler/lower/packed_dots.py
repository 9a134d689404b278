"""Products of matrices of narrow numbers, by instructions that add up several.

Steps are packed: four of bytes, or two of 16 bits, make a word, and one instruction
adds all products of two words to a sum of 32 bits. Sums of integers wrap, as sums of
products do. Bytes are multiplied by unsigned ones, so the left matrix is 128 more, and
what is too much, 128 times the sum of a column, is taken off the result (as oneDNN
does, "Nuances of int8 computations"). Products of bfloat16 are exact, and added one by
one in float32; subnormal numbers count as 0, so that it is not done where a precision
is asked for.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.compiler.library.gemm import Blocking, Dot
from curta.compiler.library.tile_shape import PACKED
from curta.compiler.loops.folds import simple_fold
from curta.compiler.loops.index import as_index, row_major
from curta.compiler.loops.index_set_splitting import index_regions
from curta.compiler.loops.lower import loop_dims, variables
from curta.compiler.loops.nodes import Buffer, Store
from curta.compiler.lower.item_builder import ItemBuilder
from curta.compiler.lower.items import LibraryItem, LoopItem
from curta.compiler.targets import Target
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.jaxpr import Atom
from curta.dtypes import physical_dtype

INT32 = np.dtype("int32")
Groups = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
Shape = tuple[int, int, int, int]
"""Of a product: the batch, rows, columns, steps."""


def packed_kind(
    dtypes: Sequence[Any], sums: Any, shape: Shape, target: Target
) -> str | None:
    """The kind of words for a product that is added up in a dtype, if it gains."""
    if any(map(is_symbolic_dim, shape)) or min(shape[1:]) < target.tuning.packed_dot:
        return None
    names = {physical_dtype(dtype).name for dtype in dtypes}
    kind = None
    if sums.name == "float32" and names == {"bfloat16"}:
        kind = "bf16x2"
    elif sums == INT32 and names <= {"int8", "uint8", "int16"}:
        kind = "i8x4" if names == {"int8"} else "i16x2"
    return kind if kind in target.words else None


def packed_dot(
    lowering: ItemBuilder,
    operands: Sequence[Atom],
    groups: tuple[Groups, Groups],
    shape: Shape,
    kind: str,
    result: Buffer,
) -> None:
    """Add the items of a product into `result`, of 32 bits.

    The groups are the dims (batch, rows, steps) of the left operand, and (batch, steps,
    columns) of the right one.
    """
    packing = _Packing(lowering, shape, kind)
    left, right = (_Matrix(lowering, *x) for x in zip(operands, groups, strict=True))
    a, b = packing.rows(left), packing.columns(right)
    batch, m, n, k = shape
    dot = Dot(batch, m, n, -(-k // PACKED[kind]), kind)
    if kind != "i8x4":
        return emit_product(lowering, dot, (a, b), result)
    more = lowering.new_buffer(ShapedArray((batch, m, n), INT32), f"{result.name}.more")
    lowering.items.append(LibraryItem(dot, (a, b), (more,)))
    return packing.take_off(more, right, result)


def emit_product(
    lowering: ItemBuilder, dot: Dot, operands: tuple[Buffer, Buffer], result: Buffer
) -> None:
    """Add the items of a product: the tiles, and a sum of the parts of many steps."""
    dtype, parts = lowering.dtype(result), 1
    if dtype.kind == "f" and not is_symbolic_dim(dot.work):
        parts = Blocking(dot, lowering.target.vector_bytes, lowering.tuning).parts
    if parts == 1:
        return lowering.items.append(LibraryItem(dot, operands, (result,)))
    shape = (dot.batch, dot.m, dot.n)
    aval = ShapedArray((parts, *shape), dtype)
    sums = lowering.new_buffer(aval, f"{result.name}.parts")
    dot = dataclasses.replace(dot, in_parts=True)
    lowering.items.append(LibraryItem(dot, operands, (sums,)))
    b, kept = lowering.builder, loop_dims(lowering.avals[result].shape)
    (part,) = loop_dims((parts,), len(variables(kept)))
    at = row_major(kept, lowering.avals[result].shape)
    at = at + as_index(part) * math.prod(shape)
    x = b.load(sums, at, dtype)
    code = simple_fold(b, dtype, dtype, b.sum)
    return lowering.emit_fold(
        result, kept, (part,), (x,), code, "dot_general", columns=math.prod(shape)
    )


@dataclass(frozen=True)
class _Matrix:
    """An operand as a batch of matrices."""

    lowering: ItemBuilder
    operand: Atom
    groups: Groups

    def at(self, index: tuple[Any, Any, Any], dtype: Any) -> Any:
        """The element at (batch, row, column), as another dtype."""
        shape = self.operand.aval.shape
        position = [as_index(0)] * len(shape)
        for dims, i in zip(self.groups, index, strict=True):
            for d in reversed(dims):
                position[d] = as_index(i) % shape[d]
                i = as_index(i) // shape[d]
        value = self.lowering.elements.at(self.operand, tuple(position))
        return self.lowering.builder.convert(value, dtype)

    def lies(self, dtype: Any) -> Buffer | None:
        """Where it lies in memory, if that is row after row and of a dtype."""
        dims = [d for group in self.groups for d in group]
        if dims != sorted(dims) or self.operand.aval.dtype != dtype:
            return None
        return self.lowering.buffer_of(self.operand)


@dataclass(frozen=True)
class _Packing:
    """How the operands of a product become words."""

    lowering: ItemBuilder
    shape: Shape
    kind: str

    @property
    def dtype(self) -> Any:
        """The dtype of the numbers of a word."""
        if self.kind == "bf16x2":
            return dtypes.bfloat16
        return np.dtype("int8" if self.kind == "i8x4" else "int16")

    def rows(self, left: _Matrix) -> Buffer:
        """The left matrices, with whole words in each row; bytes as unsigned ones."""
        batch, m, _, k = self.shape
        count, b = PACKED[self.kind], self.lowering.builder
        there = left.lies(self.dtype)
        if there is not None and k % count == 0 and self.kind != "i8x4":
            return there
        shape = batch, m, -(-k // count) * count
        buffer = self._buffer(shape, "left")

        def pack(index: tuple[Any, ...]) -> tuple[Store, ...]:
            value = self._inside(left, index, index[2])
            if self.kind == "i8x4":
                value = b.xor(value, b.const(-128, self.dtype))
            return self.lowering.stores(buffer, row_major(index, shape), value)

        self._in_regions(shape, pack)
        return buffer

    def columns(self, right: _Matrix) -> Buffer:
        """The right matrices, with the steps of a word side by side in each column."""
        batch, _, n, k = self.shape
        count = PACKED[self.kind]
        words = batch, -(-k // count), n
        buffer = self._buffer((*words, count), "right")

        def pack(index: tuple[Any, ...]) -> tuple[Store, ...]:
            stores = list[Store]()
            for i in range(count):
                step = as_index(index[1]) * count + i
                value = self._inside(right, (index[0], step, index[2]), step)
                offset = row_major((*index, i), (*words, count))
                stores += self.lowering.stores(buffer, offset, value)
            return (*stores,)

        self._in_regions(words, pack)
        return buffer

    def _in_regions(
        self, shape: tuple[int, ...], pack: Callable[[Any], tuple[Store, ...]]
    ) -> None:
        """Pack what lies inside of a matrix, and what lies beyond its steps."""
        for index in index_regions(shape, lambda i: [s.value for s in pack(i)]):
            self.lowering.emit_part(index, pack(index), "pack")

    def take_off(self, more: Buffer, right: _Matrix, result: Buffer) -> None:
        """The product without 128 times the sum of each column."""
        batch, m, n, k = self.shape
        b, lowering = self.lowering.builder, self.lowering
        sums = lowering.new_buffer(ShapedArray((batch, n), INT32), f"{more.name}.sums")
        kept = loop_dims((batch, n))
        step = loop_dims((k,), len(variables(kept)))
        value = right.at((kept[0], *step, kept[1]), INT32)
        code = simple_fold(b, INT32, INT32, b.add)
        lowering.emit_fold(sums, kept, step, (value,), code, "pack")
        index = loop_dims((batch, m, n))
        much = lowering.load(sums, (index[0], index[2]))
        value = b.sub(lowering.load(more, index), b.mul(much, b.const(128, INT32)))
        offset = row_major(index, (batch, m, n))
        stores = lowering.stores(result, offset, value)
        lowering.items.append(LoopItem(variables(index), stores, (), label="unpack"))

    def _inside(self, matrix: _Matrix, index: tuple[Any, ...], step: Any) -> Any:
        """An element, or 0 after the last step."""
        b = self.lowering.builder
        return b.guarded(
            b.within(step, self.shape[3]),
            lambda: matrix.at((index[0], index[1], index[2]), self.dtype),
            b.const(0, self.dtype),
        )

    def _buffer(self, shape: tuple[int, ...], name: str) -> Buffer:
        name = f"{name}{len(self.lowering.items)}"
        return self.lowering.new_buffer(ShapedArray(shape, self.dtype), name)
