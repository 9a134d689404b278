"""Machine code for products of matrices: kernels that all programs share.

A product is a plan, which is data, and a few kernels that are compiled once for a
processor: the loops, the shapes of tiles that the plan speaks of, the copy of a panel.
"""

from __future__ import annotations

import sys
from functools import lru_cache, partial
from typing import Any

import numpy as np

from curta.compiler.code_generator import GOOD, QUICK
from curta.compiler.emit.routine_code import LibraryCall, function_code
from curta.compiler.library import tile, tile_assembly, tile_shape
from curta.compiler.library.contraction import Contraction
from curta.compiler.library.gemm import Dot
from curta.compiler.library.packing import PackPanel
from curta.compiler.library.product_plan import Code
from curta.compiler.library.products import product_plan
from curta.compiler.library.tile import emit_tile, is_assembly
from curta.compiler.library.tile_calls import tile_calls
from curta.compiler.library.tile_shape import Tile
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.transposes import RowTranspose
from curta.compiler.machine_code.linked import ModuleSource, link
from curta.compiler.sized import Computed, PerSizes, Sizes, concrete
from curta.compiler.targets import Target, Tuning


def dot_call(dot: Dot | Contraction, target: Target) -> LibraryCall:
    """The code of a product, and what it is called with besides c, a and b."""
    return _dot_call(dot, target, target.tuning)


def entry_call(dot: Dot | Contraction, target: Target) -> LibraryCall:
    """The same for an entry, which calls the tiles itself if they are few."""
    return _entry_call(dot, target, target.tuning)


@lru_cache(maxsize=1024)
def _entry_call(dot: Dot | Contraction, target: Target, tuning: Tuning) -> LibraryCall:
    call = _dot_call(dot, target, tuning)
    tiles = tile_calls(call.numbers, tuning.tiles_in_entry)
    if tiles is None:
        return call
    return LibraryCall(call.code[1:], call.numbers, False, tiles)  # not `product`


@lru_cache(maxsize=1024)
def _dot_call(dot: Dot | Contraction, target: Target, tuning: Tuning) -> LibraryCall:
    plan = product_plan(dot, target)
    code = tuple(_code(x, target) for x in plan.code)
    return LibraryCall(code, plan.numbers, plan.is_parallel)


def call_at_sizes(dot: Any, target: Target) -> list[Computed]:
    """Addresses of what computes a product, of its numbers, and of its code's list.

    They are found when the sizes are known. Raises NotImplementedError for routines,
    whose code is that of one size.
    """
    if not isinstance(dot, (Dot, Contraction)):
        raise NotImplementedError(f"{type(dot).__name__} is code for one size")
    made = PerSizes(lambda sizes: _Words(dot_call(concrete(dot, sizes), target)))
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
def _code(code: Code, target: Target) -> ModuleSource:
    if isinstance(code, Tile):
        quick = is_assembly(Module.of(target), code)
        level = QUICK if quick else GOOD
        sources = [tile, tile_assembly, tile_shape]
        return ModuleSource.fixed(
            target, partial(emit_tile, tile=code), level, sources, [code.name]
        )
    callees: list[ModuleSource] = []
    if isinstance(code, PackPanel) and code.transposed:
        callees.append(function_code(RowTranspose(code.vector), QUICK, target))
    source = sys.modules[type(code).__module__]
    return ModuleSource.fixed(target, code.emit, QUICK, [source], [code.name], callees)
