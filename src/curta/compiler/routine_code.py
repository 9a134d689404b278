"""Machine code of routines of the library: one function per shape, made when needed.

A routine is compiled apart from the kernels around it, at a higher level, and shared by
all programs that have one of its shape.
"""

from __future__ import annotations

from functools import cache, lru_cache

from curta.compiler.cache import fixed_object_file, object_file
from curta.compiler.library import blas, packing
from curta.compiler.library.packing import turn_name
from curta.compiler.library.routine import Routine
from curta.compiler.link import LoadedCode, load
from curta.compiler.llvm import target
from curta.compiler.llvm.types import Type
from curta.lazy_dataclass import dataclass

_NAME = "routine"


@dataclass(frozen=True)
class RoutineCode:
    """A routine at an address, and the code that it calls."""

    code: LoadedCode
    address: int
    callees: tuple[RoutineCode, ...] = ()


@lru_cache(maxsize=1024)
def routine_code(routine: Routine) -> RoutineCode:
    """The code of a routine."""
    module = target.host().module()
    routine.emit(module, _NAME)
    callees = {turn_name(v): turn_code(v) for v in routine.turned}
    imports = {name: code.address for name, code in callees.items()}
    imports.update(blas.addresses(routine.externals))
    code = load(object_file(module.text(), target.GOOD), [_NAME], imports)
    return RoutineCode(code, code.address(_NAME), tuple(callees.values()))


@cache
def turn_code(vector: Type) -> RoutineCode:
    """The function of `packing.emit_turn`."""

    def write() -> str:
        module = target.host().module()
        packing.emit_turn(module, vector)
        return module.text()

    name = turn_name(vector)
    compiled = fixed_object_file(write, target.QUICK, [packing.__name__], name)
    code = load(compiled, [name])
    return RoutineCode(code, code.address(name))
