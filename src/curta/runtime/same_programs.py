"""Processes compare a program over several of them before it first runs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import Any

from curta.core.evaluate import const_as_numpy
from curta.core.jaxpr import ClosedJaxpr
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
) -> None:
    """Raise HostsError, on all processes of a mesh, unless they have one program.

    `shardings` are those of arguments and results.
    """
    here = of_process()
    processes = sorted({d.process_index for d in mesh.devices.flat})
    if here.count == 1 or here.index not in processes:
        return
    jaxpr = closed.jaxpr
    types = ", ".join(a.str_short() for a in closed.in_avals)
    head = [
        f"{name}({types})",
        *(f"sharding {s}" for s in shardings),
        *(_said(c, v.aval) for c, v in zip(closed.consts, jaxpr.constvars)),
    ]

    def line_of(i: int) -> str:
        source = jaxpr.eqns[i].source_info
        if source.code is None:
            return ""
        return f"{os.path.basename(source.code.co_filename)}:{source.line}"

    fingerprint.check(processes, head, format_eqns(jaxpr), line_of)


def _said(const: Any, aval: Any) -> str:
    """What stands for a constant: its type, and a hash of its elements if here."""
    said = f"constant {aval.str_short()}"
    if not getattr(const, "is_fully_addressable", True):
        return said
    data = const_as_numpy(const, aval).tobytes()
    return f"{said} {hashlib.blake2b(data, digest_size=16).hexdigest()}"
