"""Exchanges of rows, as a decomposition gives them, as permutations."""

from __future__ import annotations

from curta.compiler.library.routine import Routine
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.types import I32, PTR
from curta.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Permutations(Routine):
    """For each of a batch, what exchanging row i with row pivots[i], in turn, makes.

    There are `count` pivots of 32 bits, and `size` rows.
    """

    batch: int
    count: int
    size: int

    @property
    def work(self) -> int:
        """Roughly how many operations it takes."""
        return self.batch * (self.size + 4 * self.count)

    @property
    def scratch(self) -> int:
        """It needs no memory."""
        return 0

    def emit(self, module: Module, name: str) -> None:
        """Add `void name(ptr result, ptr pivots, ptr scratch, ptr parallel_for)`."""
        b = module.function(name, [PTR] * 4)
        result, pivots, _, _ = b.arguments
        with b.loop(0, self.batch) as each:
            order = b.offset(result, each.index * self.size, I32)
            exchanged = b.offset(pivots, each.index * self.count, I32)
            with b.loop(0, self.size) as row:
                b.store(b.convert(row.index, "i32"), b.offset(order, row.index, I32))
            with b.loop(0, self.count) as row:
                pivot = b.load(I32, b.offset(exchanged, row.index, I32))
                # Whatever the pivots are, only the rows are touched.
                pivot_row = b.min(b.max(b.convert(pivot, "i64"), 0), self.size - 1)
                here, there = (b.offset(order, i, I32) for i in (row.index, pivot_row))
                first, second = b.load(I32, here), b.load(I32, there)
                b.store(second, here)
                b.store(first, there)
        b.ret()
