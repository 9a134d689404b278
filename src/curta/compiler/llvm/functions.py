"""Functions of native code, which a module gets when something in it calls them.

>>> from curta.compiler.llvm.builder import Module
>>> from curta.compiler.llvm.functions import function
>>> from curta.compiler.llvm.types import I64, PTR
>>> @function(PTR, I64, I64, result=I64)
... def index_of(b, words, count, number):
...     with b.loop(0, count) as loop:
...         word = b.load(I64, b.offset(words, loop.index, I64))
...         b.return_when(b.eq(word, number), loop.index)
...     return -1
>>> @function(PTR, result=I64)
... def index_of_zero(b, words):
...     return index_of(b, words, 8, 0)
>>> module = Module()
>>> index_of_zero.export(module)
>>> "call i64 @index_of(ptr %a0, i64 8, i64 0)" in module.text()
True
"""

from __future__ import annotations

from collections.abc import Callable

from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.types import Operand, Type, Value

Write = Callable[..., Operand | None]
"""Adds the code of a function to its builder, given its arguments; what it returns."""


class Function:
    """A function of native code; called with a builder, it adds a call to that."""

    def __init__(
        self, write: Write, parameters: tuple[Type, ...], result: Type | None, name: str
    ) -> None:
        self._write = write
        self.parameters = parameters
        self.result = result
        self.name = name

    def __call__(self, b: Builder, *arguments: Operand) -> Value:
        """Call it; numbers take the types of its parameters."""
        self._define(b.module, False)
        types = zip(arguments, self.parameters, strict=True)
        return b.call(self.name, self.result, *(b.operand(x, t) for x, t in types))

    def address(self, b: Builder) -> Value:
        """Its address, to hand to native code."""
        self._define(b.module, False)
        return b.function_address(self.name)

    def export(self, module: Module) -> None:
        """Have it in a module, which others call."""
        self._define(module, True)
        module.export([self.name])

    def _define(self, module: Module, exported: bool) -> None:
        if not module.defines(self.name):
            b = module.function(self.name, self.parameters, self.result, exported)
            value = self._write(b, *b.arguments)
            b.ret(b.operand(value or 0, self.result) if self.result else None)


def function(
    *parameters: Type, result: Type | None = None, name: str = ""
) -> Callable[[Write], Function]:
    """Make a function of native code of one that writes it, and is given a builder."""
    return lambda write: Function(write, parameters, result, name or write.__name__)
