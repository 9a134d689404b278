"""Copies of arrays, as a routine of the library."""

from __future__ import annotations

from curta.compiler.library.routine import Routine
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.types import PTR
from curta.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Copies(Routine):
    """As many results as operands, each with the bytes of one."""

    sizes: tuple[int, ...]

    @property
    def work(self) -> int:
        """Roughly how many operations it takes."""
        return sum(self.sizes) // 8

    @property
    def scratch(self) -> int:
        """It needs no memory."""
        return 0

    def emit(self, module: Module, name: str) -> None:
        """Add `void name(ptr results.., operands.., scratch, parallel_for)`."""
        count = len(self.sizes)
        b = module.function(name, [PTR] * (2 * count + 2))
        pairs = zip(b.arguments[:count], b.arguments[count:-2], strict=True)
        for (result, operand), size in zip(pairs, self.sizes, strict=True):
            b.copy(result, operand, size)
        b.ret()
