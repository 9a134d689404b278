"""A program as one module of LLVM IR that needs no process of Curta's.

The entries of programs find all addresses in tables of words (emit/entry.py). In a
process the loader fills these in. A standalone module fills them in itself: constants
and the words of programs are read-only data, code is named by symbols, and there is no
thread and no cancellation (null, and a token of zeros). Equal modules of IR and equal
constants are in it once, whichever functions use them.

    module = StandaloneModule("model", target)
    program = module.add(emit(lower(closed, target)))
    program.entry, program.words  # symbols
    module.text()
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.compiler.callee import Callee
from curta.compiler.code_generator import QUICK
from curta.compiler.emit.emission import ProgramCode
from curta.compiler.library.blas_buffers_code import ENTER, LEAVE
from curta.compiler.machine_code.linked import ModuleSource, Recipe
from curta.compiler.program.program import Program
from curta.compiler.targets import Target

NDArray = np.ndarray[Any, Any]

_SYMBOL = re.compile(r"@([A-Za-z_.$][\w.$]*)")
_WORD = re.compile(r"[A-Za-z_.$][\w.$]*")
_DEFINED = re.compile(r"^define [^@]*@([\w.$]+)\(", re.MULTILINE)
_TABLE = re.compile(r"^@([\w.$]+) = internal", re.MULTILINE)
_DECLARED = re.compile(r"^declare [^@]*@([\w.$]+)\(")
_ASSEMBLY = re.compile(r'^module asm "([^"]*)"$', re.MULTILINE)
_METADATA = "!0 = !{i32 1}"
# Constants above this size are read by the assembler, not written as text.
_INCLUDED_BYTES = 1 << 12


@dataclass(frozen=True)
class Weight:
    """A constant that the caller provides when it calls: the address of an array."""

    index: int


Words = tuple["str | Weight | StandaloneProgram | None", ...]


@dataclass(frozen=True, eq=False)
class StandaloneProgram:
    """A program in a standalone module.

    Fields:
        entry: symbol of its entry, `i64 entry(ptr table)`.
        words: the words of the table after the arrays: a symbol, a weight, the words of
            a callee, or null.
        symbol: symbol of these words as data; null stands in it for weights.
        arena_word: index of the word that takes the address of the arena. The token and
            the launcher of threads are the words after and before.
        arena_bytes: size of the arena, whose address is a multiple of 64.
        parallel: True if it asks for threads.
    """

    entry: str
    words: Words
    symbol: str
    arena_word: int
    arena_bytes: int
    parallel: bool

    @property
    def is_fixed(self) -> bool:
        """Whether no word depends on the call."""
        given = (w for w in self.words if not isinstance(w, str | None))
        return all(isinstance(w, StandaloneProgram) and w.is_fixed for w in given)


class StandaloneModule:
    """Programs and their callees, constants and library, as one module of IR.

    Args:
        prefix: begins the names of all symbols.
        target: the machine of the code.
        folder: where constants are stored for the assembler. It must exist until the
            module is compiled.
        weights: for constants that are not to be in the module, a function that returns
            their index; None for others.
    """

    def __init__(
        self, prefix: str, target: Target, folder: str, weights: Any = None
    ) -> None:
        self.prefix, self.target, self.folder = prefix, target, folder
        self.weights = weights
        self.externals: dict[str, None] = {}
        self._symbols: dict[Recipe, str] = {}
        self._constants: dict[tuple[bytes, int], str] = {}
        self._assembly: list[str] = []
        self._globals: list[str] = []
        self._functions: list[str] = []
        self._declared: dict[str, str] = {}
        self._defined: set[str] = set()
        self._count = 0

    # ---- programs

    def add(self, codes: Sequence[ProgramCode]) -> StandaloneProgram:
        """Add a program and its callees, which come before it.

        Precondition: no callee runs Python or calls other hosts, and no code depends on
        sizes.
        """
        made: dict[Callee, StandaloneProgram] = {}
        for code in codes:
            made[code.program] = self._program(code, made)
        return made[codes[-1].program]

    def _program(
        self, code: ProgramCode, made: dict[Callee, StandaloneProgram]
    ) -> StandaloneProgram:
        program: Program = code.program
        words: list[str | Weight | StandaloneProgram | None]
        words = [self.constant(x) for x in program.consts]
        words += [None, None, None]
        for callee in program.callees:
            words += [made[callee].entry, made[callee]]
        words += [self.source(x) for x in code.library]
        return StandaloneProgram(
            entry=self.source(code.entry),
            words=tuple(words),
            symbol=self._words(words),
            arena_word=program.arena_word,
            arena_bytes=int(program.arena_bytes),
            parallel=code.parallel,
        )

    def _words(self, words: Sequence[Any]) -> str:
        symbols = [w.symbol if isinstance(w, StandaloneProgram) else w for w in words]
        return self.pointers([s if isinstance(s, str) else None for s in symbols])

    # ---- data

    def pointers(self, symbols: Sequence[str | None]) -> str:
        """Return the symbol of a read-only array of addresses; None is null."""
        texts = [f"ptr @{s}" if s else "ptr null" for s in symbols]
        name = self._new("words")
        data = f"[{len(texts)} x ptr] [{', '.join(texts)}]"
        self._globals.append(f"@{name} = internal constant {data}, align 8")
        return name

    def constant(self, array: NDArray) -> str | Weight:
        """Return the symbol of a read-only array, or the weight that it is."""
        weight = self.weights(array) if self.weights else None
        if weight is not None:
            return Weight(weight)
        return self.data(np.ascontiguousarray(array).tobytes())

    def data(self, data: bytes, align: int = 64) -> str:
        """Return the symbol of read-only bytes; equal ones are one."""
        name = self._constants.get((data, align))
        if name is None:
            name = self._constants[data, align] = self._new("data")
            size = f"[{len(data)} x i8]"
            if len(data) > _INCLUDED_BYTES and self.target.assembles:
                self._include(name, data, align)
                declared = f"@{name} = external hidden constant {size}"
            else:
                text = "".join(f"\\{byte:02X}" for byte in data)
                declared = f'@{name} = internal constant {size} c"{text}"'
            self._globals.append(f"{declared}, align {align}")
        return name

    def _include(self, name: str, data: bytes, align: int) -> None:
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(data)
        self._assembly += [
            f'.section .rodata.{name},\\22a\\22,@progbits',
            f".balign {align}",
            f".globl {name}",
            f".hidden {name}",
            f"{name}:",
            f".incbin \\22{path}\\22",
            ".text",
        ]  # fmt: skip

    # ---- code

    def source(self, source: ModuleSource) -> str:
        """Add a module of IR and those that it calls; return the symbol of its first
        function."""
        symbol = self._symbols.get(source.recipe)
        if symbol is None:
            names = self._source(source)
            symbol = self._symbols[source.recipe] = names[source.names[0]]
        return symbol

    def _source(self, source: ModuleSource) -> dict[str, str]:
        names: dict[str, str] = {}
        for callee in source.callees:
            own = self.source(callee)
            first = callee.names[0]
            stem = own[: len(own) - len(_plain(first))]
            names.update({n: stem + _plain(n) for n in callee.names})
        text = source.write()
        functions = _DEFINED.findall(text)
        stem = self._new("")
        for name in {*functions, *_TABLE.findall(text), *source.names}:
            names[name] = stem + _plain(name)
        for name in {*source.names}.difference(functions):  # written in assembly
            self._declared.setdefault(names[name], f"declare void @{names[name]}()")
        for external in source.externals:  # Fortran's routines
            names[external] = f"{external}_"
            self.externals[external] = None
        if source.level == QUICK:  # LLVM fuses no products and sums at this level
            text = text.replace(" contract ", " ")
        self._take(text, names)
        return names

    def add_text(self, text: str) -> None:
        """Add IR whose functions are called from outside; symbols stay as they are."""
        self._take(text, {}, exported=True)

    def _take(self, text: str, names: dict[str, str], exported: bool = False) -> None:
        def renamed(match: re.Match[str]) -> str:
            return "@" + names.get(match[1], match[1])

        for line in _ASSEMBLY.findall(text):
            self._assemble(line, names)
        for line in _ASSEMBLY.sub("", text).splitlines():
            if line == _METADATA or f"call void @{ENTER}()" in line:
                continue
            if f"call void @{LEAVE}()" in line:
                continue
            line = _SYMBOL.sub(renamed, line) if "@" in line else line
            if line.startswith("declare"):
                declared = _DECLARED.match(line)
                assert declared is not None, line
                self._declared.setdefault(declared[1], line)
                continue
            if line.startswith("define"):
                self._defined.update(_DEFINED.findall(line))
                if not exported and not line.startswith("define internal"):
                    line = line.replace("define", "define internal", 1)
            self._functions.append(line)

    def _assemble(self, line: str, names: dict[str, str]) -> None:
        changed = _WORD.sub(lambda m: names.get(m[0], m[0]), line)
        self._assembly.append(changed)
        if changed.startswith(".globl "):
            self._assembly.append(changed.replace(".globl", ".hidden"))

    def _new(self, kind: str) -> str:
        self._count += 1
        return f"{self.prefix}_{self._count}_{kind}"

    def text(self) -> str:
        """Return the module."""
        hidden = {ENTER, LEAVE} | self._defined
        declared = [d for n, d in self._declared.items() if n not in hidden]
        assembly = [f'module asm "{line}"' for line in self._assembly]
        parts = [*assembly, *self._globals, *self._functions, *declared, _METADATA]
        return "\n".join(parts) + "\n"


def _plain(name: str) -> str:
    """Return a name of IR as an assembler takes it without quotes."""
    return name.replace(".", "_").replace("$", "_")
