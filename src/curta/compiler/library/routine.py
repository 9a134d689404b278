"""What a routine of the library is: code of its own for a shape, called by address."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.types import Type


class Routine(ABC):
    """Hashable by all that its code depends on."""

    @property
    @abstractmethod
    def work(self) -> int:
        """Roughly how many operations it takes."""

    @property
    @abstractmethod
    def scratch(self) -> int:
        """The bytes of memory it needs besides operands and results."""

    @property
    def turned(self) -> Sequence[Type]:
        """The vectors for which it calls `packing.turn_name`."""
        return ()

    @property
    def externals(self) -> Sequence[str]:
        """The routines of BLAS and LAPACK that it calls (`dgetrf`, ...)."""
        return ()

    @abstractmethod
    def emit(self, module: Module, name: str) -> None:
        """Add `void name(ptr results.., operands.., scratch, parallel_for)`."""
