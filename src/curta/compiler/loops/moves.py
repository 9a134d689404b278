"""Elements that are only moved, as unsigned integers of their width.

Moves do not depend on the dtype: a bool is a byte and not a bit of a mask, half floats
are moved in vectors, and a complex number, whose parts are adjacent, is one element of
64 bits. Moves of all dtypes of one width therefore share code.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.index import Affine
from curta.compiler.loops.nodes import (
    Buffer,
    Const,
    Expr,
    Instr,
    Kernel,
    Load,
    LoopNest,
    Store,
    View,
    operands,
    walk,
)
from curta.compiler.targets import Tuning

_UNSIGNED = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}

Element = tuple[Expr, ...]
"""The parts of an element: two of a complex number, else one."""


def by_width(kernel: Kernel, builder: ScalarBuilder, tuning: Tuning) -> Kernel:
    """The kernel, with other views of the buffers whose elements it only moves."""
    for parts in (2, 1):
        kernel = _Moves(kernel, builder, parts, tuning.moved_choices).kernel()
    return kernel


class _Moves:
    """The copies of a kernel that only moves elements of several parts."""

    def __init__(
        self, kernel: Kernel, builder: ScalarBuilder, parts: int, most: int
    ) -> None:
        self.most = most
        self.old, self.builder, self.parts = kernel, builder, parts
        self.views: dict[Buffer, Buffer] = {}
        self.done: dict[Element, Expr] = {}

    def kernel(self) -> Kernel:
        """The kernel with the views; the same one if it moves nothing."""
        moved = self._moved()
        if all(self._unsigned(b) == b.dtype for b in moved):
            return self.old
        for b in moved:
            size, view = b.size // self.parts, View(b, Affine({}, 0))
            self.views[b] = Buffer(b.name, self._unsigned(b), size, view)
        return replace(self.old, nests=tuple(map(self._nest, self.old.nests)))

    def _unsigned(self, buffer: Buffer) -> Any:
        """The dtype that elements of a buffer are moved as, or None."""
        if buffer.storage != "planned":
            return None
        return _UNSIGNED.get(self.parts * buffer.dtype.itemsize)

    def _moved(self) -> set[Buffer]:
        """The buffers of which nothing else is made, and that get nothing else."""
        moves: list[set[Buffer]] = []
        others: set[Buffer] = set()
        read: list[Expr] = []
        for nest in self.old.nests:
            for stores in self._elements(nest):
                used = self._move(stores, read)
                if used is None:
                    others.update(s.buffer for s in stores)
                    read += (e for s in stores for e in s.operands())
                else:
                    moves.append(used)
        if not moves:
            return set()
        for fold in (f for s in self.old.nests for f in s.folds):
            others.update(s.buffer for s in fold.stores)
            read += (*fold.inputs, *fold.combined)
            read += (e for s in fold.stores for e in s.operands())
        others.update(e.buffer for e in walk(read) if isinstance(e, Load))
        moved = {b for used in moves for b in used if self._unsigned(b) is not None}
        moved -= others
        while rest := {b for used in moves if not used <= moved for b in used & moved}:
            moved -= rest
        return moved

    def _elements(self, nest: LoopNest) -> Iterator[tuple[Store, ...]]:
        """The stores of a nest, as many at a time as an element has parts."""
        for i in range(0, len(nest.stores), self.parts):
            yield nest.stores[i : i + self.parts]

    def _move(self, stores: tuple[Store, ...], read: list[Expr]) -> set[Buffer] | None:
        """The buffers an element moves between, if it does; what else is `read`."""
        first, used = stores[0], {stores[0].buffer}
        inside: list[Expr] = list(first.operands()[1:])
        values, seen = [tuple(s.value for s in stores)], set[Element]()
        while values:
            element = values.pop()
            if element in seen:
                continue
            seen.add(element)
            source, args = element[0], _choices(element)
            if isinstance(source, Load) and self._neighbours(element):
                used.add(source.buffer)
                inside += operands(source)
            elif args is not None and len(seen) <= self.most:
                inside.append(args[0])
                values += args[1:]
            elif not all(isinstance(e, Const) for e in element):
                return None
        if not self._neighbours(stores):
            return None
        read += inside
        return used

    def _neighbours(self, accesses: tuple[Any, ...]) -> bool:
        """Whether stores or loads are of the parts of one element."""
        first = accesses[0]
        if len(accesses) != self.parts or self._divided(first.offset) is None:
            return False
        return all(
            type(x) is type(first)
            and x.buffer is first.buffer
            and x.offset == first.offset + i
            and x.where is first.where
            for i, x in enumerate(accesses)
        )

    def _divided(self, offset: Affine) -> Affine | None:
        """The offset in elements; None if they begin elsewhere."""
        if any(k % self.parts for k in (offset.const, *offset.terms.values())):
            return None
        terms = {a: k // self.parts for a, k in offset.terms.items()}
        return Affine(terms, offset.const // self.parts)

    # -------------------------------------------------------------- rewriting

    def _nest(self, nest: LoopNest) -> LoopNest:
        stores: list[Store] = []
        for element in self._elements(nest):
            first = element[0]
            if first.buffer not in self.views:
                stores += element
                continue
            value = self._value(tuple(s.value for s in element))
            offset = self._divided(first.offset)
            assert offset is not None
            stores.append(Store(self.views[first.buffer], offset, value, first.where))
        return replace(nest, stores=tuple(stores))

    def _value(self, element: Element) -> Expr:
        """An element as an unsigned integer."""
        if element not in self.done:
            self.done[element] = self._made(element)
        return self.done[element]

    def _made(self, element: Element) -> Expr:
        b, first = self.builder, element[0]
        dtype = _UNSIGNED[self.parts * first.dtype.itemsize]
        if isinstance(first, Const):
            parts = [np.asarray(e.value, e.dtype) for e in element]  # type: ignore
            bits = b"".join(x.tobytes() for x in parts)
            return b.value(b.const(int.from_bytes(bits, "little"), dtype))
        if isinstance(first, Load):
            offset = self._divided(first.offset)
            assert offset is not None
            return b.load_where(self.views[first.buffer], offset, first.where, dtype)
        args = _choices(element)
        assert args is not None
        condition, x, y = args
        return b.instruction("select", dtype, condition, self._value(x), self._value(y))


def _choices(element: Element) -> tuple[Expr, Element, Element] | None:
    """The condition and the two elements of which one is selected, if that is so."""
    args = [e.args for e in element if isinstance(e, Instr) and e.name == "select"]
    if len(args) < len(element) or any(a[0] is not args[0][0] for a in args):
        return None
    return args[0][0], tuple(a[1] for a in args), tuple(a[2] for a in args)
