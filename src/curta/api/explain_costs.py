"""The costs of a compiled program: a row for each kernel, memory, machine limits."""

from __future__ import annotations

import dataclasses
import json
import linecache
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._base.once import once
from curta.api.cost import eqn_flops, eqn_transcendentals
from curta.api.explain_lines import (
    SourceLines,
    UserLine,
    line_shares,
    seconds_by_line,
    sources,
)
from curta.api.jit import jit
from curta.compiler.executable import Executable
from curta.compiler.host_target import host
from curta.compiler.machine_code import cache
from curta.compiler.program.program import Program
from curta.compiler.report import KernelReport, ProgramReport, measure, report
from curta.compiler.support.threads import num_threads, parallel_for_address
from curta.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr, jaxprs_in_params
from curta.core.source_info import SourceInfo
from curta.primitives.collective import Collective

_MOVES = {
    *("broadcast_in_dim", "concatenate", "copy", "copy_p", "dynamic_slice", "gather"),
    *("pad", "reshape", "rev", "slice", "squeeze", "transpose"),
}
_Bodies = Mapping[Program, Any]
_CALLBACKS = {"debug_callback", "debug_print", "io_callback", "pure_callback"}


@dataclass(frozen=True)
class MachineLimits:
    """The limits of this machine: bytes moved and dot operations per second."""

    bytes: float
    flops: float
    threads: int


@dataclass(frozen=True, eq=False)
class KernelCost:
    """The costs of a kernel, and the eqns computed in it.

    Attributes:
      index: its number in the order in which kernels run.
      kind: `loops`, `product of matrices`, `library`, a loop or branch, or `Python`.
      ops: the primitives fused into it.
      lines: the user's lines that they come from, as `file.py:12  text`.
      bytes: what it reads and writes of memory, each element once.
      flops: its operations; a transcendental function counts as one.
      seconds: how long it takes as the program runs.
      bound: the limit of the machine that is nearest, `memory` or `arithmetic`.
      share_of_limit: the part of that limit that it reaches.
      reason: why it runs in Python, if it does.
      apart: why it is not part of an earlier kernel.
      code: the loops as the compiler prints them.
      inner: the kernels of the programs that it calls.
      shares: the part of its time at each of the user's lines, by estimated cost.
    """

    index: int
    kind: str
    ops: tuple[str, ...]
    lines: tuple[str, ...]
    bytes: int
    flops: int
    seconds: float
    bound: str
    share_of_limit: float
    reason: str
    apart: tuple[str, ...]
    code: str
    inner: tuple[tuple[KernelCost, ...], ...]
    only_moves: bool
    dtypes: frozenset[str]
    shares: Mapping[UserLine, float]


@dataclass(frozen=True, eq=False)
class ProgramCost:
    """The costs of a program: kernels, memory, collectives, hints.

    `call` is how long the user's call took that took least, whose kernels these are;
    `typical` is the median of all calls. None where no call could be timed.
    """

    name: str
    jaxpr: str
    kernels: tuple[KernelCost, ...]
    call: float | None
    typical: float | None
    memory: dict[str, int]
    allocations: int
    collectives: tuple[str, ...]
    limits: MachineLimits
    sources: tuple[SourceLines, ...]
    hints: tuple[str, ...] = ()

    @property
    def by_line(self) -> dict[UserLine, float]:
        """The seconds at each of the user's lines."""
        return seconds_by_line(self.kernels)

    @property
    def sum_of_kernels(self) -> float:
        """The seconds of all kernels."""
        return sum(k.seconds for k in self.kernels)

    @property
    def around_kernels(self) -> float | None:
        """The time of a call besides its kernels.

        That is looking at arguments, memory for results, and starting the program.
        """
        return None if self.call is None else self.call - self.sum_of_kernels

    @property
    def seconds(self) -> float:
        """The total time: kernels and overhead."""
        return self.sum_of_kernels + (self.around_kernels or 0.0)

    @property
    def python_steps(self) -> tuple[KernelCost, ...]:
        """The steps that run in Python, including those in loops."""
        return tuple(k for k in every(self.kernels) if k.reason)


def every(kernels: Sequence[KernelCost]) -> Iterator[KernelCost]:
    """Kernels, and those of the programs that they call."""
    for kernel in kernels:
        yield kernel
        for program in kernel.inner:
            yield from every(program)


def program_cost(
    name: str,
    closed: ClosedJaxpr,
    args: Sequence[Any],
    seconds: float,
    call_of: Callable[[Executable], Callable[[], object]] | None,
) -> ProgramCost:
    """Compile a program, and time its kernels on arguments, in a user's call.

    `call_of` gives the call of an executable, if there can be one. Hints are made of
    what is returned: `explain_hints`.
    """
    made = report(closed)
    times = measure(made, args, parallel_for_address, seconds, call_of)
    user = call_of is not None
    top = limits()
    kernels = _costs(made, times.kernels, top, times.bodies)
    memory = {
        "arguments": made.arguments,
        "results": made.results,
        "temporaries": made.arena,
        "constants": made.constants,
        "peak": made.peak,
    }
    return ProgramCost(
        name,
        closed.pretty_print(source_info=True),
        kernels,
        times.call if user else None,
        times.typical if user else None,
        memory,
        len(made.program.items.outputs) + bool(made.arena),
        tuple(_collectives(closed.jaxpr)),
        top,
        sources(_codes(closed.jaxpr), seconds_by_line(kernels)),
    )


