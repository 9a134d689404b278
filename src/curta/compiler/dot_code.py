"""Machine code for products of matrices: kernels that all programs share.

A product is a plan, which is data, and a few kernels that are compiled once for a
processor: the loops, the shapes of tiles that the plan speaks of, the copy of a panel.
"""

from __future__ import annotations

import sys
from functools import lru_cache, partial
from typing import Any

import numpy as np

from curta.compiler.library import tile, tile_assembly, tile_shape
from curta.compiler.library.contraction import Contraction, contraction_plan
from curta.compiler.library.gemm import Dot, dot_plan
from curta.compiler.library.packing import Pack, RowTranspose
from curta.compiler.library.product import Word
from curta.compiler.library.product_plan import Code
from curta.compiler.library.tile import emit_tile, is_assembly
from curta.compiler.library.tile_calls import tile_calls
from curta.compiler.library.tile_shape import Tile
from curta.compiler.linked import Source, link
from curta.compiler.llvm import target
from curta.compiler.routine_code import LibraryCall, function_code
from curta.compiler.sized import Computed, PerSizes, Sizes, concrete
from curta.config import config
from curta.tuning import Tuning


def dot_call(dot: Dot | Contraction) -> LibraryCall:
    """The code of a product, and what it is called with besides c, a and b."""
    return _dot_call(dot, config.tuning)


def entry_call(dot: Dot | Contraction) -> LibraryCall:
    """The same for an entry, which calls the tiles itself if they are few."""
    return _entry_call(dot, config.tuning)


@lru_cache(maxsize=1024)
def _entry_call(dot: Dot | Contraction, tuning: Tuning) -> LibraryCall:
    call = _dot_call(dot, tuning)
    tiles = tile_calls(call.numbers, tuning.tiles_in_entry)
    if tiles is None:
        return call
    return LibraryCall(call.code[1:], call.numbers, False, tiles)  # not `product`


@lru_cache(maxsize=1024)
def _dot_call(dot: Dot | Contraction, tuning: Tuning) -> LibraryCall:
    width = target.host().vector_bytes
    if isinstance(dot, Contraction):
        plan = contraction_plan(dot, width)
    else:
        plan = dot_plan(dot, width)
    parallel = plan.numbers[Word.CHUNKS] > 1
    return LibraryCall(tuple(map(_code, plan.code)), plan.numbers, parallel)


def call_at_sizes(dot: Any) -> list[Computed]:
    """Addresses of what computes a product, of its numbers, and of its code's list.

    They are found when the sizes are known. Raises NotImplementedError for routines,
    whose code is that of one size.
    """
    if not isinstance(dot, (Dot, Contraction)):
        raise NotImplementedError(f"{type(dot).__name__} is code for one size")
    made = PerSizes(lambda sizes: _Words(dot_call(concrete(dot, sizes))))
    return [Computed(partial(_word_at, made, i)) for i in range(3)]


def _word_at(made: PerSizes, i: int, sizes: Sizes) -> int:
    words: _Words = made(sizes)
    return words.words[i]


class _Words:
    """The addresses that a product is called with, and what lies there."""

    def __init__(self, call: LibraryCall) -> None:
        self.linked = link(call.code)
        self.code = np.array([c.address for c in self.linked], np.uint64)
        self.numbers = np.array(call.numbers, np.int64)
        lie = self.numbers.ctypes.data, self.code.ctypes.data
        self.words = (self.linked[0].address, *lie)


@lru_cache(maxsize=256)
def _code(code: Code) -> Source:
    if isinstance(code, Tile):
        quick = is_assembly(target.host().module(), code)
        level = target.QUICK if quick else target.GOOD
        sources = [tile, tile_assembly, tile_shape]
        return Source.fixed(partial(emit_tile, tile=code), level, sources, [code.name])
    callees: list[Source] = []
    if isinstance(code, Pack) and code.transposed:
        callees.append(function_code(RowTranspose(code.vector), target.QUICK))
    source = sys.modules[type(code).__module__]
    return Source.fixed(code.emit, target.QUICK, [source], [code.name], callees)
