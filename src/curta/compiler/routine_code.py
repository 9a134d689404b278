"""Machine code of routines of the library: one function per shape, made when needed.

A routine is compiled apart from the kernels around it, at a higher level, and shared by
all programs that have one of its shape.
"""

from __future__ import annotations

from functools import lru_cache

from curta.compiler.cache import fixed_key
from curta.compiler.library import packing
from curta.compiler.library.packing import transpose_name
from curta.compiler.library.routine import Routine
from curta.compiler.linked import Source
from curta.compiler.llvm import target
from curta.compiler.llvm.types import Type
from curta.config import config
from curta.tuning import Tuning

_NAME = "routine"


def routine_code(routine: Routine) -> Source:
    """The code of a routine."""
    return _routine_code(routine, config.tuning)


@lru_cache(maxsize=1024)
def _routine_code(routine: Routine, tuning: Tuning) -> Source:
    module = target.host().module()
    routine.emit(module, _NAME)
    callees = [transpose_code(v) for v in routine.transposed]
    text = module.text()
    return Source.of(text, target.GOOD, [_NAME], callees, routine.externals)


@lru_cache(maxsize=64)
def transpose_code(vector: Type) -> Source:
    """The function of `packing.emit_transpose`."""

    def write() -> str:
        module = target.host().module()
        packing.emit_transpose(module, vector)
        return module.text()

    name = transpose_name(vector)
    file = fixed_key(write, target.QUICK, [packing.__name__], name)
    return Source(file, write, target.QUICK, (name,))
