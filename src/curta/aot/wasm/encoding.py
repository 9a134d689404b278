"""The binary form of WebAssembly: numbers, names and sections.

Numbers are LEB128: seven bits a byte, lowest first, and a bit that says whether more
follow. https://webassembly.github.io/spec/core/binary/
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

HEADER = b"\0asm" + (1).to_bytes(4, "little")

CUSTOM, TYPE, IMPORT, FUNCTION, TABLE, MEMORY, GLOBAL, EXPORT = range(8)
START, ELEMENT, CODE, DATA, DATA_COUNT = range(8, 13)

I32 = 0x7F  # a value type
FUNCTION_REFERENCE = 0x70
I32_CONST, END = 0x41, 0x0B  # opcodes


class BinaryFormatError(ValueError):
    """Bytes that are not what the format says, or use a part that is not read here."""


class BinaryReader:
    """Reads bytes from a place on.

    Fields:
        data: the bytes.
        at: the offset of the next byte.
        end: where to stop.
    """

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data, self.at = data, at
        self.end = len(data) if end is None else end
        if self.end > len(data):
            raise BinaryFormatError("WebAssembly ends too early")

    @property
    def done(self) -> bool:
        """Whether nothing is left."""
        return self.at >= self.end

    def byte(self) -> int:
        """Return the next byte."""
        if self.done:
            raise BinaryFormatError("WebAssembly ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self) -> int:
        """Return an unsigned number."""
        result = shift = 0
        while True:
            byte = self.byte()
            result |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return result

    def signed(self) -> int:
        """Return a signed number."""
        result = shift = 0
        while True:
            byte = self.byte()
            result |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return result - (1 << shift) if byte & 0x40 else result

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if self.at + count > self.end:
            raise BinaryFormatError("WebAssembly ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def part(self) -> BinaryReader:
        """Return a reader of the bytes whose number comes first, and step over them."""
        size = self.unsigned()
        start = self.at
        self.take(size)
        return BinaryReader(self.data, start, start + size)

    def name(self) -> str:
        """Return a string."""
        return self.take(self.unsigned()).decode()

    def items(self, read: Callable[[], T]) -> list[T]:
        """Return the items of a vector, each read by a function."""
        return [read() for _ in range(self.unsigned())]


def unsigned(value: int) -> bytes:
    """Return an unsigned number in as few bytes as it takes.

    >>> unsigned(624485).hex()
    'e58e26'
    """
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def signed(value: int) -> bytes:
    """Return a signed number in as few bytes as it takes.

    >>> signed(-123456).hex()
    'c0bb78'
    """
    out = bytearray()
    while not -0x40 <= value < 0x40:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value & 0x7F)
    return bytes(out)


def name(text: str) -> bytes:
    """Return a string, with its length before it."""
    raw = text.encode()
    return unsigned(len(raw)) + raw


def vector(items: Iterable[bytes]) -> bytes:
    """Return items, with their number before them."""
    parts = list(items)
    return unsigned(len(parts)) + b"".join(parts)


def section(number: int, content: bytes) -> bytes:
    """Return a section, or nothing if it has no content."""
    return bytes([number]) + unsigned(len(content)) + content if content else b""


def limits(least: int) -> bytes:
    """Return the limits of a memory or a table without a maximum."""
    return b"\0" + unsigned(least)


def constant(value: int) -> bytes:
    """Return the expression of an address."""
    wrapped = value - (1 << 32) if value >= 1 << 31 else value
    return bytes([I32_CONST]) + signed(wrapped) + bytes([END])
