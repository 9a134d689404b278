"""A builder of LLVM IR text: modules, functions, structured control flow.

Curta writes IR as text with explicit vectors and runs no middle-end passes on it, so
what is emitted here is what is compiled. Control flow is structured: `loop`, `when`,
`if_` and `while_loop`, with loop-carried values as phi nodes.

    >>> from curta.compiler.llvm.builder import Module
    >>> from curta.compiler.llvm.types import F32, I64, PTR
    >>> module = Module()
    >>> b = module.function("total", [PTR, I64], F32)
    >>> array, size = b.arguments
    >>> with b.loop(0, size, carried=[b.const(F32, 0)]) as loop:
    ...     item = b.load(F32, b.offset(array, loop.index, F32))
    ...     loop.next(loop.carried[0] + item)
    >>> b.ret(loop.results[0])
    >>> "fadd contract float" in module.text()
    True
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.compiler.llvm.control_flow import ControlFlow, Values as Values
from curta.compiler.llvm.types import I1, I64, PTR, Type, Value, literal
from curta.compiler.sized import Slots
from curta.compiler.targets import Target
from curta.core.dim import SymbolicDim


class Module:
    """Functions, constant tables and declarations; `text()` is the whole IR.

    `has_fma` says that the machine has fused multiply-add, `has_f16` that it converts
    half precision, `vector_bytes` how wide its registers are, `assembles` that code may
    be written in assembly of x86-64 and the System V ABI, `call_bytes` how wide
    operands of called functions of vector math are, `picked_stride` up to which
    stride lanes are picked out of whole vectors, and `machine` which instruction set it
    has: all from the target. Lines of
    `assembly` define functions of their own; `library` has what is called of functions
    that programs share, by name, and `sizes` the numbers that depend on sizes. Code
    that reads fields of objects finds them by the `layout`.
    """

    layout: Any = None

    def __init__(
        self,
        has_fma: bool = True,
        vector_bytes: int = 64,
        has_f16: bool = True,
        assembles: bool = False,
        call_bytes: int | None = None,
        picked_stride: int = 9,
        machine: str = "x86_64",
        pointer_bytes: int = 8,
    ) -> None:
        self.machine = machine
        self.pointer_bytes = pointer_bytes
        self.assembles = assembles
        self.assembly: list[str] = []
        self.library: dict[str, Any] = {}
        self.has_fma = has_fma
        self.has_f16 = has_f16
        self.vector_bytes = vector_bytes
        self.call_bytes: int = call_bytes or 2 * vector_bytes
        self.picked_stride = picked_stride
        self._functions: dict[str, Builder] = {}
        self._declared: dict[str, str] = {}
        self._tables: dict[tuple[Type, tuple[float, ...]], str] = {}
        self.sizes: Slots = Slots()
        self.externals: dict[str, None] = {}  # names of external globals

    @classmethod
    def of(cls, target: Target) -> Module:
        """Return an empty module for a target."""
        return cls(
            target.has_fma,
            target.vector_bytes,
            target.has_f16,
            target.assembles,
            target.call_bytes,
            target.picked_stride,
            target.machine,
            target.pointer_bytes,
        )

    def function(
        self,
        name: str,
        parameters: Sequence[Type],
        result: Type | None = None,
        exported: bool = True,
        quick: bool = False,
    ) -> Builder:
        """Begin a function; its code is added through the builder that comes back.

        Code of a `quick` one is not improved, whatever the level of the module.
        """
        if name in self._functions:
            raise ValueError(f"function {name!r} is already in the module")
        builder = Builder(self, name, parameters, result, exported, quick)
        self._functions[name] = builder
        return builder

    def drop(self, function: Builder) -> None:
        """Take a function out again, which nothing calls."""
        del self._functions[function.name]

    def export(self, names: Sequence[str]) -> None:
        """Let other modules call these functions."""
        for name in names:
            self._functions[name].exported = True

    def defines(self, name: str) -> bool:
        """Whether a function of this name was begun."""
        return name in self._functions

    def declare(
        self, name: str, result: Type | None, arguments: Sequence[Value]
    ) -> None:
        """Make an external function or an intrinsic known, by a call of it."""
        if name not in self._declared and name not in self._functions:
            types = ", ".join([a.type.text for a in arguments])
            self._declared[name] = f"declare {result or 'void'} @{name}({types})"

    def declare_variadic(self, name: str, result: Type, first: list[Type]) -> None:
        """Make an external function known that takes any further arguments."""
        types = ", ".join(str(p) for p in first)
        self._declared[name] = f"declare {result} @{name}({types}, ...)"

    def table(self, type_: Type, numbers: Sequence[float]) -> str:
        """The name of a read-only array in memory; equal arrays are one."""
        key = (type_, tuple(numbers))
        return self._tables.setdefault(key, f"table.{len(self._tables)}")

    def text(self) -> str:
        parts = [f'module asm "{line}"' for line in self.assembly]
        parts += [f"@{name} = external global i8" for name in self.externals]
        parts += [_table_text(n, k) for k, n in self._tables.items()]
        parts += [f.text() for f in self._functions.values()]
        parts += [d for n, d in self._declared.items() if n not in self._functions]
        return "\n".join(parts) + "\n!0 = !{i32 1}\n"


def _table_text(name: str, key: tuple[Type, tuple[float, ...]]) -> str:
    type_, numbers = key
    body = ", ".join(f"{type_} {literal(type_, x)}" for x in numbers)
    array = f"[{len(numbers)} x {type_}] [{body}]"
    return f"@{name} = internal unnamed_addr constant {array}, align 64"


class Builder(ControlFlow):
    """The code of one function; `arguments` are the values that it is called with."""

    def __init__(
        self,
        module: Module,
        name: str,
        parameters: Sequence[Type],
        result: Type | None,
        exported: bool,
        quick: bool,
    ) -> None:
        super().__init__(result)
        self.module = module
        self.name = name
        self.arguments: list[Value] = [
            Value(f"%a{i}", t, self) for i, t in enumerate(parameters)
        ]
        self.exported: bool = exported
        self.quick: bool = quick
        self._entry: list[str] = []
        self.sizes_word: int | None = None  # which of the words has the table of sizes
        self._size_words: Value | None = None
        self._sizes: dict[SymbolicDim, Value] = {}

    # ------------------------------------------------- what Instructions asks for

    def emit(self, text: str) -> None:
        self._lines.append(text)

    def instruction(self, text: str, type_: Type) -> Value:
        self._count = count = self._count + 1
        name = f"%v{count}"
        self._lines.append(f"  {name} = {text}")
        return Value(name, type_, self)

    @property
    def has_fma(self) -> bool:
        return self.module.has_fma

    @property
    def has_f16(self) -> bool:
        return self.module.has_f16

    @property
    def vector_bytes(self) -> int:
        return self.module.vector_bytes

    @property
    def pointer_bytes(self) -> int:
        return self.module.pointer_bytes

    def call(
        self, function: str | Value, result: Type | None, *arguments: Value
    ) -> Value:
        """Call a function by name or address.

        The value of a call without a result is of no use.
        """
        values = ", ".join([f"{a.type.text} {a.text}" for a in arguments])
        if isinstance(function, Value):
            callee = function.text
        else:
            callee = f"@{function}"
            self.module.declare(function, result, arguments)
        if result is not None:
            return self.instruction(f"call {result.text} {callee}({values})", result)
        self._lines.append(f"  call void {callee}({values})")
        return Value("poison", I1, self)

    def function_address(self, name: str) -> Value:
        """The address of a function of this module, to hand to native code."""
        return Value(f"@{name}", PTR, self)

    def size(self, x: SymbolicDim) -> Value:
        """A number that depends on the sizes of the program, loaded as it begins."""
        value = self._sizes.get(x)
        if value is None:
            value = self._sizes[x] = self._new(I64)
            slot = f"{self._size_table().text}, i64 {self.module.sizes.slot(x)}"
            address = self._new(PTR).text
            self._entry += [
                f"  {address} = getelementptr i64, ptr {slot}",
                f"  {value.text} = load i64, ptr {address}, align 8",
            ]
        return value

    def size_address(self, slot: int) -> Value:
        """The address of a number of the table of sizes."""
        return self.offset(self._size_table(), slot, I64)

    def _size_table(self) -> Value:
        """The address of the table of sizes, which a word of the arguments has."""
        if self._size_words is None:
            assert self.sizes_word is not None, f"{self.name} is given no sizes"
            self._size_words = table = self._new(PTR)
            address, words = self._new(PTR).text, self.arguments[0].text
            self._entry += [
                f"  {address} = getelementptr ptr, ptr {words}, i64 {self.sizes_word}",
                f"  {table.text} = load ptr, ptr {address}, align 8",
            ]
        return self._size_words

    def table(self, type_: Type, numbers: Sequence[float]) -> Value:
        """The address of a read-only array of scalars."""
        return Value(f"@{self.module.table(type_, numbers)}", PTR, self)

    def scratch(self, size: int, align: int = 64) -> Value:
        """The address of `size` bytes on the stack, for as long as the function runs.

        Keep it small: threads of the pool have small stacks.
        """
        pointer = self._new(PTR)
        array = f"alloca [{size} x i8], align {align}"
        self._entry.append(f"  {pointer.text} = {array}")
        return pointer

    def external(self, name: str) -> Value:
        """The address of something in memory that the code knows by name."""
        self.module.externals[name] = None
        return Value(f"@{name}", PTR, self)

    def variable_scratch(self, size: Value, align: int = 64) -> Value:
        """The same of a size that is known when the function runs; not in a loop."""
        return self.instruction(f"alloca i8, i64 {size.text}, align {align}", PTR)

    def ret(self, value: Value | None = None) -> None:
        """Return from the function; nothing may follow in this block."""
        self.emit(f"  ret {value.type} {value.text}" if value else "  ret void")

    def text(self) -> str:
        parameters = ", ".join(f"{a.type} {a.text}" for a in self.arguments)
        define = "define" if self.exported else "define internal"
        how = " optnone noinline" if self.quick else ""
        head = f"{define} {self._result or 'void'} @{self.name}({parameters})"
        lines = [f"{head} nounwind{how} {{", "entry:"]
        return "\n".join([*lines, *self._entry, *self._lines, "}"])
