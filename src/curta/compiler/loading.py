"""Loading: from the code of a program to an executable in memory.

The modules of a program and all its callees are linked together, so that LLVM compiles
those missing from the kernel cache at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta._base.on_demand import late
from curta.compiler.callee import Callee, HostCall
from curta.compiler.emit.emission import ProgramCode
from curta.compiler.executable import Executable, Launcher, NativeCode
from curta.compiler.lower.mpi_call import MPICallee
from curta.compiler.machine_code import host_call
from curta.compiler.machine_code.linked import link
from curta.compiler.machine_code.native import NativeProgram

mpi_loading: Any = late("curta.compiler.mpi_loading")


def load(codes: Sequence[ProgramCode], launcher: Launcher | None) -> Executable:
    """Return the executable of the last program, whose callees come before it.

    Args:
        codes: what `emit` has made.
        launcher: gives the address of the function that runs chunks on threads.

    Raises:
        ImportError: if code is missing from the cache and llvmlite is not installed.
    """
    sources = [s for c in codes for s in (c.entry, *c.library, *c.stubs)]
    linked = iter(link(sources))
    loaded: dict[Callee, NativeProgram] = {}
    for code in codes:
        program, entry = code.program, next(linked)
        library = [next(linked) for _ in code.library]
        for callee in program.callees:
            if isinstance(callee, MPICallee):
                loaded[callee] = mpi_loading.load(callee, next(linked))
            elif isinstance(callee, HostCall) and callee not in loaded:
                loaded[callee] = host_call.load(callee)
        native = NativeCode(
            entry,
            (*(loaded[c] for c in program.callees), *library),
            program.cost,
            program.arena_bytes,
            program.temporaries,
            code.parallel,
            program.runs_python,
            program.cancellable,
            code.slots,
        )
        executable = Executable(
            program.jaxpr.in_avals, program.jaxpr.out_avals, native, program.consts,
            launcher, program.in_place,
        )  # fmt: skip
        if code is not codes[-1]:
            loaded[program] = executable.native
    return executable
