"""What carries arrays between hosts: the interface, and the engine at work."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from curta.hosts.group import HostGroup
from curta.hosts.transport import IN_PYTHON, Transport

T = TypeVar("T")
NDArray = np.ndarray[Any, Any]
Pairs = Sequence[tuple[int, int]]


class Engine:
    """The collectives as one host calls them, on C-contiguous NumPy arrays.

    Results are new arrays. All hosts of a group call the same collective with equal
    parameters and equal shapes, in the same order. `index` is the number of the host,
    `count` how many there are.
    """

    index: int
    count: int
    store: Any = None
    """A `store.StoreConnection`, which all processes have; None for simulated hosts."""
    transport: Transport = IN_PYTHON
    """What compiled code with collectives depends on, besides the program."""
    unfinished: Sequence[Callable[[], None]] = ()
    """Wait for what runs with other processes; called before this one leaves them."""

    def in_thread_order(
        self, members: tuple[int, ...], function: Callable[[], T], what: str = ""
    ) -> T:
        """Call a function that hosts run together, excluding their other threads.

        `what` names the program. Hosts that meet with different ones raise HostsError.
        """
        return function()

    def all_reduce(self, group: HostGroup, kind: str, x: NDArray) -> NDArray:
        """The fold over the group, `kind` one of sum, prod, max, min, and, or."""
        raise NotImplementedError

    def all_gather(self, group: HostGroup, x: NDArray, dim: int) -> NDArray:
        """The parts of all hosts of the group, joined along a dim in their order."""
        raise NotImplementedError

    def reduce_scatter(
        self, group: HostGroup, kind: str, x: NDArray, dim: int
    ) -> NDArray:
        """The host's own part, along a dim, of the fold over the group."""
        raise NotImplementedError

    def all_to_all(
        self, group: HostGroup, x: NDArray, split: int, join: int
    ) -> NDArray:
        """Part i along `split` goes to host i of the group; joined along `join`."""
        raise NotImplementedError

    def permute(self, group: HostGroup, pairs: Pairs, x: NDArray) -> NDArray:
        """What the host is sent, by (from, to) within the group; zeros if nothing."""
        raise NotImplementedError

    def start(self, collective: Callable[[], NDArray]) -> int:
        """Begin a collective, which reads its operand until it is done; its number."""
        raise NotImplementedError

    def finish(self, number: int) -> NDArray:
        """Wait for a collective that was begun: its result."""
        raise NotImplementedError

    def settle(self) -> None:
        """Wait, when a program ends early, until no collective uses its arrays.

        It has left collectives behind that it had begun.
        """


class Alone(Engine):
    """The engine of a process that is the only host."""

    index = 0
    count = 1


class _OfThread(threading.local):
    engine: Engine | None = None
    line: str = ""


class _OfProcess:
    engine: Engine = Alone()


_of_thread = _OfThread()
_of_process = _OfProcess()


def current() -> Engine:
    """The engine of this thread: of the simulated host it runs, or of the process."""
    return _of_thread.engine or _of_process.engine


@contextmanager
def at_line(line: str) -> Iterator[None]:
    """Within it, collectives of this thread are of a line of the user's program."""
    before, _of_thread.line = _of_thread.line, line
    try:
        yield
    finally:
        _of_thread.line = before


def current_line() -> str:
    """The line that collectives of this thread are of; empty if unknown."""
    return _of_thread.line


def of_process() -> Engine:
    """The engine of the process, with its rank and the number of processes."""
    return _of_process.engine


def set_process_engine(engine: Engine) -> None:
    """Make an engine that of the process, as `distributed.initialize` does."""
    _of_process.engine = engine


def set_thread_engine(engine: Engine | None) -> None:
    """Make an engine that of this thread, which runs a simulated host."""
    _of_thread.engine = engine
