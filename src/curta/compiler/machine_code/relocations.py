"""How the processors' object files refer to addresses: relocations, and stubs.

An address is an offset in the image of a file, which is mapped as one piece. A stub of
16 bytes stands for a symbol outside of the file: it jumps to any address in memory,
which its second half holds and which serves as the symbol's entry in the offset table.
"""

from __future__ import annotations

import struct
from typing import ClassVar


class UnsupportedObject(Exception):
    """The object has something that the loader does not know."""


class Processor:
    """The relocations of a kind of processor, by its number in ELF files."""

    number: ClassVar[int]
    stub: ClassVar[bytes]
    """The first half of a stub."""

    def relocate(
        self, image: bytearray, kind: int, at: int, symbol: int, entry: int | None,
        base: int,
    ) -> None:  # fmt: skip
        """Apply a relocation to the bytes at an address.

        Args:
            image: the bytes of the mapped file.
            kind: the number of the relocation.
            at: the address of the bytes to change.
            symbol: that of the symbol, or of its stub, plus the addend.
            entry: that of its entry in the offset table, plus the addend; None for a
                symbol of the same file, which needs none.
            base: the address of the image, a multiple of the size of pages.

        Raises:
            UnsupportedObject: the relocation is not known.
        """
        raise NotImplementedError


class X8664(Processor):
    """System V ABI for AMD64, 4.4.1."""

    number = 62
    stub = b"\xff\x25\x02\x00\x00\x00\xcc\xcc"  # jmp *2(%rip); two bytes of padding

    _ABS64, _PC32, _PLT32, _PC64 = 1, 2, 4, 24
    _GOT_RELATIVE = (9, 41, 42)
    # The last two may be relaxed: `mov symbol@GOTPCREL(%rip)` becomes
    # `lea symbol(%rip)` where the symbol is of the same file (B.2).
    _RELAXED = (41, 42)
    _MOV, _LEA = 0x8B, 0x8D

    def relocate(
        self, image: bytearray, kind: int, at: int, symbol: int, entry: int | None,
        base: int,
    ) -> None:  # fmt: skip
        if kind in self._GOT_RELATIVE:
            if entry is None:
                if kind not in self._RELAXED or image[at - 2] != self._MOV:
                    raise UnsupportedObject(f"relocation {kind} of an own symbol")
                image[at - 2] = self._LEA
            target = symbol if entry is None else entry
            struct.pack_into("<i", image, at, target - at)
        elif kind in (self._PC32, self._PLT32):
            struct.pack_into("<i", image, at, symbol - at)
        elif kind == self._PC64:
            struct.pack_into("<q", image, at, symbol - at)
        elif kind == self._ABS64:
            struct.pack_into("<Q", image, at, base + symbol)
        else:
            raise UnsupportedObject(f"relocation type {kind}")


class AArch64(Processor):
    """ELF for the Arm 64-bit Architecture, 5.7."""

    number = 183
    stub = struct.pack("<II", 0x58000050, 0xD61F0200)  # ldr x16, .+8; br x16

    _ABS64, _PREL64, _PREL32 = 257, 260, 261
    _BRANCHES = (282, 283)  # b, bl
    _PAGE, _GOT_PAGE = 275, 311  # adrp
    # The low 12 bits in an add or a load, whose field counts in units of its size.
    _SHIFTS: ClassVar = {277: 0, 278: 0, 284: 1, 285: 2, 286: 3, 299: 4}
    _GOT_LOW = 312  # ldr, of an entry of the offset table
    _ADD = 0x91000000  # add, of 64 bits
    _REGISTERS = 0x3FF

    def relocate(
        self, image: bytearray, kind: int, at: int, symbol: int, entry: int | None,
        base: int,
    ) -> None:  # fmt: skip
        if kind == self._ABS64:
            return struct.pack_into("<Q", image, at, base + symbol)
        if kind == self._PREL64:
            return struct.pack_into("<q", image, at, symbol - at)
        if kind == self._PREL32:
            return struct.pack_into("<i", image, at, symbol - at)
        (word,) = struct.unpack_from("<I", image, at)
        if kind in self._BRANCHES:
            word |= _field((symbol - at) >> 2, 26)
        elif kind in (self._PAGE, self._GOT_PAGE):
            own = kind == self._PAGE or entry is None
            pages = ((symbol if own else entry or 0) >> 12) - (at >> 12)
            word |= _field(pages & 3, 2) << 29 | _field(pages >> 2, 19) << 5
        elif kind in self._SHIFTS:
            word |= (symbol & 0xFFF) >> self._SHIFTS[kind] << 10
        elif kind == self._GOT_LOW and entry is not None:
            word |= (entry & 0xFFF) >> 3 << 10
        elif kind == self._GOT_LOW:  # relaxed: the address is computed, not loaded
            word = self._ADD | (symbol & 0xFFF) << 10 | word & self._REGISTERS
        else:
            raise UnsupportedObject(f"relocation type {kind}")
        return struct.pack_into("<I", image, at, word)


def _field(number: int, bits: int) -> int:
    """The bit field of a number; raises if it does not fit, signed or unsigned."""
    if not -1 << (bits - 1) <= number < 1 << bits:
        raise UnsupportedObject("an address is too far away")
    return number & ((1 << bits) - 1)


PROCESSORS = {"x86_64": X8664(), "aarch64": AArch64()}
