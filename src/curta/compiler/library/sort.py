"""Stable sorts of rows: the rows themselves, or the order of rows of keys.

There are three ways. Short rows are sorted by insertion, others by radix (radix.py). A
machine with wide vectors sorts by quicksort what needs no more than one word for each
element: the key alone, or a key of up to 32 bits with its index (vector_sort.py).
"""

from __future__ import annotations

from dataclasses import field

from curta._base.lazy_dataclass import dataclass
from curta.compiler.library.quicksort import segments_size
from curta.compiler.library.radix import DIGITS, RadixSort
from curta.compiler.library.routine import Routine
from curta.compiler.library.sort_code import InsertionSort, SortCode
from curta.compiler.library.sort_keys import bits_of
from curta.compiler.library.vector_sort import VectorSort
from curta.compiler.llvm.builder import Module
from curta.compiler.targets import Tuning

LARGEST = 2**31 - 1  # elements of a row: indices are 32-bit integers


@dataclass(frozen=True)
class RowSort(Routine):
    """`rows` rows of `size` numbers, sorted; with `gives_order`, the order that does.

    There is an array for each of `kinds`; the later ones decide where the earlier ones
    are equal. With `descending`, the order is from the greatest down, and -0 is less
    than 0. The order is an array of 32-bit integers.
    """

    rows: int
    size: int
    kinds: tuple[str, ...]
    gives_order: bool = True
    descending: bool = False
    wide_vectors: bool = False
    tuning: Tuning = field(repr=False, kw_only=True)

    @property
    def work(self) -> int:
        """Roughly how many operations it takes."""
        passes = sum(bits_of(kind) // 8 for kind in self.kinds)
        return self.rows * self.size * passes * 4

    @property
    def by_vectors(self) -> bool:
        """Whether it is a quicksort by vectors."""
        if not self.wide_vectors or len(self.kinds) > 1:
            return False
        bits = bits_of(self.kinds[0])
        return bits <= 32 if self.gives_order else bits >= 32

    @property
    def pieces(self) -> int:
        """Into how many pieces a row is cut."""
        if self.rows > self.tuning.sort_rows:
            return 1
        tuning = self.tuning
        return min(max(1, self.size // tuning.sort_piece), tuning.sort_pieces)

    @property
    def chunks(self) -> int:
        """How many rows are sorted at a time, in memory of their own."""
        return 1 if self.pieces > 1 else min(self.rows, self.tuning.sort_chunks)

    @property
    def _row_parts(self) -> tuple[int, ...]:
        """The bytes of the parts of the memory of a row."""
        key = max(bits_of(kind) for kind in self.kinds) // 8 * self.size
        if self.by_vectors:
            if not self.gives_order:  # keys are sorted in the result's memory
                return 0, key, 0, 0, segments_size(self.tuning)
            return 8 * self.size, 8 * self.size, 0, 0, segments_size(self.tuning)
        indices = 4 * self.size if self.gives_order else 0
        return key, key, indices, indices, 4 * DIGITS * self.pieces

    @property
    def offsets(self) -> list[int]:
        """Where these parts begin, and where the memory ends."""
        ends = [0]
        for size in self._row_parts:
            ends.append(-(-(ends[-1] + size) // 64) * 64)
        return ends

    @property
    def scratch(self) -> int:
        """The bytes of memory it needs."""
        short = self.size <= self.tuning.sorted_by_insertion
        return 0 if short else self.chunks * self.offsets[-1]

    def emit(self, module: Module, name: str) -> None:
        """Add `void name(ptr result, ptr keys.., ptr scratch, ptr parallel_for)`."""
        how: type[SortCode] = VectorSort if self.by_vectors else RadixSort
        if self.size <= self.tuning.sorted_by_insertion:
            how = InsertionSort
        how(self).emit(module, name)
