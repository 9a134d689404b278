"""Tiles in assembly, for x86-64 with fused multiply-add on Linux: of floats, and of
words of several numbers where AVX-512 multiplies these (VNNI, BF16).

What tile.py has in LLVM IR, for every processor, is written here for one family, as
libraries of linear algebra do (F. Van Zee and R. van de Geijn, BLIS: A Framework for
Rapidly Instantiating BLAS Functionality, 2015): LLVM's code generator takes some ten
milliseconds to keep 24 sums in registers, its assembler half of one. Both are tested
against one another; the order of all operations is the same, so results are too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from curta.compiler.library.tile_shape import (
    A_NEXT,
    A_ROW,
    A_STEP,
    B_NEXT,
    B_STEP,
    C_NEXT,
    C_ROW,
    COLUMNS,
    STEPS,
    Tile,
    element,
)

# Registers of the arguments (System V ABI), and of what a tile never changes.
_C, _A, _B, _COUNT, _BEGUN, _NUMBERS = "rdi", "rsi", "rdx", "rcx", "r8", "r9"
_ROW, _ROW_3, _STEP, _B_STEP = "r12", "r13", "r14", "r15"  # _ROW_3: 3 * _ROW
_KEPT = ("rbx", _ROW, _ROW_3, _STEP, _B_STEP)  # saved for the caller
# Addresses of an element of each of four rows.
_ELEMENTS = ("(%{})", f"(%{{}},%{_ROW})", f"(%{{}},%{_ROW},2)", f"(%{{}},%{_ROW_3})")
# Registers that change: pointers into A and B, steps left, pointer along rows.
_A_HERE, _B_HERE, _LEFT, _PLACE = "r10", "r11", "rbx", "rax"

_MULTIPLY_ADD = {"f32": "vfmadd231ps", "f64": "vfmadd231pd", "i8x4": "vpdpbusd",
                 "i16x2": "vpdpwssd", "bf16x2": "vdpbf16ps"}  # fmt: skip


def tile_assembly(tile: Tile, vector_bytes: int) -> list[str]:
    """The lines of the function of a tile, in AT&T syntax."""
    return list(_TileWriter(tile, vector_bytes).function())


class _TileWriter:
    def __init__(self, tile: Tile, vector_bytes: int) -> None:
        self.tile = tile
        self.bytes = vector_bytes
        self.wide = vector_bytes == 64  # AVX-512, or else AVX2
        self.size = element(tile.kind).size
        self.letter = "s" if self.size == 4 else "d"
        self.add = _MULTIPLY_ADD[tile.kind]
        self.registers = "zmm" if self.wide else "ymm"
        self.sums = tile.rows * tile.vectors
        # Vectors of B and copies of elements of A are in the last registers.
        self.first_b = 24 if self.wide else 12

    def function(self) -> Iterator[str]:
        tile = self.tile
        yield from (".text", f".globl {tile.name}", ".p2align 4", f"{tile.name}:")
        yield from (f"pushq %{name}" for name in _KEPT)
        yield f"movq {8 * A_ROW}(%{_NUMBERS}), %{_ROW}"
        yield f"leaq (%{_ROW},%{_ROW},2), %{_ROW_3}"
        if not tile.whole:
            yield from self._mask()
        yield "1:"
        yield from self._start()
        yield from self._steps()
        yield from self._totals()
        yield from self._rows(self._store)
        for pointer, word in ((_C, C_NEXT), (_A, A_NEXT), (_B, B_NEXT)):
            yield f"addq {8 * word}(%{_NUMBERS}), %{pointer}"
        yield f"decq %{_COUNT}"
        yield "jnz 1b"
        yield from (f"popq %{name}" for name in reversed(_KEPT))
        yield from ("vzeroupper", "retq")
        if not self.wide and not tile.whole:
            yield from (".section .rodata", f"{tile.name}_mask:")
            yield from (".fill 32, 1, 255", ".fill 32, 1, 0")

    def _sum(self, i: int) -> str:
        return f"%{self.registers}{i}"

    def _mask(self) -> Iterator[str]:
        """The columns of the last vector: in k1, or as bits of lanes in ymm15."""
        yield f"movq {8 * COLUMNS}(%{_NUMBERS}), %{_PLACE}"
        if self.wide:
            yield "movl $-1, %r10d"
            yield "bzhil %eax, %r10d, %r10d"
            yield "kmovw %r10d, %k1"
            return
        yield f"negq %{_PLACE}"
        yield f"leaq {self.tile.name}_mask(%rip), %r10"
        yield f"vmovups 32(%r10,%{_PLACE},{self.size}), %ymm15"

    def _start(self) -> Iterator[str]:
        """The initial accumulators: zeros."""
        for i in range(self.sums):
            x = f"%xmm{i}" if i < 16 else self._sum(i)
            yield f"{'vxorps' if i < 16 else 'vpxord'} {x}, {x}, {x}"

    def _totals(self) -> Iterator[str]:
        """Add the elements of the result, which other blocks of steps have left."""
        yield f"testq %{_BEGUN}, %{_BEGUN}"
        yield "jz 2f"
        yield from self._rows(self._more)
        yield "2:"

    def _more(self, pointer: str, j: int, register: str) -> str:
        before = f"%{self.registers}{self.first_b}"
        add = {"f32": "vaddps", "bf16x2": "vaddps", "f64": "vaddpd"}
        name = add.get(self.tile.kind, "vpaddd")
        load = self._load(pointer, j, before)
        return f"{load}\n{name} {before}, {register}, {register}"

    def _rows(self, access: Callable[[str, int, str], str]) -> Iterator[str]:
        """Loads or stores of all sums."""
        yield f"movq %{_C}, %{_PLACE}"
        yield f"movq {8 * C_ROW}(%{_NUMBERS}), %{_A_HERE}"
        for row in range(self.tile.rows):
            for j in range(self.tile.vectors):
                register = self._sum(row * self.tile.vectors + j)
                yield access(_PLACE, j, register)
            yield f"addq %{_A_HERE}, %{_PLACE}"

    def _is_part(self, j: int) -> bool:
        return j == self.tile.vectors - 1 and not self.tile.whole

    def _load(self, pointer: str, j: int, register: str) -> str:
        address, letter = f"{j * self.bytes}(%{pointer})", self.letter
        if not self._is_part(j):
            return f"vmovup{letter} {address}, {register}"
        if self.wide:
            return f"vmovup{letter} {address}, {register}{{%k1}}{{z}}"
        return f"vmaskmovp{letter} {address}, %ymm15, {register}"

    def _store(self, pointer: str, j: int, register: str) -> str:
        address, letter = f"{j * self.bytes}(%{pointer})", self.letter
        if not self._is_part(j):
            return f"vmovup{letter} {register}, {address}"
        if self.wide:
            return f"vmovup{letter} {register}, {address}{{%k1}}"
        return f"vmaskmovp{letter} {register}, %ymm15, {address}"

    def _steps(self) -> Iterator[str]:
        """All steps, one after the other or as they are listed."""
        yield f"movq {8 * STEPS}(%{_NUMBERS}), %{_LEFT}"
        yield f"movq {8 * A_STEP}(%{_NUMBERS}), %{_STEP}"
        if self.tile.listed:
            yield f"addq %{_NUMBERS}, %{_STEP}"
        else:
            yield f"movq {8 * B_STEP}(%{_NUMBERS}), %{_B_STEP}"
            yield f"movq %{_A}, %{_A_HERE}"
            yield f"movq %{_B}, %{_B_HERE}"
        yield ".p2align 6"
        yield "4:"
        if self.tile.listed:
            for i, (start, here) in enumerate(((_A, _A_HERE), (_B, _B_HERE))):
                yield f"movq {8 * i}(%{_STEP}), %{here}"
                yield f"addq %{start}, %{here}"
            yield f"addq $16, %{_STEP}"
            yield from self._add()
        else:
            yield from self._add()
            yield f"addq %{_STEP}, %{_A_HERE}"
            yield f"addq %{_B_STEP}, %{_B_HERE}"
        yield f"decq %{_LEFT}"
        yield "jnz 4b"

    def _add(self) -> Iterator[str]:
        """One step: a row of B, and an element of A for each row of the tile."""
        vectors, letter = self.tile.vectors, self.letter
        right = [f"%{self.registers}{self.first_b + j}" for j in range(vectors)]
        for j, register in enumerate(right):
            yield self._load(_B_HERE, j, register)
        copies = 4 if self.wide else 1
        for row in range(self.tile.rows):
            base = _PLACE if row >= 4 else _A_HERE
            if row and row % 4 == 0:
                yield f"leaq (%{base if row > 4 else _A_HERE},%{_ROW},4), %{_PLACE}"
            address = _ELEMENTS[row % 4].format(base)
            first = row * vectors
            if self.wide and vectors == 1 and self.tile.kind != "i8x4":
                spread = f"{address}{{1to{64 // self.size}}}"
                yield f"{self.add} {spread}, {right[0]}, {self._sum(first)}"
                continue
            copy = f"%{self.registers}{(28 if self.wide else 14) + row % copies}"
            yield f"vbroadcasts{letter} {address}, {copy}"
            for j, register in enumerate(right):
                yield f"{self.add} {register}, {copy}, {self._sum(first + j)}"
