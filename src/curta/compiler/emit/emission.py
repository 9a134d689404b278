"""Emission: the LLVM IR of a program, as modules to compile.

A program has a module with its entry, which runs the works in order, and kernels, in
modules by optimization level. Nothing is compiled here.
"""

from __future__ import annotations

from collections.abc import Mapping

from curta._base.lazy_dataclass import dataclass
from curta.compiler.callee import Callee
from curta.compiler.code_generator import QUICK
from curta.compiler.dump import dump
from curta.compiler.emit.dot_code import entry_call
from curta.compiler.emit.entry import ENTRY, SERVICES, KernelModules, emit_entry
from curta.compiler.emit.levels import level_of, routine_level
from curta.compiler.emit.mpi_stub import constant_words, stub
from curta.compiler.emit.routine_code import (
    LibraryCall,
    routine_call,
    shared_code,
)
from curta.compiler.library.routine import Routine
from curta.compiler.llvm.builder import Module
from curta.compiler.lower.mpi_call import MPICallee
from curta.compiler.machine_code.linked import ModuleSource
from curta.compiler.program.program import Program
from curta.compiler.program.work import (
    LibraryKey,
    Scheduled,
    in_entry,
    library_keys,
)
from curta.compiler.program.works import is_parallel
from curta.compiler.sized import Slots, depends_on_sizes
from curta.compiler.targets import Target


@dataclass(frozen=True, eq=False)
class ProgramCode:
    """The code of one program.

    Fields:
        program: what the code runs.
        entry: the module of the entry, with those of its kernels as callees.
        library: code of products and routines, in table order.
        stubs: code of the calls of MPI, in the order of the callees.
        parallel: True if it asks for threads.
        slots: the numbers that the code reads from a table of sizes.
    """

    program: Program
    entry: ModuleSource
    library: tuple[ModuleSource, ...]
    stubs: tuple[ModuleSource, ...]
    parallel: bool
    slots: Slots

    @property
    def constants(self) -> int:
        """The number of words of the table after the arrays."""
        program = self.program
        calls = 2 * len(program.callees) + len(self.library)
        return len(program.consts) + SERVICES + calls + bool(self.slots.items)


def emit(program: Program) -> list[ProgramCode]:
    """Return the code of a program and its callees, callees before callers."""
    constants: dict[Callee, int] = {}
    result = []
    for part in program.inner_first():
        for callee in part.callees:
            if isinstance(callee, MPICallee):
                constants[callee] = constant_words(callee)
            elif not isinstance(callee, Program):
                constants[callee] = 1  # the status of a host call
        result.append(_program_code(part, constants))
        constants[part] = result[-1].constants
    return result


def _program_code(program: Program, constants: Mapping[Callee, int]) -> ProgramCode:
    keys = library_keys(program.works)
    fixed = [key for key in keys if not depends_on_sizes(key)]
    library = {key: _library_call(key, program.often, program.target) for key in fixed}
    parallel = is_parallel(program.jobs, program.target)
    slots = Slots()
    entry = _entry_code(program, library, constants, parallel, slots)
    code = tuple(code for call in library.values() for code in call.code)
    calls = [c for c in program.callees if isinstance(c, MPICallee)]
    stubs = tuple(stub(c, program.target) for c in calls)
    return ProgramCode(program, entry, code, stubs, parallel, slots)


def _library_call(key: LibraryKey, often: bool, target: Target) -> LibraryCall:
    if isinstance(key, Routine):
        return routine_call(key, routine_level(key, often, target.tuning), target)
    return entry_call(key, target)


def _entry_code(
    program: Program,
    library: Mapping[LibraryKey, LibraryCall],
    constants: Mapping[Callee, int],
    parallel: bool,
    slots: Slots,
) -> ModuleSource:
    """Return the entry and its kernels: in one module, or in one for each level."""

    def new_module() -> Module:
        module = Module.of(program.target)
        module.sizes = slots
        return module

    target = program.target
    kernels = KernelModules(new_module, constants, target.tuning.module_ir)
    works = program.works
    for work in works:
        if isinstance(work, Scheduled) and not in_entry(work):
            kernels.add(work, level_of(work, program.often, target.tuning))
    apart = kernels.modules
    level, entry = QUICK, new_module()
    if len(apart) == 1 and len(works) <= target.tuning.short_entry:
        only = apart.pop()
        level, entry = only.level, only.module
    callees = []
    for part in apart:
        part.module.export(part.functions)
        text, shared = part.module.text(), shared_code(part.module, part.level, target)
        callees.append(
            ModuleSource.of(target, text, part.level, part.functions, shared)
        )
    emit_entry(
        entry, program.jobs, program.pointers, program.memory.roots, program.arena,
        kernels.functions, library, constants, parallel, target,
    )  # fmt: skip
    text = entry.text()
    dump("llvm", lambda: "\n".join([*(c.write() for c in callees), text]))
    shared = [*callees, *shared_code(entry, level, target)]
    return ModuleSource.of(target, text, level, [ENTRY], shared)
