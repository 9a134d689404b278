"""The shape of a tile of a product, and the numbers that its function is given.

A tile is some rows of a result by a few vectors of columns. All its sums stay in
registers through a loop of steps; a step loads a row of B, broadcasts a column of
A element by element, multiplies and adds (Goto and van de Geijn, Anatomy of
high-performance matrix multiplication, 2008). A function walks a number of tiles of one
shape, along any strides, so it is compiled once for a processor:

    void name(ptr c, ptr a, ptr b, i64 count, i64 begun, ptr numbers)

It is given the addresses of the first tile, how many there are, whether sums go on from
those in C, and *numbers*, in this order (distances are in bytes):

    C_NEXT A_NEXT B_NEXT    from one tile to the next
    C_ROW A_ROW             from one row of a tile to the next
    COLUMNS                 the columns in the last vector, where that is not whole
    STEPS                   how many steps there are
    A_STEP B_STEP           from one step to the next; or, if steps are `listed`, in
                            A_STEP how far from the numbers a list begins, of where each
                            step is in A and in B
"""

from __future__ import annotations

from curta._base.lazy_dataclass import dataclass
from curta.compiler.llvm.types import Type

PACKED = {"i8x4": 4, "i16x2": 2, "bf16x2": 2}
"""Kinds of which an element is a word of several numbers, and how many.

All products of two words are added to a sum of 32 bits. The bytes of A are unsigned.
"""

TILED = ("f32", "f64", "i32", "i64", *PACKED)
"""The kinds of which products are made here."""

C_NEXT, A_NEXT, B_NEXT, C_ROW, A_ROW, COLUMNS, STEPS, A_STEP, B_STEP = range(9)


def element(kind: str) -> Type:
    """The type of an element in registers."""
    return Type({"bf16x2": "f32"}.get(kind, "i32") if kind in PACKED else kind)


@dataclass(frozen=True)
class Tile:
    """Rows by vectors, the last of them `whole` or not; steps may be `listed`."""

    kind: str
    rows: int
    vectors: int
    whole: bool
    listed: bool = False

    @property
    def name(self) -> str:
        """The name of its function."""
        whole = "whole" if self.whole else "part"
        steps = "listed" if self.listed else "even"
        return f"tile_{self.kind}_{self.rows}x{self.vectors}_{whole}_{steps}"
