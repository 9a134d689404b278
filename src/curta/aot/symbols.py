"""The symbols that an object file expects of other files."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

_SYMTAB = 2  # a section of ELF, and a command of Mach-O
_EXTERNAL, _TYPE = 1, 0x0E  # bits of symbols of Mach-O


def undefined_symbols(data: bytes, object_format: str) -> tuple[str, ...]:
    """Return the names of undefined symbols of an object file, sorted.

    Names are those of C: without the underscore that Mach-O adds.

    Args:
        data: the file, little-endian.
        object_format: `elf`, `coff` or `macho`.

    Raises:
        ValueError: the file has another format.
    """
    try:
        names = set(_READERS[object_format](data))
    except (KeyError, struct.error, IndexError) as error:
        raise ValueError(f"not an object file of format {object_format}") from error
    return tuple(sorted(names))


def _elf(data: bytes) -> Iterator[str]:
    if data[:4] != b"\x7fELF" or data[5] != 1:
        raise IndexError
    wide = data[4] == 2
    (table,) = struct.unpack_from(*("<Q", data, 0x28) if wide else ("<I", data, 0x20))
    size, count = struct.unpack_from("<HH", data, 0x3A if wide else 0x2E)
    form = "<IIQQQQIIQQ" if wide else "<IIIIIIIIII"
    sections = [struct.unpack_from(form, data, table + i * size) for i in range(count)]
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind != _SYMTAB:
            continue
        step, strings = 24 if wide else 16, sections[link][4]
        for at in range(offset, offset + length, step):
            (name,) = struct.unpack_from("<I", data, at)
            (section,) = struct.unpack_from("<H", data, at + (6 if wide else 14))
            if name and section == 0:
                yield _text(data, strings + name)


def _coff(data: bytes) -> Iterator[str]:
    table, count = struct.unpack_from("<II", data, 8)
    strings, at = table + 18 * count, table
    while at < strings:
        raw, value, section, _, storage, more = struct.unpack_from("<8sIhHBB", data, at)
        if section == 0 and value == 0 and storage == 2:  # external
            long = raw[:4] == bytes(4)
            (place,) = struct.unpack_from("<I", raw, 4)
            yield _text(data, strings + place) if long else _text(raw + b"\0", 0)
        at += 18 * (1 + more)


def _macho(data: bytes) -> Iterator[str]:
    magic, _, _, _, commands, *_ = struct.unpack_from("<7I", data, 0)
    if magic != 0xFEEDFACF:
        raise IndexError
    at = 32
    for _ in range(commands):
        kind, size = struct.unpack_from("<II", data, at)
        if kind == _SYMTAB:
            table, count, strings, _ = struct.unpack_from("<4I", data, at + 8)
            for i in range(count):
                name, bits = struct.unpack_from("<IB", data, table + 16 * i)
                if bits & _EXTERNAL and not bits & _TYPE:
                    yield _text(data, strings + name).removeprefix("_")
        at += size


def _text(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode()


_READERS: dict[str, Callable[[bytes], Iterator[str]]] = {
    "elf": _elf,
    "coff": _coff,
    "macho": _macho,
}
