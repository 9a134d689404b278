"""Ops between hosts as calls of MPI, where processes exchange arrays by it.

A small native function stands between the program and MPI: it says in which collective
the process is (whoever waits too long is asked that), counts what is sent, and keeps
an error of MPI as a host call keeps its exception. Everything that differs between
collectives is among its constants, so that there are few such functions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from curta.compiler import host_call
from curta.compiler.linked import Linked, Source, link
from curta.compiler.llvm import target
from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.types import I8, I32, I64, PTR, Value
from curta.compiler.native import DONE, STOPPED, NativeProgram
from curta.core.jaxpr import Eqn, Literal
from curta.dtypes import physical_dtype
from curta.hosts import mpi_calls
from curta.hosts.engine import current
from curta.hosts.failures import HostsError
from curta.hosts.mpi import MPI, MPIEngine
from curta.hosts.mpi_calls import OPERAND, RESULT, Calls, Handle, MPICall, Pointer
from curta.lazy_dataclass import dataclass
from curta.once import once
from curta.primitives.host_collectives import (
    HostExchange,
    HostGather,
    HostPermute,
    HostReduce,
    HostReduceScatter,
)

_NAME = "collective"
_COST = 1 << 12  # in simple operations, as that of a host call
# The constants: MPI's function, where to say in which collective the process is, its
# number, where to count, how many bytes, what reports errors; then the arguments.
_FUNCTION, _SITE, _NUMBER, _COUNTS, _BYTES, _REPORT, _FIRST = range(7)


def mpi_call(eqn: Eqn) -> NativeProgram | None:
    """The native program of a collective; None if Python has to do it."""
    engine = current()
    if not isinstance(engine, MPIEngine) or any(
        isinstance(v, Literal) for v in eqn.invars
    ):
        return None
    result = _call(engine, eqn)
    return None if result is None else _program(engine, eqn, result)


def _call(engine: MPIEngine, eqn: Eqn) -> MPICall | None:
    op: Any = eqn.op
    kinds = (HostReduce, HostGather, HostReduceScatter, HostExchange, HostPermute)
    if not isinstance(op, kinds) or op.group.size == 1:
        return None
    aval = eqn.invars[0].aval
    calls = Calls(engine, op.group, aval.shape, physical_dtype(aval.dtype))
    if isinstance(op, HostReduce):
        return calls.all_reduce(op.kind)
    if isinstance(op, HostGather):
        return calls.all_gather(op.dim)
    if isinstance(op, HostReduceScatter):
        return calls.reduce_scatter(op.kind, op.dim)
    if isinstance(op, HostExchange):
        return calls.all_to_all(op.split, op.join)
    return calls.permute(op.pairs)


def _program(engine: MPIEngine, eqn: Eqn, call: MPICall) -> NativeProgram:
    (operand,), (result,) = eqn.invars, eqn.outvars
    arrays = tuple(
        (physical_dtype(v.aval.dtype), v.aval.shape) for v in (result, operand)
    )
    nbytes = arrays[0][0].itemsize * result.aval.size
    arguments = tuple(_kind(a) for a in call.arguments)
    code = _code(arguments, _Before(nbytes, call.in_place, call.cleared))
    words = (
        call.address,
        engine.site_address,
        engine.site(call.call),
        engine.traffic.address(call.collective),
        call.nbytes,
        _reporter()[1],
        *(_word(a) for a in call.arguments),
    )
    return NativeProgram(
        code=code,
        address=code.address,
        signature=arrays,
        results=1,
        constants=words,
        cost=_COST,
        arena_place=0,
        arena_bytes=0,
        temporaries=0,
        runs_python=True,  # that is, it may fail
    )


def _kind(argument: mpi_calls.Argument) -> str:
    if isinstance(argument, (Handle, Pointer)):
        return "handle" if isinstance(argument, Handle) else "pointer"
    return argument if isinstance(argument, str) else "int"


def _word(argument: mpi_calls.Argument) -> int:
    if isinstance(argument, (Handle, Pointer)):
        return argument.value
    return 0 if isinstance(argument, str) else argument & (1 << 64) - 1


@dataclass(frozen=True)
class _Before:
    """What is in the result before the call."""

    nbytes: int
    copied: bool
    cleared: bool


def _code(arguments: tuple[str, ...], before: _Before) -> Linked:
    """`i64 collective(ptr table)`: result, operand, constants."""
    module = target.host().module()
    b = module.function(_NAME, [PTR], I64)
    (table,) = b.arguments
    result, operand = (b.load(PTR, b.offset(table, i, PTR)) for i in range(2))
    if before.copied:
        b.copy(result, operand, before.nbytes)
    elif before.cleared:
        b.fill(result, 0, before.nbytes)

    def word(place: int, type_: Any = PTR) -> Value:
        return b.load(type_, b.offset(table, 2 + place, PTR))

    pointers = mpi_calls.handle_bytes() == 8
    given = []
    for i, kind in enumerate(arguments, _FIRST):
        if kind == OPERAND:
            given.append(operand)
        elif kind == RESULT:
            given.append(result)
        else:
            wide = kind == "pointer" or (kind == "handle" and pointers)
            given.append(word(i, PTR if wide else I32))
    site = word(_SITE)
    b.store(word(_NUMBER, I64), site)
    status = b.call(word(_FUNCTION), I32, *given)
    b.store(b.const(I64, 0), site)
    _count(b, word(_COUNTS), word(_BYTES, I64))
    failed = b.ne(status, 0)
    with b.when(failed):
        b.call(word(_REPORT), None, status)
    b.ret(b.select(failed, b.const(I64, STOPPED), b.const(I64, DONE)))
    return link([Source.of(module.text(), target.QUICK, [_NAME])])[0]


def _count(b: Builder, counts: Value, nbytes: Value) -> None:
    calls = b.offset(counts, 8, I8)
    b.store(b.load(I64, counts) + nbytes, counts)
    b.store(b.load(I64, calls) + 1, calls)


@once
def _reporter() -> tuple[Any, int]:
    """What native code calls with an error of MPI, and where it is."""

    def report(status: int) -> None:
        text = MPI.Get_error_string(status)
        host_call.fail(HostsError(f"MPI: {text}"))

    kind: Callable[..., Any] = ctypes.CFUNCTYPE(None, ctypes.c_int)
    function = kind(report)
    return function, ctypes.cast(function, ctypes.c_void_p).value or 0
