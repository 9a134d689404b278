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

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from curta.compiler.llvm.folding import HOLDS, known
from curta.compiler.llvm.types import I1, I64, PTR, Operand, Type, Value, literal
from curta.compiler.llvm.vectors import VectorInstructions
from curta.compiler.sized import Slots
from curta.core.dim import SymbolicDim

Values = list[Value]


class Module:
    """Functions, constant tables and declarations; `text()` is the whole IR.

    `has_fma` says that the machine has fused multiply-add, `has_f16` that it converts
    half precision, `vector_bytes` how wide its registers are, `assembles` that code may
    be written in assembly of x86-64 and the System V ABI: all from the target. Lines of
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
    ) -> None:
        self.assembles = assembles
        self.assembly: list[str] = []
        self.library: dict[str, Any] = {}
        self.has_fma = has_fma
        self.has_f16 = has_f16
        self.vector_bytes = vector_bytes
        self._functions: dict[str, Builder] = {}
        self._declared: dict[str, str] = {}
        self._tables: dict[tuple[Type, tuple[float, ...]], str] = {}
        self.sizes: Slots = Slots()
        self.externals: dict[str, None] = {}  # names of external globals

    def function(
        self,
        name: str,
        parameters: Sequence[Type],
        result: Type | None = None,
        exported: bool = True,
        inline: bool = False,
        quick: bool = False,
    ) -> Builder:
        """Begin a function; its code is added through the builder that comes back.

        Code of a `quick` one is not improved, whatever the level of the module.
        """
        if name in self._functions:
            raise ValueError(f"function {name!r} is already in the module")
        builder = Builder(self, name, parameters, result, exported, inline, quick)
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


class LoopBuilder:
    """A counted loop in the making: what its body reads and hands on."""

    def __init__(self, index: Value, carried: Values) -> None:
        self.index = index
        self.carried = carried
        self.results: Values = []
        self._next: Values = carried

    def next(self, *values: Value) -> None:
        """The carried values of the next iteration (unless called, they stay)."""
        if [v.type for v in values] != [v.type for v in self.carried]:
            raise TypeError(f"the loop carries {self.carried}, not {list(values)}")
        self._next = list(values)


class Builder(VectorInstructions):
    """The code of one function; `arguments` are the values that it is called with."""

    def __init__(
        self,
        module: Module,
        name: str,
        parameters: Sequence[Type],
        result: Type | None,
        exported: bool,
        inline: bool,
        quick: bool,
    ) -> None:
        super().__init__()
        self.module = module
        self.name = name
        self.arguments: list[Value] = [
            Value(f"%a{i}", t, self) for i, t in enumerate(parameters)
        ]
        self._result = result
        self.exported: bool = exported
        self.inline: bool = inline
        self.quick: bool = quick
        self._lines: list[str] = []
        self._entry: list[str] = []
        self.sizes_word: int | None = None  # which of the words has the table of sizes
        self._size_words: Value | None = None
        self._sizes: dict[SymbolicDim, Value] = {}
        self._count = 0
        self._block = "entry"

    # ------------------------------------------------- what Instructions asks for

    def emit(self, text: str) -> None:
        self._lines.append(text)

    def _new(self, type_: Type) -> Value:
        self._count += 1
        return Value(f"%v{self._count}", type_, self)

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
        how = " alwaysinline" if self.inline else ""
        how = " optnone noinline" if self.quick else how
        head = f"{define} {self._result or 'void'} @{self.name}({parameters})"
        lines = [f"{head} nounwind{how} {{", "entry:"]
        return "\n".join([*lines, *self._entry, *self._lines, "}"])

    # ------------------------------------------------------------- control flow

    def _label(self) -> str:
        self._count += 1
        return f"b{self._count}"

    def _begin(self, label: str) -> None:
        self._lines.append(f"{label}:")
        self._block = label

    def _jump(self, label: str) -> None:
        self._lines.append(f"  br label %{label}")

    def _branch(self, condition: Value, yes: str, no: str) -> None:
        text = f"  br i1 {condition.text}, label %{yes}, label %{no}"
        self._lines.append(text)

    def _phi(self, result: Value, *incoming: tuple[Value, str]) -> str:
        pairs = ", ".join(f"[ {v.text}, %{block} ]" for v, block in incoming)
        return f"  {result.text} = phi {result.type} {pairs}"

    @contextmanager
    def loop(
        self,
        start: Operand,
        stop: Operand,
        step: int = 1,
        carried: Sequence[Value] = (),
        runs: bool = False,
    ) -> Iterator[LoopBuilder]:
        """Run the `with` body for index = start, start + step, ... while below stop.

        Bounds are i64 values or ints. `loop.carried` are the values from the iteration
        before; the body says what follows by `loop.next(...)`; after it,
        `loop.results` are the last ones (the given ones when there was no iteration).
        A loop known to run once is no loop at all, and one known never to run is
        dropped. `runs` says that it runs at least once.
        """
        first, last = self.operand(start, I64), self.operand(stop, I64)
        begin, end = known(first), known(last)
        if begin is not None and end is not None:
            runs = begin < end
            if end <= begin + step:
                once = LoopBuilder(first, list(carried))
                with self._kept_if(runs):
                    yield once
                once.results = once._next if runs else list(carried)
                return
        body, done, before = self._label(), self._label(), self._block
        if runs:
            self._jump(body)
        else:
            self._branch(self.compare("lt", first, last), body, done)
        self._begin(body)
        hole = len(self._lines)
        loop = LoopBuilder(self._new(I64), [self._new(v.type) for v in carried])
        yield loop
        after = self._new(I64)
        self.emit(f"  {after.text} = add nsw i64 {loop.index.text}, {step}")
        self._branch(self.compare("lt", after, last), body, done)
        latch = self._block
        inputs = zip([loop.index, *loop.carried], [first, *carried],
                     [after, *loop._next], strict=True)  # fmt: skip
        phis = [self._phi(r, (a, before), (b, latch)) for r, a, b in inputs]
        self._lines[hole:hole] = phis
        self._begin(done)
        loop.results = loop._next
        if not runs:
            joined = zip(carried, loop._next, strict=True)
            loop.results = [self._join((a, before), (b, latch)) for a, b in joined]

    @contextmanager
    def _kept_if(self, runs: bool) -> Iterator[None]:
        """Keep the lines that the `with` body adds, or drop them."""
        count, block = len(self._lines), self._block
        yield
        if not runs:
            del self._lines[count:]
            self._block = block

    def _join(self, *incoming: tuple[Value, str]) -> Value:
        result = self._new(incoming[0][0].type)
        self.emit(self._phi(result, *incoming))
        return result

    @contextmanager
    def when(self, condition: Value) -> Iterator[None]:
        """Run the `with` body only if the condition, one `i1`, holds.

        It may end with a return.
        """
        if (holds := HOLDS.get(condition.text)) is not None:
            with self._kept_if(holds):
                yield
            if self._has_returned:
                self._begin(self._label())  # of what is never reached
            return
        body, done = self._label(), self._label()
        self._branch(condition, body, done)
        self._begin(body)
        yield
        if not self._has_returned:
            self._jump(done)
        self._begin(done)

    @property
    def _has_returned(self) -> bool:
        """Whether the current block ends with a return."""
        return bool(self._lines) and self._lines[-1].startswith("  ret ")

    def return_when(self, condition: Value, result: Operand = 0) -> None:
        """Return from the function, with a result if it has one, if that holds."""
        with self.when(condition):
            self.ret(self.operand(result, self._result) if self._result else None)

    def return_unless(self, condition: Value, result: Operand = 0) -> None:
        """Return from the function, with a result if it has one, unless that holds."""
        self.return_when(self.not_(condition), result)

    def if_(
        self,
        condition: Value,
        then: Callable[[], Values],
        otherwise: Callable[[], Values],
    ) -> Values:
        """Run one of two bodies; they give values of the same types."""
        yes, no, done = self._label(), self._label(), self._label()
        self._branch(condition, yes, no)
        ends: list[tuple[Values, str]] = []
        for label, body in ((yes, then), (no, otherwise)):
            self._begin(label)
            ends.append((body(), self._block))
            self._jump(done)
        self._begin(done)
        (left, from_left), (right, from_right) = ends
        pairs = zip(left, right, strict=True)
        return [self._join((a, from_left), (b, from_right)) for a, b in pairs]

    def choose(
        self,
        condition: Value,
        then: Callable[[], Value],
        otherwise: Callable[[], Value],
    ) -> Value:
        """What one of two bodies gives, of which only that one runs."""
        return self.if_(condition, lambda: [then()], lambda: [otherwise()])[0]

    @contextmanager
    def forever(self, carried: Sequence[Value] = ()) -> Iterator[LoopBuilder]:
        """Repeat the `with` body, from which only a return leads out."""
        again, before = self._label(), self._block
        self._jump(again)
        self._begin(again)
        hole = len(self._lines)
        loop = LoopBuilder(self.const(I64, 0), [self._new(v.type) for v in carried])
        yield loop
        self._jump(again)
        self._fill(hole, loop.carried, (carried, before), (loop._next, self._block))
        self._begin(self._label())  # of what is never reached

    def while_loop(
        self,
        initial: Sequence[Value],
        condition: Callable[[Values], Value],
        body: Callable[[Values], Values],
    ) -> Values:
        """Repeat the body on the carried values while the condition, one `i1`, holds.

        The condition is tested before the first iteration.
        """
        test, iteration, done = self._label(), self._label(), self._label()
        before = self._block
        self._jump(test)
        self._begin(test)
        hole = len(self._lines)
        carried = [self._new(v.type) for v in initial]
        self._branch(condition(carried), iteration, done)
        self._begin(iteration)
        following = body(carried)
        self._jump(test)
        self._fill(hole, carried, (initial, before), (following, self._block))
        self._begin(done)
        return carried

    def while_in_blocks(
        self,
        initial: Sequence[Value],
        condition: Callable[[Values], Value],
        body: Callable[[Values], Values],
        iterations: int,
        goes_on: Callable[[], Value],
    ) -> Values:
        """`while_loop`, which after every so many iterations asks whether to go on.

        Two loops, one in the other, of which the inner one is left by one branch where
        the condition fails: nothing of the asking is on the way of a short loop.
        """
        block, test, iteration, ask, done = (self._label() for _ in range(5))
        before = self._block
        self._jump(block)
        self._begin(block)
        outer_hole, start = len(self._lines), [self._new(v.type) for v in initial]
        self._jump(test)
        self._begin(test)
        hole, carried = len(self._lines), [self._new(v.type) for v in initial]
        left = self._new(I64)
        self._branch(condition(carried), iteration, done)
        tested = self._block
        self._begin(iteration)
        following = body(carried)
        rest = left - 1
        self._branch(self.compare("gt", rest, 0), test, ask)
        latch = self._block
        self._begin(ask)
        self._branch(goes_on(), block, done)
        asked = self._block
        full = self.const(I64, iterations)
        inner = ([*start, full], block), ([*following, rest], latch)
        self._fill(hole, [*carried, left], *inner)
        self._fill(outer_hole, start, (initial, before), (following, asked))
        self._begin(done)
        pairs = zip(carried, following, strict=True)
        return [self._join((a, tested), (b, asked)) for a, b in pairs]

    def _fill(
        self, hole: int, results: Values, *incoming: tuple[Sequence[Value], str]
    ) -> None:
        """Put phis of values from several blocks to where the lines were so many."""
        (left, from_left), (right, from_right) = incoming
        self._lines[hole:hole] = [
            self._phi(r, (a, from_left), (b, from_right))
            for r, a, b in zip(results, left, right, strict=True)
        ]
