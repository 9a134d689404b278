"""Hosts that are threads of one process, with buffers of their own.

    results = run_on_hosts(lambda host: program(parts[host]), range(4))

Every host runs in a thread of its own, which is kept. A collective takes place in the
thread that comes to it last. Hosts that wait for one another in different collectives,
or for one that has ended, are told at once.
"""

from __future__ import annotations

import contextvars
import functools
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from curta._base.once import Lock, once
from curta._base.signals import await_event
from curta._settings.options import overrides_here, overriding
from curta.config import config
from curta.hosts.collectives import CollectiveCall, Collectives
from curta.hosts.engine import current, set_thread_engine
from curta.hosts.failures import HostsError
from curta.hosts.folding import fold
from curta.hosts.started import Late

NDArray = np.ndarray[Any, Any]
Combine = Callable[[list[Any]], Sequence[Any]]


class _Meeting:
    """A collective that some of its hosts have come to."""

    def __init__(self, call: CollectiveCall, lock: Any) -> None:
        self.call = call
        self.values: dict[int, Any] = {}
        self.results: dict[int, Any] | None = None
        self.over = threading.Condition(lock)


class _Run:
    """One run of a program on all hosts: waiting hosts, and the first error."""

    def __init__(self, hosts: Sequence[int]) -> None:
        self.hosts = hosts
        self.lock: Lock = Lock()
        self.error: BaseException | None = None
        self.ended: Any = threading.Event()
        self._begun: set[int] = set()
        self._done: set[int] = set()
        self._waiting: dict[int, _Meeting] = {}
        self._meetings: dict[tuple[tuple[int, ...], int], _Meeting] = {}
        self._calls: dict[tuple[int, tuple[int, ...]], int] = {}

    def meet(
        self, host: int, call: CollectiveCall, value: Any, combine: Combine
    ) -> Any:
        """What `combine` gives this host of the values of all members."""
        with self.lock:
            self._raise_if_failed()
            meeting, key = self._meeting(host, call)
            if call != meeting.call:
                first = min(meeting.values)
                self._fail(
                    f"hosts call different collectives: host {first}"
                    f" {meeting.call}, host {host} {call}"
                )
            meeting.values[host] = value
            if len(meeting.values) == len(call.members):
                del self._meetings[key]
                values = [meeting.values[m] for m in call.members]
                result = combine(values)
                meeting.results = dict(zip(call.members, result, strict=True))
                for member in call.members:
                    self._waiting.pop(member, None)
                meeting.over.notify_all()
            else:
                self._wait(host, meeting)
            assert meeting.results is not None
            return meeting.results.pop(host)

    def _meeting(self, host: int, call: CollectiveCall) -> tuple[_Meeting, Any]:
        number = self._calls.get((host, call.members), 0)
        self._calls[host, call.members] = number + 1
        key = call.members, number
        if key not in self._meetings:
            self._meetings[key] = _Meeting(call, self.lock)
        return self._meetings[key], key

    def _wait(self, host: int, meeting: _Meeting) -> None:
        self._waiting[host] = meeting
        self._look_for_deadlock()
        end = time.monotonic() + config.curta_hosts_timeout
        while meeting.results is None:
            self._raise_if_failed()
            left = end - time.monotonic()
            if left <= 0:
                self._fail(f"time-out after {config.curta_hosts_timeout} s: ")
            meeting.over.wait(left)

    def begin(self, host: int) -> bool:
        """Whether the host is to start: not if it is started a second time."""
        with self.lock:
            first = host not in self._begun
            self._begun.add(host)
            return first

    def finish(self, host: int, error: BaseException | None) -> None:
        """The host has ended, by an error or in order."""
        with self.lock:
            self._done.add(host)
            if error is not None:
                self.fail(error)
            elif self.error is None:
                try:
                    self._look_for_deadlock()
                except HostsError:
                    pass  # raised by those that wait
            if len(self._done) == len(self.hosts):
                self.ended.set()

    def fail(self, error: BaseException) -> None:
        """Wake all hosts; what went wrong first is what is raised."""
        with self.lock:
            if self.error is None:
                self.error = error
            for meeting in self._waiting.values():
                meeting.over.notify_all()

    def _look_for_deadlock(self) -> None:
        if self._waiting and len(self._waiting) + len(self._done) == len(self.hosts):
            self._fail("hosts wait for one another: ")

    def _fail(self, message: str) -> None:
        if message.endswith(": "):
            message += "; ".join(map(self._state, self.hosts))
        self.fail(HostsError(message))
        self._raise_if_failed()

    def _state(self, host: int) -> str:
        if host in self._waiting:
            return f"host {host} waits in {self._waiting[host].call}"
        return f"host {host} " + ("has ended" if host in self._done else "computes")

    def _raise_if_failed(self) -> None:
        if self.error is not None:
            raise HostsError(str(self.error)) from self.error


