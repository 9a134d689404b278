"""Collectives between hosts as work items: calls of MPI, or of an engine in Python."""

from __future__ import annotations

from typing import Any

from curta.compiler.callee import Callee, host_call
from curta.compiler.lower.control import python_item
from curta.compiler.lower.item_builder import ItemBuilder
from curta.compiler.lower.mpi_call import mpi_callee, mpi_start
from curta.core.jaxpr import Eqn, Var
from curta.primitives.host_collectives import HostDone, HostPoll, HostStart


def collective_items(lowering: ItemBuilder, eqn: Eqn) -> None:
    """Add the item of a collective, or of a part of one.

    MPI fills the result of a started collective while the program computes. So the
    start owns the memory of the result as well, and the done is another item that
    writes to it.
    """
    made, buffers, transport = eqn.outvars, lowering.buffers, lowering.target.transport
    program: Callee | None = None
    if isinstance(eqn.op, HostStart):
        (number,) = eqn.outvars
        result = _done(lowering, number)
        program = mpi_start(eqn, result, transport)
        if program is not None:
            made = (number, result)
    elif not isinstance(eqn.op, (HostDone, HostPoll)):
        program = mpi_callee(eqn, transport)
    elif _done(lowering, eqn.invars[-1]) in buffers:  # MPI has begun it
        program = mpi_callee(eqn, transport)
    operands = tuple(buffers[v] for v in eqn.invars if isinstance(v, Var))
    results = tuple(
        buffers[v] if v in buffers else lowering.result_buffer(v) for v in made
    )
    program = program or host_call(eqn)
    lowering.items.append(python_item(eqn, operands, results, program))


def _done(lowering: ItemBuilder, number: Any) -> Var:
    """The result of what was begun, behind any polls."""
    while True:
        (eqn,) = lowering.values.uses[number]
        (number,) = eqn.outvars
        if isinstance(eqn.op, HostDone):
            result: Var = number
            return result
