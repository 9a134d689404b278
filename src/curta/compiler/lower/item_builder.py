"""The builder of the items of a jaxpr: its buffers, elements, maps and reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from curta.compiler.callee import Callee
from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.complexes import parts
from curta.compiler.loops.element_types import component
from curta.compiler.loops.folds import FoldCode
from curta.compiler.loops.index import Affine, LoopVar, row_major
from curta.compiler.loops.lower import Elements, loop_dims, variables
from curta.compiler.loops.nodes import Buffer, Fold, Order, Store
from curta.compiler.loops.summation import sum_kind
from curta.compiler.lower.items import Item, LoopItem
from curta.compiler.rewrite.values import Values
from curta.compiler.targets import Target, Tuning
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from curta.dtypes import physical_dtype

InPlace = Mapping[int, int]
"""Arguments that may be overwritten, by a result that may lie in the same memory."""

LowerPart = Callable[[ClosedJaxpr, InPlace, bool], Callee]
"""Lowers the body of a loop or a branch.

The last argument says whether arguments that it may overwrite are workspace, too.
"""


class ItemBuilder:
    """The items so far, and how rules of ops add to them."""

    def __init__(
        self,
        jaxpr: Jaxpr,
        values: Values,
        host: frozenset[Eqn],
        lower_part: LowerPart,
        target: Target,
    ) -> None:
        self.target = target
        self.tuning: Tuning = target.tuning
        self.host = host
        self.lower_part = lower_part
        self.values = values
        self.builder: ScalarBuilder = ScalarBuilder()
        self.buffers: dict[Var, Buffer] = {}
        self.avals: dict[Buffer, ShapedArray] = {}
        self.elements: Elements = Elements(
            self.builder, self.buffers, values.definitions
        )
        self.items: list[Item] = []
        self.inputs: tuple[Buffer, ...] = tuple(
            self._buffer(v, "in") for v in jaxpr.invars
        )
        self.consts: tuple[Buffer, ...] = tuple(
            self._buffer(v, "const") for v in jaxpr.constvars
        )
        self.copies: dict[tuple[Atom, tuple[int, ...], Any], Buffer] = {}
        self.ties: dict[Buffer, Buffer] = {}  # result -> the operand it begins as

    def _buffer(self, var: Var, prefix: str) -> Buffer:
        buffer = self.new_buffer(var.aval, f"{prefix}{len(self.avals)}")
        self.buffers[var] = buffer
        return buffer

    def result_buffer(self, var: Var) -> Buffer:
        """A new buffer for the value of a variable."""
        return self._buffer(var, "v")

    def new_buffer(self, aval: ShapedArray, name: str) -> Buffer:
        """A buffer for a value of this aval."""
        dtype, size = physical_dtype(aval.dtype), aval.size
        if dtype.kind == "c":
            dtype, size = component(dtype), 2 * size
        buffer = Buffer(name, dtype, size)
        self.avals[buffer] = aval
        return buffer

    def results(self, eqn: Eqn) -> tuple[Buffer, ...]:
        """New buffers for the results of an eqn."""
        return tuple(self._buffer(v, "v") for v in eqn.outvars)

    def buffer_of(self, atom: Atom) -> Buffer | None:
        """The buffer in which a value lies, if it does."""
        return self.buffers.get(atom) if isinstance(atom, Var) else None

    def load(self, buffer: Buffer, index: tuple[Any, ...]) -> Any:
        """The element of a buffer at an index."""
        aval = self.avals[buffer]
        return self.builder.load(
            buffer, row_major(index, aval.shape), self.dtype(buffer)
        )

    def emit_map(
        self, buffer: Buffer, index: tuple[Any, ...], value: Any, label: str
    ) -> None:
        """Add the item that stores a value for each index."""
        shape = self.avals[buffer].shape
        if math.prod(shape) == 0:
            return
        stores = self.stores(buffer, row_major(index, shape), value)
        self.items.append(LoopItem(variables(index), stores, (), label=label))

    def emit_part(
        self, index: Sequence[Affine], stores: tuple[Store, ...], label: str
    ) -> None:
        """Add an item that stores part of a buffer, in the order of `index`."""
        dims = tuple(a for x in index for a in x.terms if isinstance(a, LoopVar))
        self.items.append(LoopItem(dims, stores, (), label=label, partial=True))

    def stored(
        self,
        aval: ShapedArray,
        name: str,
        element: Callable[[tuple[Any, ...]], Any],
        label: str,
    ) -> Buffer:
        """A new buffer with an element for each index, and the item that stores it."""
        buffer = self.new_buffer(aval, name)
        index = loop_dims(aval.shape)
        self.emit_map(buffer, index, element(index), label)
        return buffer

    def dtype(self, buffer: Buffer) -> Any:
        """The physical dtype of the value in a buffer, which may be complex."""
        return physical_dtype(self.avals[buffer].dtype)

    def stores(
        self, buffer: Buffer, offset: Affine, value: Any, where: Any = None
    ) -> tuple[Store, ...]:
        """The store of a value, or of both parts of a complex one."""
        values = parts(value)
        first = offset * len(values)
        return tuple(Store(buffer, first + i, v, where) for i, v in enumerate(values))

    def emit_fold(
        self,
        buffer: Buffer,
        kept: tuple[Any, ...],
        reduced: tuple[Any, ...],
        inputs: tuple[Any, ...],
        code: FoldCode,
        label: str,
        running: Affine | None = None,
        columns: int = 1,
    ) -> None:
        """Add the item that folds `inputs` over the `reduced` loops.

        `running` is where to store what there is so far, if every index is stored.
        There are so many `columns`: elements of kept dims behind the reduced ones.
        """
        inner = variables(reduced)
        if not inner or not all(v.extent for v in inner):
            index = kept if running is None else (*kept, *reduced)
            return self.emit_map(buffer, index, code.result(inputs), label)
        if not buffer.size:
            return None
        holes = [_placeholders(self.builder, side, code) for side in ("left", "right")]
        combined = code.combine(*holes)
        in_order = code.in_order(*holes) if code.in_order else combined
        offset = running
        if offset is None:
            offset = row_major(kept, self.avals[buffer].shape)
        stores = self.stores(buffer, offset, code.result(holes[0]))
        x, start, left, right, new, later = map(
            _parts, (inputs, code.initial, *holes, combined, in_order)
        )
        runs = running is not None
        order: Order = code.order
        if order == "blocks":
            order = "joined" if runs else sum_kind(columns, self.tuning)
        fold = Fold(x, start, left, right, new, stores, runs, later, order)
        dims = variables(kept)
        item = LoopItem((*dims, *inner), (), (fold,), len(dims), label=label)
        return self.items.append(item)


def _parts(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The real expressions that values consist of."""
    return tuple(part for x in values for part in parts(x))


def _placeholders(b: ScalarBuilder, side: str, code: FoldCode) -> tuple[Any, ...]:
    return tuple(
        b.placeholder(f"{side}{i}", x.dtype) for i, x in enumerate(code.initial)
    )
