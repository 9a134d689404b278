"""What the collectives of a partitioned program cost, without running it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from curta.control.cond import Cond
from curta.control.scan import Scan
from curta.core.jaxpr import ClosedJaxpr, Jaxpr, jaxprs_of
from curta.hosts.traffic import leaving
from curta.primitives.host_collectives import (
    HostBucket,
    HostCollective,
    HostExchange,
    HostGather,
    HostIndex,
    HostPermute,
    HostReduce,
    HostReduceScatter,
)

_COLLECTIVES = {
    HostReduce: "all_reduce",
    HostGather: "all_gather",
    HostReduceScatter: "reduce_scatter",
    HostExchange: "all_to_all",
    HostPermute: "permute",
}


class CollectiveCost(NamedTuple):
    """A collective of a program: its kind, the bytes sent by a host, its source line.

    `nbytes` leave each host at each of `count` times. `line` is the user's.
    """

    name: str
    axes: tuple[Any, ...]
    members: int
    nbytes: int
    count: int  # type: ignore[assignment]
    line: str

    def __str__(self) -> str:
        times = f" {self.count} times" if self.count > 1 else ""
        over = ", ".join(map(str, self.axes))
        return (
            f"{self.name} over {over} ({self.members} hosts), {self.nbytes:,} bytes"
            f"{times}: {self.line}"
        )


class ProgramTraffic(NamedTuple):
    """The collectives of one run of a program of one host."""

    collectives: tuple[CollectiveCost, ...]

    @property
    def nbytes(self) -> Counter[str]:
        """The bytes that leave a host, by collective."""
        result: Counter[str] = Counter()
        for m in self.collectives:
            result[m.name] += m.count * m.nbytes
        return result

    @property
    def counts(self) -> Counter[str]:
        """How often each collective is called."""
        result: Counter[str] = Counter()
        for m in self.collectives:
            result[m.name] += m.count
        return result

    @property
    def total(self) -> int:
        """The bytes of all collectives."""
        return self.nbytes.total()

    @property
    def rounds(self) -> int:
        """The number of sequential message rounds.

        They are ceil(log2 n) for a collective of n hosts, twice that for an all-reduce.
        """
        return sum(
            m.count * math.ceil(math.log2(m.members)) * (1 + (m.name == "all_reduce"))
            for m in self.collectives
        )

    def seconds(self, bandwidth: float, latency: float) -> float:
        """How long they take, with `bandwidth` in bytes a second out of each host.

        Each round costs `latency` seconds: the usual model of alpha and beta (Thakur,
        Rabenseifner, Gropp, Optimization of collective communication operations in
        MPICH, 2005).
        """
        return self.total / bandwidth + self.rounds * latency

    def __str__(self) -> str:
        largest = sorted(self.collectives, key=lambda m: -m.count * m.nbytes)
        return "\n".join([f"{self.total:,} bytes leave each host", *map(str, largest)])


def traffic_of(closed: ClosedJaxpr) -> ProgramTraffic:
    """The traffic of one run of a program of one host.

    A `scan` counts for all iterations, a `while` for one, a `cond` by the branch that
    sends most.
    """
    return ProgramTraffic(tuple(_collectives(closed.jaxpr)))


def _collectives(jaxpr: Jaxpr) -> Iterator[CollectiveCost]:
    for eqn in jaxpr.eqns:
        op = eqn.op
        if isinstance(op, HostCollective) and not isinstance(op, HostIndex):
            op = op.each if isinstance(op, HostBucket) else op
            name, members = _COLLECTIVES[type(op)], op.group.size
            size = sum(v.aval.size * v.aval.dtype.itemsize for v in eqn.invars)
            sent = leaving(name, size, members) * _receivers(op)
            line = str(eqn.source_info)
            yield CollectiveCost(name, op.group.axes, members, sent, 1, line)
            continue
        inner = [[*_collectives(j)] for j in jaxprs_of(op)]
        if isinstance(op, Cond):
            inner = [max(inner, key=lambda ms: sum(m.count * m.nbytes for m in ms))]
        times = op.length if isinstance(op, Scan) else 1
        yield from (m._replace(count=times * m.count) for ms in inner for m in ms)


def _receivers(op: HostCollective) -> int:
    """To how many others the host that sends most sends the same."""
    if not isinstance(op, HostPermute):
        return 1
    sources = Counter(a for a, b in op.pairs if a != b)
    return max(sources.values(), default=0)
