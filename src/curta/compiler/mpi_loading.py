"""Loading of collectives: the symbols of MPI's calls become addresses and handles.

Nothing before the loader asks MPI for anything. Communicators are made here, by all
hosts in the order of the collectives in the program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from curta._base.once import once
from curta.compiler.lower.mpi_call import MPICallee
from curta.compiler.machine_code import host_call
from curta.compiler.machine_code.linked import Linked
from curta.compiler.machine_code.native import NativeProgram
from curta.core.jaxpr import Eqn
from curta.hosts.engine import at_line, current
from curta.hosts.failures import HostsError
from curta.hosts.mpi import MPIEngine
from curta.hosts.mpi_symbols import Symbols, error_text


def load(callee: MPICallee, code: Linked) -> NativeProgram:
    """Return the native function of a collective on this host.

    Raises:
        LookupError: this process does not exchange arrays by MPI.
    """
    engine, eqn = current(), callee.eqn
    if not isinstance(engine, MPIEngine) or not isinstance(eqn, Eqn):
        raise LookupError(f"{callee.call.function} is called without MPI")
    with at_line(eqn.source_info.short):
        words = _words(callee, engine)
    return NativeProgram(
        code=code,
        address=code.address,
        signature=callee.signature,
        results=callee.results,
        constants=words,
        cost=callee.cost,
        runs_python=callee.runs_python,
        eqn=eqn,
    )


def _words(callee: MPICallee, engine: MPIEngine) -> tuple[int, ...]:
    """The constant words, in the order that `mpi_stub.py` gives them."""
    call, symbols = callee.call, Symbols(engine)
    operand = callee.array_bytes(callee.results)
    result = callee.array_bytes(callee.form.result)
    described, moved = symbols.described(call, operand)
    counts = callee.form.request is None
    request = engine.request(described) if callee.form.begins else 0
    route = symbols.route(call)
    cleared = not route.keeps and not route.receives
    return (
        symbols.function(call.function),
        engine.site_address,
        0 if callee.form.polls else engine.site(described),
        engine.traffic.address(call.collective) if counts else 0,
        moved,
        _reporter()[1],
        request,
        result if route.keeps else 0,
        result if cleared else 0,
        *(symbols.word(x, request) for x in call.arguments),
    )


@once
def _reporter() -> tuple[Any, int]:
    """What native code calls with an error of MPI, and where it is."""

    def report(status: int) -> None:
        host_call.fail(HostsError(error_text(status)))

    kind: Callable[..., Any] = ctypes.CFUNCTYPE(None, ctypes.c_int)
    function = kind(report)
    return function, ctypes.cast(function, ctypes.c_void_p).value or 0
