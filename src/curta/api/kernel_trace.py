"""Programs with the clock read between their kernels, each an event of the trace."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from curta.api.explain_costs import line
from curta.compiler import llvm_binding as binding
from curta.compiler.clocks import clocked
from curta.compiler.executable import NDArray
from curta.compiler.report import KernelReport, report
from curta.compiler.support.threads import parallel_for_address
from curta.config import config
from curta.core.evaluate import const_as_numpy
from curta.core.recorder import Recorder
from curta.runtime.array import wrap
from curta.runtime.devices import default_is_host
from curta.runtime.dispatch import CompiledCall, is_placed
from curta.runtime.donation import give_up
from curta.runtime.native_executable import NativeExecutable


def with_kernels(
    recorder: Recorder, compiled: Any, leaves: Sequence[Any]
) -> Callable[[Sequence[Any]], Any]:
    """A runner of a program that records its kernels, where they can be timed.

    Programs that run on other devices, or several, are recorded as a whole.
    """
    if not recorder.kernels or not is_one_program(compiled, leaves):
        return compiled
    if config.curta_backend != "llvm" or not binding.available():
        return compiled
    known = recorder.programs
    if compiled not in known:
        known[compiled] = KernelTrace(recorder, compiled)
    return known[compiled]


def is_one_program(compiled: Any, leaves: Sequence[Any]) -> bool:
    """Return True if a call runs one program on this CPU."""
    simple = type(compiled) is CompiledCall and not (
        compiled.known_destinations or compiled.without_bits
    )
    return simple and default_is_host() and not any(map(is_placed, leaves))


class KernelTrace:
    """A program that reads the clock between its kernels."""

    def __init__(self, recorder: Recorder, compiled: CompiledCall):
        self._recorder, self._compiled = recorder, compiled
        # Donated arguments are overwritten, as by the program itself.
        in_place = {i: out for out, i in compiled.run.overwrites.items()}
        self._made = report(compiled.closed, in_place)
        self._program = clocked(self._made, parallel_for_address)

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        compiled, start = self._compiled, time.perf_counter()
        given = [*map(const_as_numpy, leaves, compiled.in_avals)]
        outs = self._run(given)
        give_up(compiled.consumed, leaves)
        times = self._program.kernels()
        for kernel, spent in zip(self._made.kernels, times, strict=True):
            kind = "python" if kernel.in_python else "kernel"
            self._recorder.add(_title(kernel), kind, start, spent, **_details(kernel))
            start += spent
        return list(map(wrap, outs, compiled.out_avals))

    def _run(self, given: list[NDArray]) -> Sequence[NDArray]:
        """The results; those that overwrite an argument lie in a copy of it."""
        executable, pairs = self._program.executable, self._compiled.run.overwrites
        if not pairs:
            return executable(*given)
        for i in pairs.values():
            given[i] = given[i].copy()
        native = NativeExecutable(executable, executable.native, pairs)
        return native(*given)


def _title(kernel: KernelReport) -> str:
    names = dict.fromkeys(eqn.op.name for eqn in kernel.eqns)
    return f"{kernel.kind}: {' '.join(names or kernel.labels)}"


def _details(kernel: KernelReport) -> dict[str, Any]:
    lines = dict.fromkeys(line(eqn.source_info) for eqn in kernel.eqns)
    return {
        "bytes read": kernel.read,
        "bytes written": kernel.written,
        "lines": ", ".join(filter(None, lines)),
    }
