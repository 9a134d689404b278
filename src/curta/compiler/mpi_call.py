"""Ops between hosts as calls of MPI, where processes exchange arrays by it.

A small native function stands between the program and MPI: it says in which collective
the process is (which is asked when a wait is too long), counts what is sent, and keeps
an error of MPI as a host call keeps its exception. Everything that differs between
collectives is among its constants, so that there are few such functions.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta._base.once import once
from curta.compiler import targets
from curta.compiler.callee import DONE, STOPPED
from curta.compiler.llvm import target
from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.types import I8, I32, I64, PTR, Value
from curta.compiler.machine_code import host_call
from curta.compiler.machine_code.linked import Linked, Source, link
from curta.compiler.machine_code.native import NativeProgram
from curta.compiler.rewrite.by_class import by_class
from curta.core.jaxpr import Atom, Eqn, Literal, Var
from curta.core.op import Op
from curta.dtypes import physical_dtype
from curta.hosts import mpi_calls
from curta.hosts.engine import at_line, current
from curta.hosts.failures import HostsError
from curta.hosts.mpi import MPI, MPIEngine
from curta.hosts.mpi_calls import (
    OPERAND,
    RESULT,
    Calls,
    Handle,
    MPICall,
    Pointer,
    status_ignored,
)
from curta.primitives.host_collectives import (
    HostDone,
    HostExchange,
    HostGather,
    HostPermute,
    HostPoll,
    HostReduce,
    HostReduceScatter,
    HostStart,
)

_NAME = "collective"
_COST = 1 << 12  # estimated operations, as for a host call
# The constants: MPI's function, where to say in which collective the process is, its
# number, where to count, how many bytes, what reports errors, where the request is
# kept, how many bytes of the result are copied from the operand before the call, and
# how many are cleared; then the arguments.
_FUNCTION, _SITE, _NUMBER, _COUNTS, _BYTES = range(5)
_REPORT, _REQUEST, _COPIED, _CLEARED, _FIRST = range(5, 10)
_BEGUN, _FLAG = "request", "flag"  # names of arguments of MPI_Wait and MPI_Test


@dataclass(frozen=True)
class _Form:
    """What native functions differ in; it is the same on all hosts.

    `arguments` are the kinds of those of MPI's function. The operand, the result and
    the number of what was begun have places among the `arrays`. The result may be
    `prepared` before the call: what is in it then differs between hosts.
    """

    arguments: tuple[str, ...]
    arrays: int
    operand: int = 1
    result: int = 0
    prepared: bool = False
    begins: bool = False  # nonblocking: stores the handle of a request
    begun: int | None = None  # index of the operand that is such a handle
    waits: bool = True  # may block: tells which collective the process is in
    counts: bool = True


def mpi_call(eqn: Eqn) -> NativeProgram | None:
    """The native program of a collective, or of a part; None if Python has to do it.

    What has been begun is ended here only if MPI has it, as `mpi_start` knows.
    """
    engine = current()
    if not isinstance(engine, MPIEngine) or any(
        isinstance(v, Literal) for v in eqn.invars
    ):
        return None
    call = _call(engine, eqn)
    if call is None:
        return None
    arrays = [*eqn.outvars, *eqn.invars]
    if isinstance(eqn.op, HostDone):
        call = call.looked_after("MPI_Wait", _BEGUN, Pointer(status_ignored()))
        form = _Form(_kinds(call), 3, begun=2, counts=False)
    elif isinstance(eqn.op, HostPoll):
        call = call.looked_after("MPI_Test", _BEGUN, _FLAG, Pointer(status_ignored()))
        form = _Form(_kinds(call), 2, begun=1, waits=False, counts=False)
    else:
        form = _Form(_kinds(call), 2, prepared=_is_prepared(call))
    return _program(engine, call, form, arrays, 1, eqn)


def mpi_start(eqn: Eqn, result: Var) -> NativeProgram | None:
    """The native program that begins a collective; None if Python has to do it.

    Its results are the number and the array that will be filled.
    """
    engine = current()
    call = _call(engine, eqn) if isinstance(engine, MPIEngine) else None
    if not isinstance(engine, MPIEngine) or call is None:
        return None
    request = engine.request(call.call)
    call = call.begun(request)
    if call is None:
        return None
    form = _Form(
        *(_kinds(call), 3, 2, 1),
        prepared=_is_prepared(call),
        begins=True,
    )
    arrays = [*eqn.outvars, result, *eqn.invars]
    return _program(engine, call, form, arrays, 2, eqn, request)


def made_again(eqn: Eqn) -> NativeProgram | None:
    """The native program of a collective, or of a part, that another process had."""
    if isinstance(eqn.op, HostStart):
        return mpi_start(eqn, Var(eqn.op.each.aval(eqn.invars[0].aval)))
    return mpi_call(eqn)


def _call(engine: MPIEngine, eqn: Eqn) -> MPICall | None:
    op: Any = getattr(eqn.op, "each", eqn.op)
    call = by_class(_CALLS, op)
    if call is None or op.group.size == 1:
        return None
    aval = eqn.invars[0].aval
    calls = Calls(engine, op.group, aval.shape, physical_dtype(aval.dtype))
    with at_line(eqn.source_info.short):
        return call(calls, op)


_CALLS: dict[type[Op], Callable[[Calls, Any], MPICall | None]] = {
    HostReduce: lambda calls, op: calls.all_reduce(op.kind),
    HostGather: lambda calls, op: calls.all_gather(op.dim),
    HostReduceScatter: lambda calls, op: calls.reduce_scatter(op.kind, op.dim),
    HostExchange: lambda calls, op: calls.all_to_all(op.split, op.join),
    HostPermute: lambda calls, op: calls.permute(op.pairs),
}


def _is_prepared(call: MPICall) -> bool:
    return call.collective == "permute"


def _program(
    engine: MPIEngine,
    call: MPICall,
    form: _Form,
    arrays: Sequence[Atom],
    results: int,
    eqn: Eqn,
    request: int = 0,
) -> NativeProgram:
    code = _code(form)
    result = arrays[form.result].aval
    nbytes = physical_dtype(result.dtype).itemsize * result.size
    words = (
        call.address,
        engine.site_address,
        engine.site(call.call),
        engine.traffic.address(call.collective),
        call.nbytes,
        _reporter()[1],
        request,
        nbytes if call.in_place else 0,
        nbytes if call.cleared and not call.in_place else 0,
        *map(_word, call.arguments),
    )
    return NativeProgram(
        code=code,
        address=code.address,
        signature=tuple((physical_dtype(v.aval.dtype), v.aval.shape) for v in arrays),
        results=results,
        constants=words,
        cost=_COST,
        arena_word=0,
        arena_bytes=0,
        temporaries=0,
        runs_python=True,  # so that failures are looked for after it
        eqn=eqn,
    )


def _kinds(call: MPICall) -> tuple[str, ...]:
    return tuple(map(_kind, call.arguments))


def _kind(argument: mpi_calls.Argument) -> str:
    if isinstance(argument, (Handle, Pointer)):
        return "handle" if isinstance(argument, Handle) else "pointer"
    return argument if isinstance(argument, str) else "int"


def _word(argument: mpi_calls.Argument) -> int:
    if isinstance(argument, (Handle, Pointer)):
        return argument.value
    return 0 if isinstance(argument, str) else argument & (1 << 64) - 1


def _code(form: _Form) -> Linked:
    """`i64 collective(ptr table)`: results, operands, constants."""
    module = Module.of(targets.host())
    b = module.function(_NAME, [PTR], I64)
    (table,) = b.arguments

    def array(number: int) -> Value:
        return b.load(PTR, b.offset(table, number, PTR))

    def word(number: int, type_: Any = PTR) -> Value:
        return b.load(type_, b.offset(table, form.arrays + number, PTR))

    named = {}
    if form.begun is None:
        named = {OPERAND: array(form.operand), RESULT: array(form.result)}
        if form.prepared:
            b.copy(named[RESULT], named[OPERAND], word(_COPIED, I64))
            b.fill(named[RESULT], 0, word(_CLEARED, I64))
    else:
        named[_BEGUN] = b.load(PTR, array(form.begun))
        named[_FLAG] = b.scratch(8, align=8)
    given = [
        named[kind] if kind in named else word(i, _type(kind))
        for i, kind in enumerate(form.arguments, _FIRST)
    ]
    site = word(_SITE)
    if form.waits:
        b.store(word(_NUMBER, I64), site)
    status = b.call(word(_FUNCTION), I32, *given)
    if form.waits:
        b.store(b.const(I64, 0), site)
    if form.begins:
        b.store(word(_REQUEST), array(0))
    elif not form.waits:
        b.store(named[_BEGUN], array(0))
    if form.counts:
        _count(b, word(_COUNTS), word(_BYTES, I64))
    failed = b.ne(status, 0)
    with b.when(failed):
        b.call(word(_REPORT), None, status)
    b.ret(b.select(failed, b.const(I64, STOPPED), b.const(I64, DONE)))
    return link([Source.of(targets.host(), module.text(), target.QUICK, [_NAME])])[0]


def _type(kind: str) -> Any:
    pointer = kind == "handle" and mpi_calls.handle_bytes() == 8
    return PTR if pointer or kind == "pointer" else I32


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
