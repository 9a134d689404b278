"""Collectives between hosts as callees: functions of MPI by symbol.

A callee is data: it names MPI's function and its arguments (`hosts/mpi_calls.py`) and
is equal on all hosts. Code for it is emitted by `mpi_stub.py`; addresses, handles and
ranks are found when the program is loaded (`mpi_loading.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.compiler.callee import Callee
from curta.compiler.rewrite.by_class import by_class
from curta.core.jaxpr import Eqn, Literal, Var
from curta.core.op import Op
from curta.dtypes import physical_dtype
from curta.hosts.mpi_calls import BEGUN, FLAG, STATUS, Calls, MPICall
from curta.hosts.transport import Transport
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

_COST = 1 << 12  # estimated operations, as for a host call


@dataclass(frozen=True)
class StubForm:
    """The parameters of the native functions that call MPI.

    Fields:
        arrays: the number of results and operands.
        result, operand: the arrays that MPI's call writes and reads.
        request: the array with the handle of what was begun, which the call asks for.
        begins: True if the call stores the handle of a request in the first result.
        polls: True if the call does not wait; it passes the handle on.
    """

    arrays: int = 2
    result: int = 0
    operand: int = 1
    request: int | None = None
    begins: bool = False
    polls: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class MPICallee(Callee):
    """A collective, or a part of one, that a function of MPI does.

    Fields:
        call: MPI's function and its arguments, by symbol.
        form: the form of the native function that calls it.
    """

    call: MPICall
    form: StubForm
    cost: int = _COST
    runs_python: bool = True  # so that failures are looked for after it


def mpi_callee(eqn: Eqn, transport: Transport) -> MPICallee | None:
    """Return the callee of a collective, or of a part; None if Python has to do it.

    A started collective is completed here only if MPI executes it, as `mpi_start`
    decides.
    """
    if isinstance(eqn.op, HostPoll):
        return _poll(eqn, eqn.op) if transport.library else None
    if any(isinstance(v, Literal) for v in eqn.invars):
        return None
    call, form = _call(eqn, transport), StubForm()
    if call is None:
        return None
    if isinstance(eqn.op, HostDone):
        call = call.looked_after("MPI_Wait", BEGUN, STATUS)
        form = StubForm(arrays=3, request=2)
    return _callee(eqn, call, form, eqn.outvars)


def mpi_start(eqn: Eqn, result: Var, transport: Transport) -> MPICallee | None:
    """Return the callee that begins a collective; None if Python has to do it.

    Its results are the number and the array that will be filled.
    """
    call = _call(eqn, transport)
    call = None if call is None else call.begun(transport)
    if call is None:
        return None
    form = StubForm(arrays=3, result=1, operand=2, begins=True)
    return _callee(eqn, call, form, (*eqn.outvars, result))


def callee_of(eqn: Eqn, transport: Transport) -> MPICallee | None:
    """Return the callee of a collective, or of any part of one, from the eqn alone."""
    if isinstance(eqn.op, HostStart):
        result = Var(eqn.op.each.aval(eqn.invars[0].aval))
        return mpi_start(eqn, result, transport)
    return mpi_callee(eqn, transport)


def _call(eqn: Eqn, transport: Transport) -> MPICall | None:
    op: Any = getattr(eqn.op, "each", eqn.op)
    call = by_class(_CALLS, op)
    if not transport.library or call is None or op.group.size == 1:
        return None
    aval = eqn.invars[0].aval
    return call(Calls(transport, op.group, aval.shape, physical_dtype(aval.dtype)), op)


_CALLS: dict[type[Op], Callable[[Calls, Any], MPICall | None]] = {
    HostReduce: lambda calls, op: calls.all_reduce(op.kind),
    HostGather: lambda calls, op: calls.all_gather(op.dim),
    HostReduceScatter: lambda calls, op: calls.reduce_scatter(op.kind, op.dim),
    HostExchange: lambda calls, op: calls.all_to_all(op.split, op.join),
    HostPermute: lambda calls, op: calls.permute(op.pairs),
}


def _poll(eqn: Eqn, op: HostPoll) -> MPICallee:
    """The callee of a poll, whose operand is the number of what was begun."""
    asked = MPICall(
        *("MPI_Test", (BEGUN, FLAG, STATUS), op.each.name, "", op.group, (), "")
    )
    return _callee(eqn, asked, StubForm(request=1, polls=True), eqn.outvars)


def _callee(
    eqn: Eqn, call: MPICall, form: StubForm, results: tuple[Var, ...]
) -> MPICallee:
    arrays = (*results, *eqn.invars)
    signature = tuple((physical_dtype(v.aval.dtype), v.aval.shape) for v in arrays)
    return MPICallee(
        signature=signature, results=len(results), eqn=eqn, call=call, form=form
    )
