"""The tiles that a small product runs, one after the other, without `product`.

What product.py does with a plan at run time is done here when the program is compiled:
where that gives a few calls, an entry makes them itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from curta._base.lazy_dataclass import dataclass
from curta.compiler.library.product import AxisWord, ListWord, TileWord, Word


@dataclass(frozen=True)
class TileCall:
    """A call of one of the tiles of a plan, by its number among them, for so many.

    The first of them lies so many bytes from where the arrays begin. Sums go on from
    those in c if they have `begun`; `numbers` is the index of the tile's own.
    """

    code: int
    c: int
    a: int
    b: int
    count: int
    begun: int
    numbers: int


def tile_calls(plan: Sequence[int], most: int) -> tuple[TileCall, ...] | None:
    """The calls of a plan; None if there are more, copies of panels, or threads."""
    if plan[Word.CHUNKS] != 1 or plan[Word.PACK] >= 0:
        return None
    calls = tuple(islice(_calls(plan), most + 1))
    return calls if len(calls) <= most else None


def _calls(plan: Sequence[int]) -> Iterator[TileCall]:
    """All calls, in the order of product.py."""
    outer_axes = Word.OUTER_AXES, Word.OUTER_AXES_AT
    extent, end = plan[plan[Word.OUTER_AXES_AT] + AxisWord.EXTENT], plan[Word.OUTER]
    for panel in range(plan[Word.PANELS]):
        for block in range(plan[Word.BLOCKS]):
            _, c, a, b = _position(plan, block, Word.BLOCK_AXES, Word.BLOCK_AXES_AT)
            begun = block % plan[Word.BLOCKS_EACH]
            start = (
                plan[Word.C_START] + panel * plan[Word.C_PANEL] + c,
                plan[Word.A_START] + a,
                plan[Word.B_START] + panel * plan[Word.B_PANEL] + b,
            )
            last = 4 * (panel == plan[Word.LAST_PANEL])
            last += block == plan[Word.LAST_BLOCK]
            index = 0
            while index < end:
                i, *offsets = _position(plan, index, *outer_axes)
                many = min(end - index, extent - i) if plan[Word.WALKS] else 1
                which = last + 2 * (i == plan[Word.LAST_ROWS])
                here = [x + o for x, o in zip(start, offsets, strict=True)]
                yield from _of_list(plan, plan[Word.LISTS + which], here, many, begun)
                index += many


def _position(
    plan: Sequence[int], index: int, count: Word, at: Word
) -> tuple[int, int, int, int]:
    """The index along the innermost of some axes, and the offsets in c, a and b."""
    innermost, c, a, b = 0, 0, 0, 0
    for axis in range(plan[count]):
        first = plan[at] + axis * len(AxisWord)
        extent, *by = plan[first : first + len(AxisWord)]
        index, i = divmod(index, extent)
        innermost = innermost if axis else i
        c, a, b = c + i * by[0], a + i * by[1], b + i * by[2]
    return innermost, c, a, b


def _of_list(
    plan: Sequence[int], at: int, arrays: Sequence[int], many: int, begun: int
) -> Iterator[TileCall]:
    """The calls of a list of tiles."""
    c, a, b = arrays
    for i in range(plan[at + ListWord.COUNT]):
        words = at + ListWord.TILES + i * TileWord.END
        yield TileCall(
            code=plan[words + TileWord.CODE] - 1,  # 0 is `product`
            c=c + plan[words + TileWord.C],
            a=a + plan[words + TileWord.A],
            b=b,
            count=many * plan[words + TileWord.COUNT],
            begun=begun,
            numbers=words + TileWord.NUMBERS,
        )
