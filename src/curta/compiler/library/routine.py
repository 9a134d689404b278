"""What a routine of the library is: code of its own for a shape, called by address."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.types import I64, PTR, Value
from curta.core.dim import is_symbolic_dim


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


def emit_chunks(
    module: Module, name: str, chunk: str, pointers: int, chunks: int
) -> None:
    """Add `void name(ptr pointers.., parallel_for)`, which runs chunks on threads.

    A chunk is `void chunk(ptr table, i64 number)`; the table has all that is given.
    """
    b = module.function(name, [PTR] * (pointers + 1))
    table = b.scratch(8 * (pointers + 1), align=8)
    for i, pointer in enumerate(b.arguments):
        b.store(pointer, b.offset(table, i, PTR))
    run_chunks(b, b.arguments[-1], chunk, table, chunks)
    b.ret()


def run_chunks(
    b: Builder, launcher: Value, function: str, table: Value, count: int
) -> None:
    """Call `void function(ptr table, i64 number)` for each number, on threads."""
    if not is_symbolic_dim(count) and count == 1:
        b.call(function, None, table, b.const(I64, 0))
    else:
        code = b.function_address(function)
        b.call(launcher, None, code, table, b.const(I64, count))
