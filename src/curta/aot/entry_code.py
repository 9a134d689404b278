"""The functions of C that a built library exports, written with the IR builder.

    size_t NAME_workspace(void)
    int NAME_run(const NAME_in *, NAME_out *, void *workspace, size_t bytes)
    int NAME_run_parallel(..., NAME_parallel_for)      if a call can use threads
    const char *NAME_error(int code)

`NAME_run` checks its arguments, puts the addresses into the table that the program's
entry reads (compiler/emit/entry.py), and calls it. The table is on the stack; nothing
else is written but results and workspace.
"""

from __future__ import annotations

from collections.abc import Sequence

from curta._base.lazy_dataclass import dataclass
from curta.aot.interface import Interface, LeafField, StructLayout, layout_of
from curta.aot.weights import BAD_WEIGHTS
from curta.compiler.emit.standalone import StandaloneModule, StandaloneProgram, Weight
from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.types import I8, I32, I64, PTR, Type, Value

OK, NULL_IN, NULL_OUT, WORKSPACE, WEIGHTS = 0, 1, 2, 3, BAD_WEIGHTS
FIRST_LEAF = 16  # the code for the first argument; results come after arguments
ALIGNMENT = 64  # of arenas, in bytes


@dataclass(frozen=True)
class ErrorText:
    """An error code of a function, and its explanation."""

    code: int
    text: str


def error_texts(signature: Interface) -> list[ErrorText]:
    """Return the error codes of a function in increasing order."""
    texts = [
        ErrorText(OK, "success"),
        ErrorText(NULL_IN, "`in` is a null pointer"),
        ErrorText(NULL_OUT, "`out` is a null pointer"),
        ErrorText(WORKSPACE, "the workspace is a null pointer or too small"),
    ]
    if signature.weights:
        text = "the weights are a null pointer or were not initialized"
        texts.append(ErrorText(WEIGHTS, text))
    leaves = [*signature.arguments, *signature.results]
    for number, leaf in enumerate(leaves):
        if is_checked(leaf):
            text = f"{leaf.path} is a null pointer or not aligned to its elements"
            texts.append(ErrorText(FIRST_LEAF + number, text))
    return texts


def is_checked(leaf: LeafField) -> bool:
    """Whether a call checks the address of a leaf."""
    needs_memory = not leaf.is_value and leaf.size > 0
    return needs_memory and leaf.is_read and leaf.in_place is None


def add_functions(
    module: StandaloneModule, program: StandaloneProgram, signature: Interface
) -> None:
    """Add the exported functions of one program to a module."""
    functions = Module.of(module.target)
    writer = _EntryWriter(module, program, signature, functions)
    writer.workspace()
    writer.run()
    if signature.parallel:
        writer.run_parallel()
    writer.error()
    module.add_text(functions.text())


