"""Transposes of rows in assembly, for x86-64 with AVX2 or AVX-512 on Linux.

What `RowTranspose` (transposes.py) has in LLVM IR, for every processor: LLVM takes ten
milliseconds to look for something better than 64 shuffles, its assembler half of one.
"""

from __future__ import annotations

from collections.abc import Iterator

# Registers of the arguments (System V ABI), in bytes where they count elements.
_TO, _WIDTH, _FROM, _ROW, _LAST, _STEPS = "rdi", "rsi", "rdx", "rcx", "r8", "r9"
_INDEX, _FIRST, _HERE, _MOVED = "rax", "r10", "r11", "rbx"


def has_assembly(element_bytes: int, vector_bytes: int) -> bool:
    """Whether there is a transpose for such elements and vectors."""
    return element_bytes in (4, 8) and vector_bytes in (32, 64)


def transpose_assembly(name: str, size: int, vector_bytes: int) -> list[str]:
    """The lines of the function, for elements of `size` bytes, in AT&T syntax."""
    return list(_TransposeWriter(name, size, vector_bytes).function())


class _TransposeWriter:
    def __init__(self, name: str, size: int, vector_bytes: int) -> None:
        self.name = name
        self.size = size
        self.bytes = vector_bytes
        self.lanes = vector_bytes // size
        self.part = 16 // size  # elements of a part, within which `vunpck` moves

    def function(self) -> Iterator[str]:
        yield from (".text", f".globl {self.name}", ".p2align 4", f"{self.name}:")
        yield f"pushq %{_MOVED}"
        for distance in (_WIDTH, _ROW):
            yield f"leaq (,%{distance},{self.size}), %{distance}"
        yield f"cmpq ${self.lanes}, %{_STEPS}"
        yield "jl 2f"
        yield from self._squares()
        yield "jmp 6f"
        yield "2:"
        yield from self._elements()
        yield from ("6:", f"popq %{_MOVED}", "vzeroupper", "retq")

    def _register(self, row: int, bank: int) -> str:
        return f"%{'zmm' if self.bytes == 64 else 'ymm'}{row + bank * self.lanes}"

    def _squares(self) -> Iterator[str]:
        """Squares in registers; the last one may overlap the one before."""
        yield f"xorl %eax, %eax  # {_INDEX}"
        yield "1:"
        yield f"leaq -{self.lanes}(%{_STEPS}), %{_FIRST}"
        yield f"cmpq %{_INDEX}, %{_FIRST}"
        yield f"cmovgq %{_INDEX}, %{_FIRST}"
        yield f"leaq (%{_FROM},%{_FIRST},{self.size}), %{_HERE}"
        for row in range(self.lanes):
            if row:
                yield f"xorl %ebx, %ebx  # {_MOVED}"
                yield f"cmpq ${row - 1}, %{_LAST}"
                yield f"cmovgq %{_ROW}, %{_MOVED}"
                yield f"addq %{_MOVED}, %{_HERE}"
            yield f"vmovups (%{_HERE}), {self._register(row, 0)}"
        yield from self._shuffles()
        yield f"imulq %{_WIDTH}, %{_FIRST}"
        yield f"addq %{_TO}, %{_FIRST}"
        for register in self._columns():
            yield f"vmovups {register}, (%{_FIRST})"
            yield f"addq %{_WIDTH}, %{_FIRST}"
        yield f"addq ${self.lanes}, %{_INDEX}"
        yield f"cmpq %{_STEPS}, %{_INDEX}"
        yield "jl 1b"

    def _shuffles(self) -> Iterator[str]:
        """Butterflies from one bank of registers to the other."""
        bank, distance = 0, 1
        while distance < self.lanes:
            low, high = self._operations(distance)
            for i in range(self.lanes):
                if not i & distance:
                    j = i + distance
                    pair = f"{self._register(j, bank)}, {self._register(i, bank)}"
                    yield f"{low}{pair}, {self._register(i, 1 - bank)}"
                    yield f"{high}{pair}, {self._register(j, 1 - bank)}"
            bank, distance = 1 - bank, 2 * distance

    def _columns(self) -> list[str]:
        """The registers of the columns after the butterflies."""
        bank = self.lanes.bit_length() % 2 ^ 1
        order = (0, 2, 1, 3) if self.part == 4 else (0, 1)
        return [
            self._register(first + j, bank)
            for first in range(0, self.lanes, self.part)
            for j in order
        ]

    def _operations(self, distance: int) -> tuple[str, str]:
        """What puts halves of two rows together: of parts, or whole parts of both."""
        if distance < self.part:
            kind = "s" if distance * self.size == 4 else "d"
            return f"vunpcklp{kind} ", f"vunpckhp{kind} "
        if self.bytes == 64:
            return "vshuff32x4 $0x88, ", "vshuff32x4 $0xdd, "
        return "vperm2f128 $0x20, ", "vperm2f128 $0x31, "

    def _elements(self) -> Iterator[str]:
        """Rows too short for a square, one element after the other."""
        value = "%r10d" if self.size == 4 else "%r10"
        yield f"testq %{_STEPS}, %{_STEPS}"
        yield "jle 6f"
        yield "3:"
        yield f"movq %{_FROM}, %{_HERE}"
        yield "xorl %eax, %eax"
        yield "4:"
        yield f"mov (%{_HERE}), {value}"
        yield f"mov {value}, (%{_TO},%{_INDEX},{self.size})"
        yield f"cmpq %{_LAST}, %{_INDEX}"
        yield "jge 5f"
        yield f"addq %{_ROW}, %{_HERE}"
        yield "5:"
        yield f"incq %{_INDEX}"
        yield f"cmpq ${self.lanes}, %{_INDEX}"
        yield "jl 4b"
        yield f"addq %{_WIDTH}, %{_TO}"
        yield f"addq ${self.size}, %{_FROM}"
        yield f"decq %{_STEPS}"
        yield "jnz 3b"
