"""Relocatable objects of WebAssembly, as LLVM writes them.

An object is a module with three more sections: `linking` names functions, data and
globals, `reloc.CODE` and `reloc.DATA` list the places that depend on addresses. Its
format is described by the tool conventions:
https://github.com/WebAssembly/tool-conventions/blob/main/Linking.md
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import partial

from curta._base.lazy_dataclass import dataclass
from curta.aot.wasm import encoding
from curta.aot.wasm.encoding import BinaryFormatError, BinaryReader

# Kinds of symbols, and the flags read here.
FUNCTION, DATA, GLOBAL, SECTION, EVENT, TABLE = range(6)
_LOCAL, _UNDEFINED, _EXPLICIT_NAME, _ABSOLUTE = 0x02, 0x10, 0x40, 0x200

# Kinds of relocations.
FUNCTION_INDEX, TABLE_INDEX_SIGNED, TABLE_INDEX_I32 = 0, 1, 2
ADDRESS, ADDRESS_SIGNED, ADDRESS_I32 = 3, 4, 5
TYPE_INDEX, GLOBAL_INDEX, TABLE_NUMBER = 6, 7, 20
WITH_ADDEND = frozenset({ADDRESS, ADDRESS_SIGNED, ADDRESS_I32})
WORDS = frozenset({TABLE_INDEX_I32, ADDRESS_I32})  # of four bytes, not LEB128
_READ = WITH_ADDEND | WORDS | {
    FUNCTION_INDEX, TABLE_INDEX_SIGNED, TYPE_INDEX, GLOBAL_INDEX, TABLE_NUMBER,
}  # fmt: skip
_SEGMENTS, _SYMBOLS = 5, 8  # subsections of `linking`
_VERSION = 2
_PADDED = 5  # bytes of a LEB128 number with a relocation


@dataclass(frozen=True)
class Fixup:
    """A place that depends on where something lies.

    Fields:
        kind: how the value is computed and written.
        at: its offset in the function or segment that it is in.
        index: the symbol, or the type for TYPE_INDEX.
        addend: added to an address.
    """

    kind: int
    at: int
    index: int
    addend: int

    @property
    def size(self) -> int:
        """The number of bytes that it replaces."""
        return 4 if self.kind in WORDS else _PADDED


@dataclass(eq=False)
class LinkUnit:
    """A function's body or a segment of data, with its relocations.

    Fields:
        data: the bytes. Those of a function are its locals and code.
        align: the alignment of data.
        type: the index of a function's type.
        relocations: in the order of their places.
    """

    data: bytes
    align: int = 1
    type: int = 0
    relocations: list[Fixup] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class WasmSymbol:
    """A name for a function, data, a global or a table.

    Fields:
        kind: FUNCTION, DATA, GLOBAL, SECTION or TABLE.
        name: the name.
        piece: where it is defined; None if it is undefined, a global or a table.
        offset: of data in its segment.
        type: the index of the type of an undefined function.
        is_local: True if other objects do not see it.
    """

    kind: int
    name: str
    piece: LinkUnit | None = None
    offset: int = 0
    type: int = 0
    is_local: bool = False


@dataclass(frozen=True, eq=False)
class WasmObject:
    """A relocatable object.

    Fields:
        types: the types of functions, in their binary form.
        symbols: what relocations refer to.
    """

    types: Sequence[bytes]
    symbols: Sequence[WasmSymbol]


def read_object(data: bytes) -> WasmObject:
    """Read a relocatable object for 32-bit addresses.

    Raises:
        BinaryFormatError: it is something else, or has relocations of code that is
            independent of its position.
    """
    if data[: len(encoding.HEADER)] != encoding.HEADER:
        raise BinaryFormatError("not a module of WebAssembly")
    return _ObjectReader(BinaryReader(data, len(encoding.HEADER))).result()


class _ObjectReader:
    def __init__(self, reader: BinaryReader) -> None:
        self.types: list[bytes] = []
        self.imports: dict[int, list[tuple[str, int]]] = {}
        self.function_types: list[int] = []
        self.functions: list[LinkUnit] = []
        self.segments: list[LinkUnit] = []
        self.symbols: list[WasmSymbol] = []
        # For each section with pieces, its pieces and the offsets of their data.
        self.starts: dict[int, tuple[list[LinkUnit], list[int]]] = {}
        self.linked = False
        number = 0
        while not reader.done:
            kind = reader.byte()
            self._section(kind, number, reader.part())
            number += 1

    def result(self) -> WasmObject:
        if not self.linked:
            raise BinaryFormatError(
                "not a relocatable object: it has no section `linking`"
            )
        return WasmObject(self.types, self.symbols)

    def _section(self, kind: int, number: int, r: BinaryReader) -> None:
        if kind == encoding.TYPE:
            self.types = r.items(lambda: _function_type(r))
        elif kind == encoding.IMPORT:
            for import_kind, item in r.items(lambda: _import(r)):
                self.imports.setdefault(import_kind, []).append(item)
        elif kind == encoding.FUNCTION:
            self.function_types = r.items(r.unsigned)
        elif kind == encoding.CODE:
            self._pieces(number, r, self._function)
        elif kind == encoding.DATA:
            self._pieces(number, r, self._segment)
        elif kind == encoding.CUSTOM:
            name = r.name()
            if name == "linking":
                self._linking(r)
            elif name in ("reloc.CODE", "reloc.DATA"):
                self._relocations(r)

    def _pieces(self, number: int, r: BinaryReader, read: object) -> None:
        assert callable(read)
        start, pieces, offsets = r.at, [], []
        for i in range(r.unsigned()):
            piece, at = read(r, i)
            pieces.append(piece)
            offsets.append(at - start)
        self.starts[number] = pieces, offsets

    def _function(self, r: BinaryReader, index: int) -> tuple[LinkUnit, int]:
        body = r.part()
        piece = LinkUnit(body.data[body.at : body.end], type=self.function_types[index])
        self.functions.append(piece)
        return piece, body.at

    def _segment(self, r: BinaryReader, index: int) -> tuple[LinkUnit, int]:
        if r.unsigned() or r.byte() != encoding.I32_CONST:
            raise BinaryFormatError(f"segment {index} has no 32-bit address")
        r.signed()
        r.byte()
        content = r.part()
        piece = LinkUnit(content.data[content.at : content.end])
        self.segments.append(piece)
        return piece, content.at

    def _linking(self, r: BinaryReader) -> None:
        self.linked = True
        if (version := r.unsigned()) != _VERSION:
            raise BinaryFormatError(f"version {version} of `linking` is not known")
        while not r.done:
            kind, part = r.byte(), r.part()
            if kind == _SEGMENTS:
                for segment in self.segments[: part.unsigned()]:
                    part.name()
                    segment.align = 1 << part.unsigned()
                    part.unsigned()
            elif kind == _SYMBOLS:
                self.symbols = part.items(partial(self._symbol, part))

    def _symbol(self, r: BinaryReader) -> WasmSymbol:
        kind, flags = r.byte(), r.unsigned()
        local = bool(flags & _LOCAL)
        if kind == DATA:
            name = r.name()
            if flags & _UNDEFINED:
                return WasmSymbol(kind, name)
            if flags & _ABSOLUTE:
                raise BinaryFormatError(f"{name} has an absolute address")
            segment, offset, _ = (r.unsigned() for _ in range(3))
            return WasmSymbol(
                kind, name, self.segments[segment], offset, is_local=local
            )
        index = r.unsigned()
        if kind == SECTION:
            return WasmSymbol(kind, "")
        imports = self.imports.get(_IMPORT_KINDS.get(kind, -1), [])
        if flags & _UNDEFINED:
            name, type_ = imports[index]
            name = r.name() if flags & _EXPLICIT_NAME else name
            return WasmSymbol(kind, name, type=type_)
        name = r.name()
        if kind != FUNCTION:
            raise BinaryFormatError(f"{name}: objects define functions and data alone")
        return WasmSymbol(
            kind, name, self.functions[index - len(imports)], is_local=local
        )

    def _relocations(self, r: BinaryReader) -> None:
        pieces, offsets = self.starts[r.unsigned()]
        for _ in range(r.unsigned()):
            kind, at, index = r.byte(), r.unsigned(), r.unsigned()
            if kind not in _READ:
                raise BinaryFormatError(f"relocations of kind {kind} are not known")
            addend = r.signed() if kind in WITH_ADDEND else 0
            number = bisect_right(offsets, at) - 1
            place = Fixup(kind, at - offsets[number], index, addend)
            pieces[number].relocations.append(place)
        for piece in pieces:
            piece.relocations.sort(key=lambda place: place.at)


# Kinds of imports by kinds of symbols.
_IMPORT_KINDS = {FUNCTION: 0, TABLE: 1, GLOBAL: 3}


def _function_type(r: BinaryReader) -> bytes:
    start = r.at
    if r.byte() != 0x60:
        raise BinaryFormatError("a type is not a function's")
    r.items(r.byte)
    r.items(r.byte)
    return r.data[start : r.at]


def _import(r: BinaryReader) -> tuple[int, tuple[str, int]]:
    """Return an import's kind, with its name and the type of a function."""
    r.name()
    name, kind, number = r.name(), r.byte(), 0
    if kind == 0:
        number = r.unsigned()
    elif kind == 1:
        r.byte()
        _limits(r)
    elif kind == 2:
        if _limits(r) & 4:
            raise BinaryFormatError("addresses have 64 bits")
    else:
        r.byte()
        r.byte()
    return kind, (name, number)


def _limits(r: BinaryReader) -> int:
    flags = r.unsigned()
    r.unsigned()
    if flags & 1:
        r.unsigned()
    return flags


def undefined_functions(made: WasmObject) -> Iterator[str]:
    """Yield the names of functions that an object expects of others."""
    for symbol in made.symbols:
        if symbol.kind == FUNCTION and symbol.piece is None:
            yield symbol.name
