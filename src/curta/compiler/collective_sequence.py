"""The collectives of a compiled program, in the order in which its code begins them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from curta.compiler.executable import Executable
from curta.compiler.machine_code.native import NativeProgram
from curta.core.jaxpr import Eqn, Jaxpr, jaxprs_of
from curta.hosts.failures import HostsError
from curta.partition.collective_order import number_of
from curta.primitives.host_collectives import HostCollective, communicates


def collectives_of(program: Executable) -> list[Eqn]:
    """The eqns of collectives in the code of a program and of the programs it calls."""
    found: list[Eqn] = []
    for called in program.code.callees:
        if not isinstance(called, NativeProgram):
            continue
        if isinstance(called.code, Executable):
            found += collectives_of(called.code)
        elif called.eqn is not None and _meets(called.eqn):
            found.append(called.eqn)
    return found


def collectives_in(jaxpr: Jaxpr) -> Iterator[Eqn]:
    """The same of a program that runs eqn by eqn."""
    for eqn in jaxpr.eqns:
        if _meets(eqn):
            yield eqn
        for inner in jaxprs_of(eqn.op):
            yield from collectives_in(inner)


def _meets(eqn: Eqn) -> bool:
    op = eqn.op
    if not op.meets_hosts or cast(HostCollective, op).polls:
        return False
    return communicates(op)


def check_in_order(eqns: Sequence[Eqn]) -> None:
    """Raise HostsError unless collectives begin in the order of their numbers.

    Other hosts may have them in order: what hosts send would meet something else.
    """
    last = 0
    for eqn in eqns:
        number = number_of(eqn.op)
        if number and number <= last:
            raise HostsError(
                f"this is a bug in Curta: {eqn.op.name} number {number} begins behind"
                f" number {last}, at {eqn.source_info.short}"
            )
        last = max(last, number)


def described(eqns: Sequence[Eqn]) -> list[str]:
    """A text for each collective: equal on all hosts that are in step."""
    return [
        f"{eqn.op} of {', '.join(v.aval.str_short() for v in eqn.invars)}"
        for eqn in eqns
    ]
