"""What all engines have in common: how parts lie in arrays, and what is counted.

An engine says how whole arrays are exchanged within a group, by the methods with an
underscore; which dim is cut or joined is looked after here.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import field
from typing import Any, TypeVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.hosts.engine import Engine, Pairs, at_line, current_line
from curta.hosts.failures import HostsError
from curta.hosts.folding import FOLDS
from curta.hosts.group import HostGroup
from curta.hosts.started import AtOnce, Started
from curta.hosts.thread_order import ThreadOrder
from curta.hosts.traffic import leaving, of_host

T = TypeVar("T")
NDArray = np.ndarray[Any, Any]


@dataclass(frozen=True)
class CollectiveCall:
    """A collective as the hosts of a group call it; it is equal on all of them."""

    collective: str
    detail: str
    dtype: str
    shape: tuple[int, ...]
    members: tuple[int, ...]
    line: str = field(default="", compare=False)

    @cached_property
    def key(self) -> str:
        """What is equal on all hosts: the call without its line."""
        detail = f"{self.detail}, " if self.detail else ""
        operand = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        hosts = ", ".join(map(str, self.members))
        return f"{self.collective}({detail}{operand}) between hosts {hosts}"

    def __str__(self) -> str:
        return f"{self.key}, at {self.line}" if self.line else self.key


class Begin(CollectiveCall):
    """The comparison of what hosts begin, a program or a collective: its `detail`."""

    @cached_property
    def key(self) -> str:
        return self.detail


class Collectives(Engine):
    """An engine of several hosts."""

    def __init__(self, index: int, count: int) -> None:
        self.index = index
        self.count = count
        self.traffic: Any = of_host(index)
        self.started: Started = AtOnce()

    def start(self, collective: Callable[[], NDArray]) -> int:
        line = current_line()

        def begun() -> NDArray:
            with at_line(line):
                return collective()

        return self.started.start(begun if line else collective)

    def finish(self, number: int) -> NDArray:
        return self.started.finish(number)

    def settle(self) -> None:
        self.started.settle()

    def all_reduce(self, group: HostGroup, kind: str, x: NDArray) -> NDArray:
        assert kind in FOLDS, kind
        call = self._call("all_reduce", group, x, kind)
        return x.copy() if len(call.members) == 1 else self._reduce(call, kind, x)

    def all_gather(self, group: HostGroup, x: NDArray, dim: int) -> NDArray:
        call = self._call("all_gather", group, x, f"dim {dim}")
        if len(call.members) == 1:
            return x.copy()
        return joined(self._gather(call, x), dim)

    def reduce_scatter(
        self, group: HostGroup, kind: str, x: NDArray, dim: int
    ) -> NDArray:
        assert kind in FOLDS, kind
        call = self._call("reduce_scatter", group, x, f"{kind}, dim {dim}")
        if len(call.members) == 1:
            return x.copy()
        return self._reduce_scatter(call, kind, cut(x, dim, len(call.members)))

    def all_to_all(
        self, group: HostGroup, x: NDArray, split: int, join: int
    ) -> NDArray:
        call = self._call("all_to_all", group, x, f"dims {split} to {join}")
        if len(call.members) == 1:
            return x.copy()
        return joined(self._exchange(call, cut(x, split, len(call.members))), join)

    def permute(self, group: HostGroup, pairs: Pairs, x: NDArray) -> NDArray:
        members = group.members(self.index)
        own = members.index(self.index)
        to = tuple(b for a, b in pairs if a == own and b != own)
        source = next((a for a, b in pairs if b == own), None)
        call = self._call("permute", group, x, str(tuple(pairs)), len(to))
        result = None
        if len(members) > 1:
            result = self._permute(call, to, None if source == own else source, x)
        if source == own:
            result = x.copy()
        return np.zeros_like(x) if result is None else result

    def _call(
        self,
        collective: str,
        group: HostGroup,
        x: NDArray,
        detail: str,
        times: int = 1,
    ) -> CollectiveCall:
        call, nbytes = self.described(
            collective, group, x.shape, x.dtype.name, x.nbytes, detail
        )
        self.traffic.add(collective, nbytes * times)
        return call

    def described(
        self,
        collective: str,
        group: HostGroup,
        shape: tuple[int, ...],
        dtype: str,
        nbytes: int,
        detail: str,
    ) -> tuple[CollectiveCall, int]:
        """A call, and the bytes that leave a host in it."""
        members = group.members(self.index)
        call = CollectiveCall(collective, detail, dtype, shape, members, current_line())
        return call, leaving(collective, nbytes, len(members))

    @abstractmethod
    def _reduce(self, call: CollectiveCall, kind: str, x: NDArray) -> NDArray:
        """The fold of the arrays of all members."""

    @abstractmethod
    def _gather(self, call: CollectiveCall, x: NDArray) -> NDArray:
        """The arrays of all members, stacked."""

    @abstractmethod
    def _reduce_scatter(
        self, call: CollectiveCall, kind: str, parts: NDArray
    ) -> NDArray:
        """The fold of the parts with this member's number."""

    @abstractmethod
    def _exchange(self, call: CollectiveCall, parts: NDArray) -> NDArray:
        """The parts with this member's number, of all members, stacked."""

    @abstractmethod
    def _permute(
        self, call: CollectiveCall, to: tuple[int, ...], source: int | None, x: NDArray
    ) -> NDArray | None:
        """The array of member `source`, while this one's goes to the members `to`."""


class ProcessEngine(Collectives):
    """An engine of processes, which know when one of them ends."""

    def __init__(self, index: int, count: int) -> None:
        super().__init__(index, count)
        self._thread_order = ThreadOrder(self._names)
        self._program = ""  # that the process is in; empty for none

    def in_thread_order(
        self, members: tuple[int, ...], function: Callable[[], T], what: str = ""
    ) -> T:
        def run() -> T:
            if self._program:  # within a program
                return function()
            self._program = what
            try:
                self._begin(members, what)
                return function()
            finally:
                self._program = ""

        return self._thread_order.run(members, run)

    def _begin(self, members: tuple[int, ...], what: str) -> None:
        """Raise HostsError on all members unless all begin the program `what`.

        An engine whose messages say to which program they belong has nothing to do.
        """

    def _names(self, members: tuple[int, ...], own: NDArray) -> NDArray:
        return self._gather(
            CollectiveCall("threads", "", "uint8", own.shape, members), own
        )

    def close(self) -> None:
        """All processes have left."""

    def abort(self, status: int) -> None:
        """This process fails: end the others too, if they would not notice."""


def cut(x: NDArray, dim: int, parts: int) -> NDArray:
    """The parts of an array along a dim, stacked, C-contiguous."""
    if x.shape[dim] % parts:
        raise HostsError(
            f"an array of shape {x.shape} has no {parts} equal parts along dim {dim}"
        )
    shape = (*x.shape[:dim], parts, x.shape[dim] // parts, *x.shape[dim + 1 :])
    return np.ascontiguousarray(np.moveaxis(x.reshape(shape), dim, 0))


def joined(stack: NDArray, dim: int) -> NDArray:
    """The arrays in a stack, one after the other along a dim, C-contiguous."""
    parts, *shape = stack.shape
    shape[dim] *= parts
    moved = np.ascontiguousarray(np.moveaxis(stack, 0, dim))
    return moved.reshape(shape)


def pieces(size: int, parts: int) -> list[tuple[int, int]]:
    """The bounds of nearly equal parts of a number of elements."""
    each = math.ceil(size / parts)
    return [(min(i * each, size), min((i + 1) * each, size)) for i in range(parts)]
