"""What `product` (product.py) is to do, as numbers.

plan = ProductPlan(...)
plan.numbers    the words that the function reads
plan.code       itself, and the tiles and the copy of panels that they speak of
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.compiler.library.packing import PackPanel
from curta.compiler.library.product import HEAD, Loops, Word
from curta.compiler.library.tile_shape import A_STEP, Tile


@dataclass(frozen=True)
class Axis:
    """A dim that is walked, and how far apart that is in the result and operands."""

    extent: int
    c: int = 0
    a: int = 0
    b: int = 0

    def times(self, factor: int) -> Axis:
        """The same with strides in smaller units."""
        return Axis(self.extent, self.c * factor, self.a * factor, self.b * factor)


@dataclass(frozen=True)
class Tiles:
    """So many tiles of one shape, from an offset in c and a on."""

    tile: Tile
    c: int
    a: int
    count: int
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class TileList:
    """All tiles of the rows of an outer index, and what copies their panel of B."""

    tiles: tuple[Tiles, ...]
    pack: tuple[int, int, int] = (0, 0, 0)


Code = Loops | Tile | PackPanel

Part = tuple[bool, bool, bool]
"""Whether panel, rows and block are the last ones."""


@dataclass(frozen=True)
class Ranges:
    """How panels and outer indices are cut into chunks.

    Chunks next to one another have neighbouring panels, or else outer indices.
    """

    panels: int
    panels_each: int
    outer: int
    outer_each: int
    panels_first: bool

    @property
    def words(self) -> dict[Word, int]:
        """The words of the plan that describe the ranges."""
        panels = -(-self.panels // self.panels_each)
        outer = -(-self.outer // self.outer_each)
        return {
            Word.CHUNKS: panels * outer,
            Word.PANELS_BY: 1 if self.panels_first else outer,
            Word.PANEL_RANGES: panels,
            Word.PANELS_OF_RANGE: self.panels_each,
            Word.PANELS: self.panels,
            Word.OUTER_BY: panels if self.panels_first else 1,
            Word.OUTER_RANGES: outer,
            Word.OUTER_OF_RANGE: self.outer_each,
            Word.OUTER: self.outer,
        }


@dataclass(frozen=True, eq=False)
class ProductPlan:
    """A product as data; axes have the innermost one first, distances are in bytes.

    `words` are those that nothing else says. `list_of` gives the tiles of a part, of
    which some go through the `listed` steps, by their distances in a and b.
    """

    ranges: Ranges
    words: Mapping[Word, int]
    blocks: Sequence[Axis]
    outer: Sequence[Axis]
    list_of: Callable[[Part], TileList]
    pack: PackPanel | None = None
    listed: Sequence[tuple[int, int]] = ()

    @property
    def is_parallel(self) -> bool:
        """True if the product is cut into several chunks."""
        return self.numbers[Word.CHUNKS] > 1

    @cached_property
    def code(self) -> tuple[Code, ...]:
        """The code that runs it, `product` first."""
        tiles = dict.fromkeys(t.tile for x in self._lists.values() for t in x.tiles)
        return (Loops(), *tiles, *([self.pack] if self.pack else []))

    @cached_property
    def _lists(self) -> dict[Part, TileList]:
        """The lists of tiles by part."""
        last = (Word.LAST_PANEL, Word.LAST_ROWS, Word.LAST_BLOCK)
        choices = [(False, True) if self.words[x] >= 0 else (False,) for x in last]
        return {
            (panel, rows, block): self.list_of((panel, rows, block))
            for panel, rows, block in itertools.product(*choices)
        }

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """All words, as `product` reads them."""
        numbers = {code: i for i, code in enumerate(self.code)}
        words = [0] * HEAD
        given = {Word.BLOCKS_EACH: self.words[Word.BLOCKS], **self.ranges.words}
        for word, number in {**given, **self.words}.items():
            words[word] = number
        words[Word.PACK] = numbers[self.pack] if self.pack else -1
        for axes, count, at in (
            (self.blocks, Word.BLOCK_AXES, Word.BLOCK_AXES_AT),
            (self.outer, Word.OUTER_AXES, Word.OUTER_AXES_AT),
        ):
            words[count], words[at] = len(axes), len(words)
            for axis in axes:
                words += [axis.extent, axis.c, axis.a, axis.b]
        steps = len(words)
        words += itertools.chain(*self.listed)
        for part, list_ in self._lists.items():
            which = sum(4 >> i for i, last in enumerate(part) if last)
            words[Word.LISTS + which] = len(words)
            words += [len(list_.tiles), *list_.pack]
            for t in list_.tiles:
                words += [numbers[t.tile], t.c, t.a, t.count]
                to_steps = 8 * (steps - len(words))
                words += t.numbers
                if t.tile.listed:
                    words[len(words) - len(t.numbers) + A_STEP] = to_steps
        return tuple(words)
