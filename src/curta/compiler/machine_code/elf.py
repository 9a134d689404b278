"""A loader for the object files that LLVM makes on Linux: map, relocate, protect.

It takes 30 microseconds where LLVM's own linker takes some hundreds, and needs no LLVM,
so a program whose kernels are cached starts without it. Code and constants are made
executable and read-only; writable data is on pages of its own.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import struct
from collections.abc import Callable, Mapping
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta._base.once import once
from curta.compiler.machine_code.relocations import (
    AArch64,
    Processor,
    UnsupportedObject,
)
from curta.errors import OutOfMemoryError

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")

_SYMTAB, _RELA, _NOBITS = 2, 4, 8
_WRITE, _ALLOC = 1, 2
_UNDEFINED, _FIRST_SPECIAL = 0, 0xFF00

_PAGE = mmap.PAGESIZE
_READ_EXECUTE = 1 | 4


@dataclass(frozen=True)
class _Section:
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


class ObjectFile:
    """The parsed tables of a relocatable ELF file for a processor."""

    def __init__(self, data: bytes, processor: Processor) -> None:
        if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
            raise UnsupportedObject("not a 64-bit little-endian ELF file")
        kind, machine = struct.unpack_from("<HH", data, 16)
        if (kind, machine) != (1, processor.number):
            raise UnsupportedObject("not a relocatable object for this processor")
        start, = struct.unpack_from("<Q", data, 0x28)  # fmt: skip
        size, count = struct.unpack_from("<HH", data, 0x3A)
        self.data = data
        self.sections: list[Any] = []
        for i in range(count):
            raw = _SECTION.unpack_from(data, start + i * size)
            _, kind, flags, _, offset, length, link, info, align, _ = raw
            self.sections.append(
                _Section(kind, flags, offset, length, link, info, max(align, 16))
            )
        table = next((s for s in self.sections if s.kind == _SYMTAB), None)
        self.symbols: list[tuple[str, int, int]] = []
        if table is not None:
            names = self.sections[table.link].offset
            for at in range(table.offset, table.offset + table.size, _SYMBOL.size):
                name, _, _, section, value, _ = _SYMBOL.unpack_from(data, at)
                self.symbols.append((self._text(names + name), section, value))

    def _text(self, start: int) -> str:
        return self.data[start : self.data.index(b"\0", start)].decode()


class Image:
    """An object file in memory, ready to run; gone when this object is."""

    def __init__(
        self, data: bytes, imports: Mapping[str, int], processor: Processor
    ) -> None:
        self._processor = processor
        try:
            self._load(ObjectFile(data, processor), imports)
        except (struct.error, IndexError, ValueError) as error:
            raise UnsupportedObject(f"damaged object file: {error}") from error

    def _load(self, parsed: ObjectFile, imports: Mapping[str, int]) -> None:
        outside = [n for n, section, _ in parsed.symbols if n and section == _UNDEFINED]
        stubs = {name: 16 * i for i, name in enumerate(outside)}
        addresses, code_size, size = _lay_out(parsed.sections, 16 * len(stubs))
        private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        try:
            self._memory = mmap.mmap(-1, max(size, 1), private)
        except OSError as error:
            raise OutOfMemoryError(size) from error
        self._base = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        image = bytearray(size)
        for name, at in stubs.items():
            image[at : at + 16] = self._processor.stub + struct.pack(
                "<Q", imports[name]
            )
        for i, address in addresses.items():
            section = parsed.sections[i]
            if section.kind != _NOBITS:
                content = parsed.data[section.offset : section.offset + section.size]
                image[address : address + section.size] = content
        for section in parsed.sections:
            if section.kind == _RELA and section.info in addresses:
                self._relocate(image, parsed, section, addresses, stubs)
        self._memory[:size] = bytes(image)
        _protect(self._base, code_size)
        if isinstance(self._processor, AArch64):
            _forget_instructions(self._base, code_size)
        self._names = {
            name: self._base + addresses[section] + value
            for name, section, value in parsed.symbols
            if name and section in addresses
        }

    def _relocate(
        self,
        image: bytearray,
        parsed: ObjectFile,
        section: _Section,
        addresses: dict[int, int],
        stubs: dict[str, int],
    ) -> None:
        address = addresses[section.info]
        end = section.offset + section.size
        for entry in range(section.offset, end, _RELOCATION.size):
            at, info, addend = _RELOCATION.unpack_from(parsed.data, entry)
            name, index, value = parsed.symbols[info >> 32]
            kind, table_entry = info & 0xFFFFFFFF, None
            if index == _UNDEFINED:
                target = stubs[name] + addend
                table_entry = target + 8
            elif index >= _FIRST_SPECIAL:
                raise UnsupportedObject(f"relocation {kind} of symbol {name!r}")
            else:
                target = addresses[index] + value + addend
            self._processor.relocate(
                image, kind, address + at, target, table_entry, self._base
            )

    def address(self, name: str) -> int:
        return self._names[name]


def _lay_out(sections: list[_Section], start: int) -> tuple[dict[int, int], int, int]:
    """Where each section goes, where the writable ones begin, and the whole size."""
    loaded = [i for i, s in enumerate(sections) if s.flags & _ALLOC and s.size]
    # `.data.rel.ro` is writable only for the relocation that happens before protecting.
    writable = [i for i in loaded if sections[i].flags & _WRITE]
    fixed = [i for i in loaded if i not in writable]
    addresses: dict[int, int] = {}
    end = start
    for i in fixed:
        end = addresses[i] = -(-end // sections[i].align) * sections[i].align
        end += sections[i].size
    code_size = end = -(-end // _PAGE) * _PAGE
    for i in writable:
        end = addresses[i] = -(-end // sections[i].align) * sections[i].align
        end += sections[i].size
    return addresses, code_size, end


def _protect(address: int, size: int) -> None:
    if _mprotect()(address, size, _READ_EXECUTE):
        number = ctypes.get_errno()
        if number == errno.ENOMEM:
            raise OutOfMemoryError(size)
        raise OSError(number, "the system does not let memory be made executable")


@once
def _mprotect() -> Callable[[int, int, int], int]:
    function = ctypes.CDLL(None, use_errno=True).mprotect
    function.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return function


def _forget_instructions(address: int, size: int) -> None:
    """Drop what the processor may have kept of instructions that lay there before.

    Linux does so for pages of data that become executable; libgcc's function, where
    there is one, says it for certain.
    """
    clear = _clear_cache()
    if clear is not None:
        clear(address, address + size)


@once
def _clear_cache() -> Callable[[int, int], None] | None:
    try:
        function = ctypes.CDLL("libgcc_s.so.1").__clear_cache
    except (OSError, AttributeError):
        return None
    function.argtypes, function.restype = [ctypes.c_void_p] * 2, None
    return function
