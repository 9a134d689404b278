"""Machine code of routines of the library: one function per shape, made when needed.

A routine is compiled apart from the kernels around it, at the level that suits its work
(levels.py), and shared by all programs that have one of its shape.
"""

from __future__ import annotations

from functools import lru_cache

from curta._base.lazy_dataclass import dataclass
from curta.compiler.code_generator import QUICK
from curta.compiler.library import quicksort
from curta.compiler.library.quicksort import Quicksort
from curta.compiler.library.routine import Routine
from curta.compiler.library.tile_calls import TileCall
from curta.compiler.llvm import transpose_assembly, transposes
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.transposes import RowTranspose
from curta.compiler.machine_code.linked import ModuleSource
from curta.compiler.targets import Target, Tuning

_NAME = "routine"


@dataclass(frozen=True, eq=False)
class LibraryCall:
    """The code that a product or a routine is run by, the first of which is called.

    With `numbers` it is called with two addresses more: theirs, and that of the list of
    the addresses of all code. If it is `parallel`, it may run on threads. With `tiles`
    these are called instead, one after the other.
    """

    code: tuple[ModuleSource, ...]
    numbers: tuple[int, ...] = ()
    parallel: bool = True
    tiles: tuple[TileCall, ...] = ()


def routine_call(routine: Routine, level: int, target: Target) -> LibraryCall:
    """The code of a routine, compiled at a level."""
    return _routine_call(routine, level, target, target.tuning)


@lru_cache(maxsize=1024)
def _routine_call(
    routine: Routine, level: int, target: Target, tuning: Tuning
) -> LibraryCall:
    module = Module.of(target)
    routine.emit(module, _NAME)
    callees, text = shared_code(module, level, target), module.text()
    code = ModuleSource.of(target, text, level, [_NAME], callees, routine.externals)
    return LibraryCall((code,))


def shared_code(module: Module, level: int, target: Target) -> list[ModuleSource]:
    """The functions that a module calls and all programs share."""
    return [function_code(x, level, target) for x in module.library.values()]


@lru_cache(maxsize=64)
def function_code(
    what: RowTranspose | Quicksort, level: int, target: Target
) -> ModuleSource:
    """Return the code of a function, or of several, that all programs share."""
    if isinstance(what, Quicksort):
        return ModuleSource.fixed(target, what.emit, level, [quicksort], what.names)
    sources = [transposes, transpose_assembly]
    return ModuleSource.fixed(target, what.emit, QUICK, sources, [what.name])
