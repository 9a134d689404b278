"""Machine code of routines of the library: one function per shape, made when needed.

A routine is compiled apart from the kernels around it, at a higher level unless it only
calls LAPACK, and shared by all programs that have one of its shape.
"""

from __future__ import annotations

from functools import lru_cache

from curta.compiler.library import lines, packing
from curta.compiler.library.lines import LineTranspose
from curta.compiler.library.packing import transpose_name
from curta.compiler.library.routine import Routine
from curta.compiler.linked import Source
from curta.compiler.llvm import target
from curta.compiler.llvm.types import Type
from curta.config import config
from curta.lazy_dataclass import dataclass
from curta.tuning import Tuning

_NAME = "routine"


@dataclass(frozen=True, eq=False)
class LibraryCall:
    """The code that a product or a routine is run by, the first of which is called.

    With `numbers` it is called with two addresses more: theirs, and that of the list of
    the addresses of all code. If it is `parallel`, it may run on threads.
    """

    code: tuple[Source, ...]
    numbers: tuple[int, ...] = ()
    parallel: bool = True


def routine_call(routine: Routine) -> LibraryCall:
    """The code of a routine."""
    return _routine_call(routine, config.tuning)


@lru_cache(maxsize=1024)
def _routine_call(routine: Routine, tuning: Tuning) -> LibraryCall:
    module = target.host().module()
    routine.emit(module, _NAME)
    callees = [transpose_code(v) for v in routine.transposed]
    level = target.QUICK if routine.externals else target.GOOD
    code = Source.of(module.text(), level, [_NAME], callees, routine.externals)
    return LibraryCall((code,))


@lru_cache(maxsize=64)
def transpose_code(vector: Type) -> Source:
    """The function of `packing.emit_transpose`."""
    return Source.fixed(
        lambda module: packing.emit_transpose(module, vector), target.QUICK,
        [packing], transpose_name(vector),
    )  # fmt: skip


@lru_cache(maxsize=64)
def line_code(transpose: LineTranspose) -> Source:
    """The function of a transpose of lines."""
    sources = [lines, packing]
    return Source.fixed(transpose.emit, target.GOOD, sources, transpose.name)
