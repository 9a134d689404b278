"""Routines of the library: code for one shape, called by address."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.types import I64, PTR, Value


class Routine(ABC):
    """Hashable by all that its code depends on."""

    slower_at_level_0: ClassVar[float] = 1.0
    """What LLVM's level 0 adds to its time at level 1, as a part of that."""

    @property
    @abstractmethod
    def work(self) -> int:
        """Roughly how many operations it takes."""

    @property
    @abstractmethod
    def scratch(self) -> int:
        """The bytes of memory it needs besides operands and results."""

    @property
    def externals(self) -> Sequence[str]:
        """The routines of BLAS and LAPACK that it calls (`dgetrf`, ...)."""
        return ()

    @abstractmethod
    def emit(self, module: Module, name: str) -> None:
        """Add `void name(ptr results.., operands.., scratch, parallel_for)`."""


def share(
    b: Builder,
    launcher: Value,
    name: str,
    count: int | Value,
    given: Sequence[Value],
    body: Callable[..., None],
) -> None:
    """Run `body(b, number, *given)` for each number below the count, on threads.

    It is the code of a function of its own, which finds what it is given in a table;
    all of one name are one.
    """
    module = b.module
    if not module.defines(name):
        f = module.function(name, [PTR, I64], exported=False)
        table, number = f.arguments
        own = [f.load(x.type, f.offset(table, i, I64)) for i, x in enumerate(given)]
        body(f, number, *own)
        f.ret()
    table = b.scratch(8 * len(given), align=8)
    for i, x in enumerate(given):
        b.store(x, b.offset(table, i, I64))
    run_chunks(b, launcher, name, table, count)


def run_chunks(
    b: Builder, launcher: Value, function: str, table: Value, count: int | Value
) -> None:
    """Call `void function(ptr table, i64 number)` for each number, on threads."""
    if isinstance(count, int) and count == 1:
        b.call(function, None, table, b.const(I64, 0))
    else:
        code = b.function_address(function)
        b.call(launcher, None, code, table, b.operand(count, I64))


def part(number: Value, total: int, parts: int) -> tuple[Value, Value]:
    """The bounds of one of `parts` nearly equal parts of a range."""
    b: Builder = number.builder
    return b.udiv(number * total, parts), b.udiv((number + 1) * total, parts)