class _EntryWriter:
    def __init__(
        self,
        module: StandaloneModule,
        program: StandaloneProgram,
        signature: Interface,
        functions: Module,
    ) -> None:
        self.module, self.program, self.signature = module, program, signature
        self.functions = functions
        self.pointer = module.target.pointer_bytes
        self.size: Type = I64 if self.pointer == 8 else I32
        self.inputs = layout_of(signature.inputs, self.pointer)
        self.outputs = layout_of(signature.outputs, self.pointer)
        # The address of the weights is the last field of the arguments.
        self.weights_at = -(-self.inputs.size // self.pointer) * self.pointer

    def workspace(self) -> None:
        """Add `size_t NAME_workspace(void)`."""
        b = self._function("workspace", [], self.size)
        b.ret(b.const(self.size, self.signature.workspace))

    def run(self) -> None:
        """Add `NAME_run`, without threads."""
        b = self._function("run", [PTR, PTR, PTR, self.size], I32)
        self._body(b, b.arguments, b.null)

    def run_parallel(self) -> None:
        """Add `NAME_run_parallel`, which is given a function that runs chunks."""
        b = self._function("run_parallel", [PTR, PTR, PTR, self.size, PTR], I32)
        *arguments, launcher = b.arguments
        self._body(b, arguments, launcher)

    def error(self) -> None:
        """Add `const char *NAME_error(int code)`."""
        texts = {e.code: e.text for e in error_texts(self.signature)}
        known = [
            self._text(texts.get(i, "unknown code")) for i in range(max(texts) + 1)
        ]
        table = self.module.pointers(known)
        b = self._function("error", [I32], PTR)
        (code,) = b.arguments
        outside = b.compare("ge", code, b.const(I32, len(known)), unsigned=True)
        b.return_when(outside, self._symbol(b, self._text("unknown code")))
        index = b.cast("zext", code, I64)
        b.ret(b.load(PTR, b.offset(self._symbol(b, table), index, PTR)))

    def _body(self, b: Builder, arguments: Sequence[Value], launcher: Value) -> None:
        inputs, outputs, workspace, bytes_ = arguments
        b.return_when(b.is_null(inputs), b.const(I32, NULL_IN))
        b.return_when(b.is_null(outputs), b.const(I32, NULL_OUT))
        arena = self._arena(b, workspace, bytes_)
        given = self._addresses(b, inputs, self.inputs, self.signature.arguments, 0)
        first = len(given)
        made = self._addresses(b, outputs, self.outputs, self.signature.results, first)
        for leaf in self.signature.results:
            if leaf.in_place is not None:
                made[leaf.index] = given[leaf.in_place]
                field = b.offset(outputs, self.outputs.offsets[leaf.index], I8)
                b.store(given[leaf.in_place], field)
        table = self._table(b, [*made, *given], arena, launcher, inputs)
        b.call(self.program.entry, I64, table)
        b.ret(b.const(I32, OK))

    def _arena(self, b: Builder, workspace: Value, bytes_: Value) -> Value:
        """Check the workspace; return its first aligned address."""
        if not self.signature.workspace:
            return b.null
        least = b.const(self.size, self.signature.workspace)
        small = b.compare("lt", bytes_, least, unsigned=True)
        b.return_when(b.is_null(workspace), b.const(I32, WORKSPACE))
        b.return_when(small, b.const(I32, WORKSPACE))
        address = b.cast("ptrtoint", workspace, self.size)
        return b.cast("inttoptr", b.and_(address + (ALIGNMENT - 1), -ALIGNMENT), PTR)

    def _addresses(
        self, b: Builder, struct: Value, layout: StructLayout,
        leaves: Sequence[LeafField], first: int,
    ) -> list[Value]:  # fmt: skip
        """Return the address of each leaf; numbers lie in the struct itself."""
        result = []
        for leaf, offset in zip(leaves, layout.offsets, strict=True):
            address = b.offset(struct, offset, I8)
            if not leaf.is_value:
                address = b.load(PTR, address)
            if is_checked(leaf):
                code = b.const(I32, FIRST_LEAF + first + leaf.index)
                bits = b.cast("ptrtoint", address, self.size)
                b.return_when(b.is_null(address), code)
                if leaf.align > 1:
                    b.return_when(b.ne(b.and_(bits, leaf.align - 1), 0), code)
            result.append(address)
        return result

    def _table(
        self, b: Builder, arrays: Sequence[Value], arena: Value, launcher: Value,
        inputs: Value,
    ) -> Value:  # fmt: skip
        """Return the table of a call: the arrays, then the words of the program."""
        program, pointer = self.program, self.pointer
        table = b.scratch(pointer * (len(arrays) + len(program.words)), align=8)
        for i, address in enumerate(arrays):
            b.store(address, b.offset(table, i, PTR))
        words = b.offset(table, len(arrays), PTR)
        weights = b.null
        if self.signature.weights:
            weights = b.load(PTR, b.offset(inputs, self.weights_at, I8))
            b.return_when(b.is_null(weights), b.const(I32, WEIGHTS))
        self._words(b, words, program, weights)
        b.store(launcher, b.offset(words, program.arena_word - 1, PTR))
        b.store(arena, b.offset(words, program.arena_word, PTR))
        token = self._symbol(b, self.module.data(bytes(16), 8))
        b.store(token, b.offset(words, program.arena_word + 1, PTR))
        return table

    def _words(
        self, b: Builder, to: Value, program: StandaloneProgram, weights: Value
    ) -> None:
        """Fill in the words of a program: fixed ones are copied."""
        count = len(program.words)
        b.copy(to, self._symbol(b, program.symbol), count * self.pointer)
        for i, word in enumerate(program.words):
            if isinstance(word, Weight):
                value = b.load(PTR, b.offset(weights, word.index, PTR))
                b.return_when(b.is_null(value), b.const(I32, WEIGHTS))
            elif isinstance(word, StandaloneProgram) and not word.is_fixed:
                value = b.scratch(self.pointer * len(word.words), align=8)
                self._words(b, value, word, weights)
            else:
                continue
            b.store(value, b.offset(to, i, PTR))

    def _function(self, what: str, parameters: list[Type], result: Type) -> Builder:
        name = f"{self.signature.name}_{what}"
        return self.functions.function(name, parameters, result)

    def _symbol(self, b: Builder, name: str) -> Value:
        return Value(f"@{name}", PTR, b)

    def _text(self, text: str) -> str:
        return self.module.data(text.encode() + b"\0", 1)
