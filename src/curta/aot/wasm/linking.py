"""Links relocatable objects to a module of WebAssembly.

    module = link([read_object(a), read_object(b)], {"run": "digits_run"})
    module.data, module.heap

The linker keeps functions and data that exported functions reach through relocations.
Memory holds the stack first, so that an overflow leaves
memory and traps, then the data, then what the host puts there. Functions whose address
is taken are in a table, from 1 on: 0 is null.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from curta._base.lazy_dataclass import dataclass
from curta.aot.wasm import encoding as e, objects as o
from curta.aot.wasm.objects import Fixup, LinkUnit, WasmObject, WasmSymbol

STACK = 1 << 20  # bytes
PAGE = 1 << 16
_STACK_POINTER, _TABLE = "__stack_pointer", "__indirect_function_table"


class LinkError(ValueError):
    """Objects that do not fit together: a symbol is missing or defined twice."""


@dataclass(frozen=True)
class LinkedModule:
    """A finished module.

    Fields:
        data: its bytes. It exports functions and its memory, and imports nothing.
        heap: the first address after stack and data.
    """

    data: bytes
    heap: int


def link(
    objects: Sequence[WasmObject], exports: Mapping[str, str], stack: int = STACK
) -> LinkedModule:
    """Link objects to a module that imports nothing and exports `memory`.

    Args:
        objects: the objects.
        exports: the symbols of exported functions, by the names that the host sees.
        stack: bytes of the stack.

    Raises:
        LinkError: a symbol is not defined, or defined twice.
    """
    linker = _Linker(objects)
    for symbol in exports.values():
        linker.need(linker.named(symbol))
    linker.reach()
    return linker.module(exports, stack)


class _Linker:
    def __init__(self, objects: Sequence[WasmObject]) -> None:
        self.globals: dict[str, tuple[WasmObject, WasmSymbol]] = {}
        self.owner: dict[int, WasmObject] = {}
        self.kept: dict[
            int, LinkUnit
        ] = {}  # by id, in the order in which they are found
        self.functions: dict[int, int] = {}  # their indices
        self.taken: dict[int, int] = {}  # functions' places in the table
        self.types: dict[bytes, int] = {}
        self.addresses: dict[int, int] = {}
        self.uses_table = False
        for made in objects:
            for symbol in made.symbols:
                if symbol.piece is not None and not symbol.is_local:
                    if symbol.name in self.globals:
                        raise LinkError(f"{symbol.name} is defined twice")
                    self.globals[symbol.name] = made, symbol

    def named(self, name: str) -> tuple[WasmObject, WasmSymbol]:
        """Return the definition of a symbol that all objects see."""
        try:
            return self.globals[name]
        except KeyError:
            raise LinkError(f"{name} is not defined") from None

    def definition(self, made: WasmObject, index: int) -> tuple[WasmObject, WasmSymbol]:
        """Return what a symbol of an object means."""
        symbol = made.symbols[index]
        if symbol.piece is not None:
            return made, symbol
        owner, found = self.named(symbol.name)
        if symbol.kind == o.FUNCTION and found.piece is not None:
            wanted, own = made.types[symbol.type], owner.types[found.piece.type]
            if wanted != own:
                raise LinkError(f"{symbol.name} is called with a different type")
        return owner, found

    # ---- what is reached

    def need(self, found: tuple[WasmObject, WasmSymbol]) -> None:
        """Keep what a symbol names."""
        made, symbol = found
        piece = symbol.piece
        assert piece is not None
        if id(piece) not in self.kept:
            self.kept[id(piece)] = piece
            self.owner[id(piece)] = made
            if symbol.kind == o.FUNCTION:
                self.functions[id(piece)] = len(self.functions)
                self._type(made, piece.type)

    def reach(self) -> None:
        """Keep all that kept pieces refer to."""
        pieces = list(self.kept.values())
        while pieces:
            piece = pieces.pop()
            made, before = self.owner[id(piece)], len(self.kept)
            for place in piece.relocations:
                self._refer(made, place)
            pieces += list(self.kept.values())[before:]

    def _refer(self, made: WasmObject, place: Fixup) -> None:
        if place.kind == o.TYPE_INDEX:
            self._type(made, place.index)
        elif place.kind == o.TABLE_NUMBER:
            self._expect(made, place, _TABLE)
            self.uses_table = True
        elif place.kind == o.GLOBAL_INDEX:
            self._expect(made, place, _STACK_POINTER)
        else:
            found = self.definition(made, place.index)
            self.need(found)
            if place.kind in (o.TABLE_INDEX_SIGNED, o.TABLE_INDEX_I32):
                piece = found[1].piece
                self.taken.setdefault(id(piece), 1 + len(self.taken))

    def _expect(self, made: WasmObject, place: Fixup, name: str) -> None:
        found = made.symbols[place.index].name
        if found != name:
            raise LinkError(f"{found} is not provided")

    def _type(self, made: WasmObject, index: int) -> int:
        return self.types.setdefault(made.types[index], len(self.types))

    # ---- places and values

    def _lay_out(self, start: int) -> int:
        """Place the data, the most aligned first; return the end."""
        segments = [p for p in self.kept.values() if id(p) not in self.functions]
        end = start
        for piece in sorted(segments, key=lambda p: -p.align):
            end = aligned(end, piece.align)
            self.addresses[id(piece)] = end
            end += len(piece.data)
        return end

    def _value(self, made: WasmObject, place: Fixup) -> int:
        if place.kind == o.TYPE_INDEX:
            return self._type(made, place.index)
        if place.kind in (o.GLOBAL_INDEX, o.TABLE_NUMBER):
            return 0  # the only global, the only table
        _, symbol = self.definition(made, place.index)
        piece = id(symbol.piece)
        if place.kind == o.FUNCTION_INDEX:
            return self.functions[piece]
        if place.kind in (o.TABLE_INDEX_SIGNED, o.TABLE_INDEX_I32):
            return self.taken[piece]
        return self.addresses[piece] + symbol.offset + place.addend

    def _resolved(self, piece: LinkUnit) -> bytes:
        """Return the bytes of a piece, with each relocation's value in its place.

        Nothing in code counts bytes, so that numbers take as few as they can.
        """
        made, parts, end = self.owner[id(piece)], [], 0
        for place in piece.relocations:
            parts.append(piece.data[end : place.at])
            parts.append(_written(place.kind, self._value(made, place)))
            end = place.at + place.size
        return b"".join([*parts, piece.data[end:]])

    # ---- the module

    def module(self, exports: Mapping[str, str], stack: int) -> LinkedModule:
        """Return the module."""
        stack = aligned(stack, 16)
        heap = aligned(self._lay_out(stack), 64)
        pages = -(-heap // PAGE)
        pieces = list(self.kept.values())
        functions = [p for p in pieces if id(p) in self.functions]
        segments = [p for p in pieces if id(p) in self.addresses]
        bodies = [self._resolved(p) for p in functions]
        types = [self._type(self.owner[id(p)], p.type) for p in functions]
        numbers = {
            name: self.functions[id(self.named(symbol)[1].piece)]
            for name, symbol in exports.items()
        }
        parts = [
            e.section(e.TYPE, e.vector(self.types)),
            e.section(e.FUNCTION, e.vector(map(e.unsigned, types))),
            e.section(e.TABLE, self._table()),
            e.section(e.MEMORY, e.vector([e.limits(pages)])),
            e.section(e.GLOBAL, e.vector([bytes([e.I32, 1]) + e.constant(stack)])),
            e.section(e.EXPORT, _exports(numbers)),
            e.section(e.ELEMENT, self._elements()),
            e.section(e.CODE, e.vector(map(_sized, bodies))),
            e.section(e.DATA, e.vector(filter(None, map(self._segment, segments)))),
        ]
        return LinkedModule(e.HEADER + b"".join(parts), heap)

    def _table(self) -> bytes:
        if not (self.taken or self.uses_table):
            return b""
        size = e.limits(1 + len(self.taken))
        return e.vector([bytes([e.FUNCTION_REFERENCE]) + size])

    def _elements(self) -> bytes:
        if not self.taken:
            return b""
        indices = e.vector(e.unsigned(self.functions[p]) for p in self.taken)
        return e.vector([b"\0" + e.constant(1) + indices])

    def _segment(self, piece: LinkUnit) -> bytes:
        data = self._resolved(piece).rstrip(b"\0")  # memory is zero at first
        place = b"\0" + e.constant(self.addresses[id(piece)])
        return place + _sized(data) if data else b""


def aligned(address: int, align: int) -> int:
    """Return the first multiple of `align` that is not below an address."""
    return -(-address // align) * align


def _written(kind: int, value: int) -> bytes:
    if kind in o.WORDS:
        return struct.pack("<I", value & 0xFFFFFFFF)
    if kind in (o.ADDRESS_SIGNED, o.TABLE_INDEX_SIGNED):
        return e.signed(value - (1 << 32) if value >= 1 << 31 else value)
    return e.unsigned(value)


def _sized(data: bytes) -> bytes:
    return e.unsigned(len(data)) + data


def _exports(functions: Mapping[str, int]) -> bytes:
    items = [e.name(n) + b"\0" + e.unsigned(i) for n, i in functions.items()]
    return e.vector([*items, e.name("memory") + b"\2\0"])