def _costs(
    made: ProgramReport, seconds: Sequence[float], top: MachineLimits, bodies: _Bodies
) -> tuple[KernelCost, ...]:
    return tuple(
        _cost(i, kernel, s, top, bodies)
        for i, (kernel, s) in enumerate(zip(made.kernels, seconds))
    )


def _cost(
    index: int,
    kernel: KernelReport,
    seconds: float,
    top: MachineLimits,
    bodies: _Bodies,
) -> KernelCost:
    moved = kernel.read + kernel.written
    work = sum(map(_work, kernel.eqns))
    shares = {"memory": moved / top.bytes, "arithmetic": work / top.flops}
    bound = max(shares, key=shares.__getitem__)
    ops = tuple(dict.fromkeys(eqn.op.name for eqn in kernel.eqns)) or kernel.labels
    lines = dict.fromkeys(line(eqn.source_info) for eqn in kernel.eqns)
    inner = _inner_costs(kernel, seconds, top, bodies)
    return KernelCost(
        index,
        kernel.kind,
        ops,
        tuple(x for x in lines if x),
        moved,
        work,
        seconds,
        bound,
        shares[bound] / seconds if seconds else 0.0,
        _reason(kernel),
        kernel.apart,
        kernel.code,
        inner,
        kernel.kind == "loops" and {*ops, *kernel.labels} - {"part"} <= _MOVES,
        frozenset(str(v.aval.dtype) for eqn in kernel.eqns for v in eqn.outvars),
        line_shares(kernel.eqns, inner),
    )


def _inner_costs(
    kernel: KernelReport, seconds: float, top: MachineLimits, bodies: _Bodies
) -> tuple[tuple[KernelCost, ...], ...]:
    """The kernels of the programs that a kernel calls, which share its time."""
    zeros = {p: [0.0] * len(p.kernels) for p in kernel.inner}
    known = [list(map(float, bodies.get(p.program, zeros[p]))) for p in kernel.inner]
    total = sum(map(sum, known)) or 1.0
    return tuple(
        _costs(program, [seconds * t / total for t in times], top, bodies)
        for program, times in zip(kernel.inner, known, strict=True)
    )


def _work(eqn: Eqn) -> int:
    """The operations of an eqn; a scan counts for each of its iterations."""
    times = eqn.params.get("length", 1) if eqn.op.name == "scan" else 1
    return times * (eqn_flops(eqn) + eqn_transcendentals(eqn))


def _reason(kernel: KernelReport) -> str:
    if kernel.kind != "Python":
        return ""
    (eqn,) = kernel.eqns[-1:]
    if eqn.op.name in _CALLBACKS:
        return f"{eqn.op.name} calls a Python function"
    types = ", ".join(v.aval.str_short() for v in [*eqn.invars, *eqn.outvars])
    return f"there is no compiled code for {eqn.op.name} of these types: {types}"


def line(info: SourceInfo) -> str:
    """A user's line: its file, number and text; empty if it is not known."""
    if info.code is None:
        return ""
    file = info.code.co_filename
    text = linecache.getline(file, info.line).strip()
    return f"{os.path.basename(file)}:{info.line}  {text}".rstrip()


def _codes(jaxpr: Jaxpr) -> Iterator[CodeType]:
    """The functions of the user that a program was traced from."""
    for eqn in jaxpr.eqns:
        if eqn.source_info.code is not None:
            yield eqn.source_info.code
        for inner in jaxprs_in_params(eqn.params):
            yield from _codes(inner)


def _collectives(jaxpr: Jaxpr) -> Iterator[str]:
    for eqn in jaxpr.eqns:
        op = eqn.op
        if isinstance(op, Collective) and op.name not in ("pvary", "pbroadcast"):
            size = sum(v.aval.size * int(v.aval.dtype.itemsize) for v in eqn.invars)
            yield f"{op.name} of {size:,} bytes  {line(eqn.source_info)}".rstrip()
        for inner in jaxprs_in_params(eqn.params):
            yield from _collectives(inner)


# ---- the machine

_COPIED, _SIDE = 1 << 23, 768  # elements


def limits() -> MachineLimits:
    """The limits of this machine, measured once and kept with the kernels."""
    return _limits()


@once
def _limits() -> MachineLimits:
    threads = num_threads()
    name = cache.key(host(), "limits of the machine", str(threads))
    kept = cache.read(name)
    if kept is not None:
        return MachineLimits(**json.loads(kept))
    copy = report(jit(lambda x: x + 1).trace(np.zeros(_COPIED, np.float32)).jaxpr)
    square = np.ones((_SIDE, _SIDE), np.float32)
    dot = report(jit(lambda x: x @ x).trace(square).jaxpr)
    x = np.zeros(_COPIED, np.float32)
    copying = measure(copy, [x], parallel_for_address, 0.2).kernels
    multiplying = measure(dot, [square], parallel_for_address, 0.2).kernels
    result = MachineLimits(
        bytes=2 * x.nbytes / max(sum(copying), 1e-9),
        flops=2 * _SIDE**3 / max(sum(multiplying), 1e-9),
        threads=threads,
    )
    if not _is_busy():  # else the next process measures again
        cache.write(name, json.dumps(dataclasses.asdict(result)).encode())
    return result


def _is_busy() -> bool:
    """Return True if other processes load the processors, so that rates are too low."""
    there = hasattr(os, "getloadavg") and os.cpu_count()
    return bool(there) and os.getloadavg()[0] > (os.cpu_count() or 1)
