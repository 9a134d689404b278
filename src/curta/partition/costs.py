"""What the collectives of a partitioned program cost, without running it."""

from __future__ import annotations

import math
from collections import Counter
from typing import NamedTuple

from curta.control.cond import Cond
from curta.control.scan import Scan
from curta.core.jaxpr import ClosedJaxpr, Jaxpr, jaxprs_in_params
from curta.hosts.traffic import leaving
from curta.primitives.host_collectives import (
    HostCollective,
    HostExchange,
    HostGather,
    HostIndex,
    HostPermute,
    HostReduce,
    HostReduceBucket,
    HostReduceScatter,
)

_COLLECTIVES = {
    HostReduce: "all_reduce",
    HostReduceBucket: "all_reduce",
    HostGather: "all_gather",
    HostReduceScatter: "reduce_scatter",
    HostExchange: "all_to_all",
    HostPermute: "permute",
}


class Traffic(NamedTuple):
    """The bytes that leave a host, by collective, and how often hosts meet.

    `rounds` are the messages that follow one another: ceil(log2 n) for each meeting of
    n hosts, twice that for an all-reduce.
    """

    nbytes: Counter[str]
    meetings: Counter[str]
    rounds: int

    @property
    def total(self) -> int:
        """The bytes of all collectives."""
        return self.nbytes.total()

    def seconds(self, bandwidth: float, latency: float) -> float:
        """How long they take, with `bandwidth` in bytes a second out of each host.

        Each round costs `latency` seconds: the usual model of alpha and beta (Thakur,
        Rabenseifner, Gropp, Optimization of collective communication operations in
        MPICH, 2005).
        """
        return self.total / bandwidth + self.rounds * latency


def traffic_of(closed: ClosedJaxpr) -> Traffic:
    """The traffic of one run of a program of one host.

    A `scan` counts for all iterations, a `while` for one, a `cond` by the branch that
    sends most.
    """
    return _of_jaxpr(closed.jaxpr)


def _of_jaxpr(jaxpr: Jaxpr) -> Traffic:
    total = Traffic(Counter(), Counter(), 0)
    for eqn in jaxpr.eqns:
        op = eqn.op
        if isinstance(op, HostCollective) and not isinstance(op, HostIndex):
            name, members = _COLLECTIVES[type(op)], op.group.size
            size = sum(v.aval.size * v.aval.dtype.itemsize for v in eqn.invars)
            rounds = math.ceil(math.log2(members)) * (1 + (name == "all_reduce"))
            sent = leaving(name, size, members)
            found = Traffic(Counter({name: sent}), Counter({name: 1}), rounds)
        else:
            inner = [_of_jaxpr(j) for j in jaxprs_in_params(op.params())]
            if isinstance(op, Cond):
                inner = [max(inner, key=lambda t: t.total)]
            found = _times(inner, op.length if isinstance(op, Scan) else 1)
        total = _times([total, found], 1)
    return total


def _times(terms: list[Traffic], count: int) -> Traffic:
    nbytes: Counter[str] = Counter()
    meetings: Counter[str] = Counter()
    for term in terms:
        for name in term.nbytes:
            nbytes[name] += count * term.nbytes[name]
            meetings[name] += count * term.meetings[name]
    return Traffic(nbytes, meetings, count * sum(t.rounds for t in terms))
