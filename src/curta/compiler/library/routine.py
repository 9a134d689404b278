"""What a routine of the library is: code of its own for a shape, called by address."""

from __future__ import annotations

from typing import Protocol

from curta.compiler.llvm.builder import Module


class Routine(Protocol):
    """Hashable by all that its code depends on."""

    def __hash__(self) -> int: ...

    @property
    def work(self) -> int:
        """Roughly how many operations it takes."""

    @property
    def scratch(self) -> int:
        """The bytes of memory it needs besides operands and results."""

    def emit(self, module: Module, name: str) -> None:
        """Add `void name(ptr results.., operands.., scratch, parallel_for)`."""
