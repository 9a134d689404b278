"""Processes compare a program over several of them before it first runs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from curta.compiler.collective_sequence import described
from curta.core.evaluate import const_as_numpy
from curta.core.jaxpr import ClosedJaxpr, Eqn
from curta.core.mesh import Mesh
from curta.core.pretty import format_eqns
from curta.core.sharding import Sharding
from curta.hosts import fingerprint
from curta.hosts.engine import of_process


def check_same_program(
    closed: ClosedJaxpr,
    name: str,
    mesh: Mesh,
    shardings: Sequence[Sharding | None],
) -> str:
    """Raise HostsError, on all processes of a mesh, unless they have one program.

    `shardings` are those of arguments and results. Returns: the name of the program,
    with a digest: no other program has it.
    """
    processes = _meeting(mesh)
    if not processes:
        return name
    jaxpr = closed.jaxpr
    types = ", ".join(a.str_short() for a in closed.in_avals)
    head = [
        f"{name}({types})",
        *(f"sharding {s}" for s in shardings),
        *(_said(c, v.aval) for c, v in zip(closed.consts, jaxpr.constvars)),
    ]

    def line_of(i: int) -> str:
        return jaxpr.eqns[i].source_info.short

    eqns = format_eqns(jaxpr)
    digest = of_process().in_thread_order(
        processes,
        lambda: fingerprint.check(processes, head, eqns, line_of),
        f"the first call of {name}",
    )
    return f"{name} ({digest[:12]})"


def check_same_collectives(eqns: Sequence[Eqn], name: str, mesh: Mesh) -> None:
    """Raise HostsError, on all processes of a mesh, unless code has one sequence.

    `eqns` are the collectives of a compiled program, after all passes.
    """
    processes = _meeting(mesh)
    if not processes:
        return
    head = [f"collectives of {name}"]
    of_process().in_thread_order(
        processes,
        lambda: fingerprint.check(
            *(processes, head, described(eqns)),
            lambda i: eqns[i].source_info.short,
            "compiled",
        ),
        f"the first run of {name}",
    )


def _meeting(mesh: Mesh) -> tuple[int, ...]:
    """The processes of a mesh, if this is one of several."""
    here = of_process()
    processes = sorted({d.process_index for d in mesh.devices.flat})
    several = here.count > 1 and len(processes) > 1
    return tuple(processes) if several and here.index in processes else ()


def _said(const: Any, aval: Any) -> str:
    """What stands for a constant: its type, and a hash of its elements if here."""
    said = f"constant {aval.str_short()}"
    if not getattr(const, "is_fully_addressable", True):
        return said
    data = const_as_numpy(const, aval).tobytes()
    return f"{said} {hashlib.blake2b(data, digest_size=16).hexdigest()}"
