"""Machine code of routines of the library: one function per shape, made when needed.

A routine is compiled apart from the kernels around it, at a higher level, and shared by
all programs that have one of its shape.
"""

from __future__ import annotations

from functools import lru_cache

from curta.compiler.cache import object_file
from curta.compiler.library.routine import Routine
from curta.compiler.link import LoadedCode, load
from curta.compiler.llvm import target
from curta.lazy_dataclass import dataclass

_NAME = "routine"


@dataclass(frozen=True)
class RoutineCode:
    """A routine at an address."""

    code: LoadedCode
    address: int


@lru_cache(maxsize=1024)
def routine_code(routine: Routine) -> RoutineCode:
    """The code of a routine."""
    module = target.host().module()
    routine.emit(module, _NAME)
    code = load(object_file(module.text(), target.GOOD), [_NAME])
    return RoutineCode(code, code.address(_NAME))
