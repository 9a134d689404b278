"""Collectives that programs have begun and not ended yet.

An engine does them at once, when they are to be done, or in a thread of their own.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from curta._base.signals import await_event
from curta._settings.options import overrides_here, overriding
from curta.hosts.engine import Engine, set_thread_engine

NDArray = np.ndarray[Any, Any]
Collective = Callable[[], NDArray]
_PATIENCE = 2.0  # seconds in which what others have begun too should be over
_LOOK = 0.05  # seconds after which a thread that must not be interrupted looks again


class Started(ABC):
    """What has been begun, by number."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    @abstractmethod
    def start(self, collective: Collective) -> int:
        """Start the collective and give its number."""

    @abstractmethod
    def finish(self, number: int) -> NDArray:
        """The collective's result; raises what it raised."""

    @abstractmethod
    def settle(self) -> None:
        """Forget all; the arrays of these collectives are no longer touched then."""


class AtOnce(Started):
    """What is begun is done."""

    def __init__(self) -> None:
        super().__init__()
        self._results: dict[int, NDArray] = {}

    def start(self, collective: Collective) -> int:
        number = next(self._numbers)
        self._results[number] = collective()
        return number

    def finish(self, number: int) -> NDArray:
        return self._results.pop(number)

    def settle(self) -> None:
        self._results.clear()


class Late(Started):
    """What is begun is done when its result is wanted, as late as can be.

    That shows operands that did not stay as they were.
    """

    def __init__(self) -> None:
        super().__init__()
        self._begun: dict[int, Collective] = {}

    def start(self, collective: Collective) -> int:
        number = next(self._numbers)
        self._begun[number] = collective
        return number

    def finish(self, number: int) -> NDArray:
        return self._begun.pop(number)()

    def settle(self) -> None:
        self._begun.clear()


class _Job:
    """A collective in the thread: what it gives, once it is over."""

    def __init__(self, collective: Collective) -> None:
        self.collective = collective
        self.settings = overrides_here()
        self.over = threading.Event()
        self.result: NDArray | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with overriding(self.settings):
                self.result = self.collective()
        except BaseException as error:  # raised where the result is wanted
            self.error = error
        self.over.set()


class InThread(Started):
    """What is begun goes on in a thread, one after the other in their order.

    `give_up` makes the collective in it end soon, by an error.
    """

    def __init__(self, engine: Engine, give_up: Callable[[], None]) -> None:
        super().__init__()
        self._engine = engine
        self._give_up = give_up
        self._jobs: dict[int, _Job] = {}
        self._work: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self, collective: Collective) -> int:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._run, name="curta-collectives", daemon=True
            )
            self._thread.start()
        number = next(self._numbers)
        job = self._jobs[number] = _Job(collective)
        self._work.put(job)
        return number

    def finish(self, number: int) -> NDArray:
        job = self._jobs[number]
        await_event(job.over)
        del self._jobs[number]
        if job.error is not None:
            raise job.error
        assert job.result is not None
        return job.result

    def is_here(self) -> bool:
        """Whether this is the thread."""
        return threading.current_thread() is self._thread

    def drain(self) -> None:
        """Wait until nothing is left to do: a collective comes that was not begun."""
        for job in [*self._jobs.values()]:
            await_event(job.over)

    def settle(self) -> None:
        end = time.monotonic() + _PATIENCE
        while any(not job.over.is_set() for job in self._jobs.values()):
            try:
                for job in self._jobs.values():
                    job.over.wait(_LOOK)
                if time.monotonic() > end:
                    self._give_up()
            except BaseException:  # of a handler of a signal; an error is raised anyway
                self._give_up()
        self._jobs.clear()

    def close(self) -> None:
        """End the thread."""
        self._work.put(None)

    def _run(self) -> None:
        set_thread_engine(self._engine)
        while (job := self._work.get()) is not None:
            job.run()
            del job
