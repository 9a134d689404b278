"""Static libraries: `ar` archives with an index of symbols.

System V's variant has an index of big-endian offsets (`/`), BSD's one of little-endian
pairs (`__.SYMDEF`), and Microsoft's both the first and a sorted one. Times, owners and
modes are fixed, so that equal members make equal bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from curta._base.lazy_dataclass import dataclass

_MAGIC = b"!<arch>\n"
_HEADER = 60  # bytes before each member


@dataclass(frozen=True)
class Member:
    """An object file of an archive, with the symbols that it defines for others."""

    name: str
    data: bytes
    symbols: tuple[str, ...]


def archive(members: Sequence[Member], object_format: str) -> bytes:
    """Return an archive of object files of a format: `elf`, `coff`, `macho`, `wasm`.

    Names of members are at most 15 characters long.
    """
    if object_format == "macho":
        return _bsd(members)
    return _system_v(members, object_format == "coff")


def _system_v(members: Sequence[Member], sorted_index: bool) -> bytes:
    names = [n for m in members for n in m.symbols]
    text = b"".join(n.encode() + b"\0" for n in names)
    sizes = [4 + 4 * len(names) + len(text)]
    if sorted_index:
        sizes.append(4 + 4 * len(members) + 4 + 2 * len(names) + len(text))
    start = len(_MAGIC) + sum(_padded(_HEADER + size) for size in sizes)
    places = _places(members, start)
    offsets = [at for at, m in zip(places, members) for _ in m.symbols]
    parts = [struct.pack(f">I{len(names)}I", len(names), *offsets) + text]
    if sorted_index:
        numbers = [i + 1 for i, m in enumerate(members) for _ in m.symbols]
        order = sorted(range(len(names)), key=lambda i: names[i].encode())
        parts.append(
            struct.pack(f"<I{len(members)}I", len(members), *places)
            + struct.pack(f"<I{len(names)}H", len(names), *(numbers[i] for i in order))
            + b"".join(names[i].encode() + b"\0" for i in order)
        )
    return _MAGIC + b"".join(
        [*(_member("/", p) for p in parts)]
        + [_member(f"{m.name}/", m.data) for m in members]
    )


def _bsd(members: Sequence[Member]) -> bytes:
    names = [n for m in members for n in m.symbols]
    text = b"".join(n.encode() + b"\0" for n in names)
    text += bytes(-len(text) % 8)
    start = len(_MAGIC) + _padded(_HEADER + 8 + 8 * len(names) + len(text))
    places = _places(members, start)
    offsets = [at for at, m in zip(places, members) for _ in m.symbols]
    ranlib, at = b"", 0
    for name, offset in zip(names, offsets, strict=True):
        ranlib += struct.pack("<II", at, offset)
        at += len(name.encode()) + 1
    index = (
        struct.pack("<I", len(ranlib)) + ranlib + struct.pack("<I", len(text)) + text
    )
    return (
        _MAGIC
        + _member("__.SYMDEF", index)
        + b"".join(_member(m.name, m.data) for m in members)
    )


def _places(members: Sequence[Member], start: int) -> list[int]:
    places = []
    for m in members:
        places.append(start)
        start += _padded(_HEADER + len(m.data))
    return places


def _padded(size: int) -> int:
    return size + size % 2


def _member(name: str, data: bytes) -> bytes:
    size = len(data)
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{size:<10}`\n".encode()
    assert len(head) == _HEADER, name
    return head + data + b"\n" * (size % 2)
