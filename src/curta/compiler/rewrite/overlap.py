"""Collectives that go on while the program computes: begun early, done late.

A collective between hosts becomes `HostStart` and `HostDone`, as XLA's all-reduce-start
and -done. A start comes as soon as its operand is there; a done when nothing is left
to compute that does not wait for one. This is the last pass, so that no other has to
know that the two belong together and that the operand must stay as it was.

Which collectives are begun follows from the op and the bytes, and all begin in the
order in which the program had them, among its calls of Python. Rows that go to
neighbors, as halos do, are begun however few they are where that costs next to nothing:
so those of both sides are under way at once, and behind the interior (interiors.py).
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.compiler.targets import Target
from curta.core.jaxpr import Eqn, Jaxpr, Var
from curta.dtypes import physical_dtype
from curta.primitives.host_collectives import (
    HostDone,
    HostPoll,
    HostStart,
    Moving,
    communicates,
)


def overlapped(jaxpr: Jaxpr, target: Target) -> Jaxpr:
    """The program whose large collectives are begun, and done later."""
    if not any(_is_split(e, target) for e in jaxpr.eqns):
        return jaxpr
    return jaxpr.replace(eqns=tuple(_Scheduler(jaxpr, target).run()))


def _is_split(eqn: Eqn, target: Target) -> bool:
    op = eqn.op
    if not isinstance(op, Moving) or op.group.size == 1:
        return False
    (x,), (out,) = eqn.invars, eqn.outvars
    if type(x) is not Var:
        return False
    if op.to_neighbours and target.transport.polled:
        return True
    nbytes = physical_dtype(out.aval.dtype).itemsize * max(x.aval.size, out.aval.size)
    return nbytes >= target.tuning.overlapped_bytes


def _is_pinned(eqn: Eqn) -> bool:
    """Whether its order is observable, by other hosts or the user."""
    if eqn.op.waits_for_hosts:
        return False
    return bool(eqn.effects) or eqn.op.runs_python or communicates(eqn.op)


@dataclass(eq=False)
class _Node:
    """An eqn to schedule, and how many others it still waits for."""

    eqn: Eqn
    at: int
    waits: int
    readers: list[_Node]


class _Scheduler:
    """List scheduling: what is ready in the order of the program, then a done."""

    def __init__(self, jaxpr: Jaxpr, target: Target) -> None:
        self._nodes: list[_Node] = []
        self._made: dict[Any, _Node] = {}
        self._last: _Node | None = None  # of the nodes with ordered effects
        for eqn in jaxpr.eqns:
            if _is_split(eqn, target):
                self._add_split(eqn)
            else:
                self._add(eqn)
        self._ready: list[tuple[int, int, _Node]] = []
        self._begun: deque[_Node] = deque()  # `done` nodes in the order of their starts
        # Request -> the variable of its current state.
        self._numbers: dict[Any, Var] = {}
        self._polled = target.transport.polled
        self._short = target.tuning.overlapped_cost

    def _add_split(self, eqn: Eqn) -> None:
        op: Any = eqn.op
        start = HostStart(op)
        number = Var(start.aval(eqn.invars[0].aval))
        self._add(eqn.replace(op=start, invars=eqn.invars, outvars=(number,)))
        self._add(eqn.replace(op=HostDone(op), invars=(*eqn.invars, number)))

    def _add(self, eqn: Eqn) -> None:
        node = _Node(eqn, len(self._nodes), 0, [])
        before = {self._made[v] for v in eqn.invars if v in self._made}
        if _is_pinned(eqn):
            if self._last is not None:
                before.add(self._last)
            self._last = node
        for other in before:
            other.readers.append(node)
        node.waits = len(before)
        self._made.update(dict.fromkeys(eqn.outvars, node))
        self._nodes.append(node)

    def run(self) -> list[Eqn]:
        """The eqns in their new order."""
        result: list[Eqn] = []
        for node in self._nodes:
            if not node.waits:
                self._put(node)
        while self._ready or self._begun:
            if self._ready:
                _, _, node = heapq.heappop(self._ready)
            else:
                node = self._begun.popleft()
            result.extend(self._scheduled(node))
            for reader in node.readers:
                reader.waits -= 1
                if not reader.waits:
                    self._put(reader)
        assert len(result) >= len(self._nodes)
        return result

    def _put(self, node: _Node) -> None:
        """A node is ready; starts come before all others."""
        if node.eqn.op.waits_for_hosts:
            self._begun.append(node)
        else:
            first = 0 if isinstance(node.eqn.op, HostStart) else 1
            heapq.heappush(self._ready, (first, node.at, node))

    def _scheduled(self, node: _Node) -> list[Eqn]:
        eqn = node.eqn
        if eqn.op.waits_for_hosts:
            x, number = eqn.invars
            return [eqn.replace(invars=(x, self._numbers.get(number, number)))]
        short = _cost(eqn) < self._short
        if short or not self._polled or not self._begun:
            return [eqn]
        return [eqn, self._poll(self._begun[0].eqn)]

    def _poll(self, done: Eqn) -> Eqn:
        """MPI goes on with all that was begun when it is asked for any."""
        number = done.invars[1]
        known, new = self._numbers.get(number, number), Var(number.aval)
        self._numbers[number] = new
        each = done.op.each  # type: ignore[attr-defined]
        return done.replace(op=HostPoll(each), invars=(known,), outvars=(new,))


def _cost(eqn: Eqn) -> int:
    """Roughly how many simple operations an eqn takes."""
    terms = eqn.op.terms(*[v.aval for v in eqn.invars])
    if terms:
        return int(eqn.outvars[0].aval.size * terms)
    return max((v.aval.size for v in (*eqn.invars, *eqn.outvars)), default=0)