class Simulated(Collectives):
    """The engine of a simulated host, during one run."""

    def __init__(self, index: int, run: _Run) -> None:
        super().__init__(index, len(run.hosts))
        self._run = run
        self.started = Late()

    def _meet(self, call: CollectiveCall, value: Any, combine: Combine) -> Any:
        return self._run.meet(self.index, call, value, combine)

    def _reduce(self, call: CollectiveCall, kind: str, x: NDArray) -> NDArray:
        return self._meet(call, x, lambda xs: _copies(fold(kind, xs), len(xs)))

    def _gather(self, call: CollectiveCall, x: NDArray) -> NDArray:
        return self._meet(call, x, lambda xs: _copies(np.stack(xs), len(xs)))

    def _reduce_scatter(
        self, call: CollectiveCall, kind: str, parts: NDArray
    ) -> NDArray:
        return self._meet(
            call, parts, lambda xs: [fold(kind, column) for column in zip(*xs)]
        )

    def _exchange(self, call: CollectiveCall, parts: NDArray) -> NDArray:
        return self._meet(call, parts, lambda xs: list(map(np.stack, zip(*xs))))

    def _permute(
        self, call: CollectiveCall, to: tuple[int, ...], source: int | None, x: NDArray
    ) -> NDArray | None:
        def move(sent: list[tuple[int | None, NDArray]]) -> list[NDArray | None]:
            return [None if s is None else sent[s][1].copy() for s, _ in sent]

        return self._meet(call, (source, x), move)


def _copies(x: NDArray, count: int) -> list[NDArray]:
    return [x, *[x.copy() for _ in range(count - 1)]]


class _HostThread(threading.Thread):
    """The thread in which a simulated host runs, one function after the other."""

    def __init__(self, host: int) -> None:
        super().__init__(name=f"curta-host-{host}", daemon=True)
        self.work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def run(self) -> None:
        while True:
            self.work.get()()


@once
def _threads() -> dict[int, _HostThread]:
    return {}


@once
def _running() -> Any:
    """Held during a run: programs on the same hosts run one after the other."""
    return Lock()


def _thread(host: int) -> _HostThread:
    result = _threads().get(host)
    if result is None or not result.is_alive():  # a forked process has no other threads
        result = _threads()[host] = _HostThread(host)
        result.start()
    return result


def run_on_hosts(function: Callable[[int], Any], hosts: Iterable[int]) -> list[Any]:
    """`function(host)` for every host, at once; the results in their order.

    Within it `hosts.engine.current()` is the engine of the host. Settings are those of
    the caller.

    Raises:
        Exception: what a host raised first; the others are woken.
        HostsError: hosts call collectives that differ, or wait for one another; or it
            is called on a host.

    >>> import numpy as np
    >>> from curta.hosts.engine import current
    >>> from curta.hosts.group import HostGroup
    >>> group = HostGroup(("x",), (3,), (0, 1, 2), ("x",))
    >>> total = lambda host: current().all_reduce(group, "sum", np.array(host))
    >>> run_on_hosts(total, range(3))
    [array(3), array(3), array(3)]
    """
    if isinstance(current(), Simulated):
        raise HostsError("a program on hosts runs within one on the same hosts")
    numbers = tuple(hosts)
    with _running():
        run = _Run(numbers)
        if not numbers:
            run.ended.set()
        results: dict[int, Any] = {}
        settings = overrides_here()

        def on(host: int) -> None:
            if not run.begin(host):
                return
            error: BaseException | None = None
            try:
                set_thread_engine(Simulated(host, run))
                with overriding(settings):
                    results[host] = function(host)
            except BaseException as raised:  # raised in the thread of the caller
                error = raised
            finally:
                set_thread_engine(None)
                run.finish(host, error)
                del error

        _start_all(run, on)
        if run.error is not None:
            raise run.error
        return [results[host] for host in numbers]


def _start_all(run: _Run, on: Callable[[int], None]) -> None:
    """Start the hosts and wait until all have ended, also when a signal comes."""
    started = 0
    while not run.ended.is_set():
        try:
            while started < len(run.hosts):
                host = run.hosts[started]
                context = contextvars.copy_context()
                _thread(host).work.put(functools.partial(context.run, on, host))
                started += 1
            await_event(run.ended)
        except BaseException as error:  # of a handler of a signal
            run.fail(error)
