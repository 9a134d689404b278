"""The order of collectives: numbers that they get before the passes, and keep.

Invariant: in a compiled program collectives begin in the order of their numbers, in
loops and branches, too. The number of a collective is its place in the local program,
counted through the jaxprs that eqns hold. It is a field of the op and tells equal
collectives apart. Passes may drop a collective; they may not move one past another,
copy it, or move it into or out of a loop or a branch. So the order is a property of the
local program, which all hosts have alike, and of no pass.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from curta.core.jaxpr import ClosedJaxpr, Jaxpr, jaxprs_of, with_jaxprs
from curta.core.op import Op
from curta.primitives.host_collectives import (
    HostBucket,
    HostStart,
    Moving,
    communicates,
)


def numbered(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a local program whose collectives have numbers from 1 on.

    >>> import curta
    >>> from curta.hosts.group import HostGroup
    >>> from curta.primitives.host_collectives import HostReduce
    >>> pair = HostGroup(("x",), (2,), (0, 1), ("x",))
    >>> fold = HostReduce(pair, "sum")
    >>> closed = curta.make_jaxpr(lambda x: fold(fold(x) + 1))(2.0)
    >>> [*numbers_in(numbered(closed).jaxpr)]
    [1, 2]
    """
    return _numbered(closed, itertools.count(1))


def _numbered(closed: ClosedJaxpr, count: Iterator[int]) -> ClosedJaxpr:
    jaxpr = closed.jaxpr
    if not any(communicates(e.op) for e in jaxpr.eqns):
        return closed
    eqns = [e.replace(op=_with_numbers(e.op, count)) for e in jaxpr.eqns]
    return ClosedJaxpr(jaxpr.replace(eqns=eqns), closed.consts)


def _with_numbers(op: Op, count: Iterator[int]) -> Op:
    if isinstance(op, Moving):
        return dataclasses.replace(op, order=next(count))
    if isinstance(op, HostBucket):
        return HostBucket(dataclasses.replace(op.each, order=next(count)))
    if not communicates(op):
        return op
    result: Op = with_jaxprs(op, lambda inner: _numbered(inner, count))
    return result


def number_of(op: Op) -> int:
    """Return the number of the collective that an op begins; 0 for other ops."""
    if isinstance(op, (HostStart, HostBucket)):
        op = op.each
    return op.order if isinstance(op, Moving) else 0


def numbers_in(jaxpr: Jaxpr) -> Iterator[int]:
    """Yield the numbers of collectives in the order in which they begin."""
    for eqn in jaxpr.eqns:
        if number := number_of(eqn.op):
            yield number
        for inner in jaxprs_of(eqn.op):
            yield from numbers_in(inner)
