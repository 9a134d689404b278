"""The collective operations of a program, as XLA writes them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from curta.core.jaxpr import ClosedJaxpr
from curta.core.mesh import AbstractMesh, Mesh
from curta.core.refs import WRITTEN, is_ref_type
from curta.core.sharding import Sharding
from curta.partition.costs import traffic_of
from curta.partition.host_mesh import grouped, host_mesh
from curta.runtime.host_runs import spans_hosts
from curta.runtime.hosts_call import local_program
from curta.transforms.discharge import accesses, discharge_jaxpr

_NAMES = {"permute": "collective-permute"}


def collectives_text(
    closed: ClosedJaxpr,
    mesh: Mesh | None,
    in_shardings: Sequence[Sharding | None],
    out_shardings: Sequence[Sharding | None],
) -> str:
    """The collectives of a program over a mesh, a line each; "" if there are none.

    They are those of the program that is made for several hosts. Devices of one host
    share its memory and send nothing: then they are those of hosts with a device each.
    """
    if mesh is None or mesh.size < 2 or isinstance(mesh, AbstractMesh):
        return ""
    apart = spans_hosts(mesh.flat_devices)
    hosts = host_mesh(mesh) if apart else grouped(mesh, (*range(mesh.size),))
    closed, written = _of_arrays(closed)
    outs = [*out_shardings, *[in_shardings[i] for i in written]]
    local, _ = local_program(closed, mesh, in_shardings, outs, hosts)
    lines = [*_lines(local.closed, "hosts" if apart else "devices")]
    if not lines:
        return ""
    return "\n".join(["\n# between hosts:" if apart else _SHARED, *lines])


_SHARED = "\n# nothing is sent in the memory of one host; with a host for each device:"


def _of_arrays(closed: ClosedJaxpr) -> tuple[ClosedJaxpr, list[int]]:
    """The program of arrays in place of references; the numbers of those it changes."""
    given = tuple(map(is_ref_type, closed.in_avals))
    if not any(given):
        return closed, []
    does = accesses(closed.jaxpr)
    written = tuple(g and a == WRITTEN for g, a in zip(given, does, strict=True))
    changed = [i for i, w in enumerate(written) if w]
    return discharge_jaxpr(closed, given, written), changed


def _lines(closed: ClosedJaxpr, members: str) -> Iterator[str]:
    for m in traffic_of(closed).collectives:
        name = _NAMES.get(m.name, m.name.replace("_", "-"))
        times = f" {m.count} times" if m.count > 1 else ""
        over = ", ".join(map(str, m.axes))
        yield (
            f"#   {name} over {over} ({m.members} {members}), {m.nbytes:,} bytes from"
            f" each{times}: {m.line}"
        )
