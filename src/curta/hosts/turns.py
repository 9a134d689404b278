"""Threads of a process take turns with its engine, in one order on all processes.

Which of two threads is first is for the system to say, and another process may decide
otherwise: then arrays of different programs would meet. So a thread is refused while
another one is in a program over several processes; and where it is another thread than
before that runs one, processes compare the names of these threads first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from curta.hosts.failures import HostsError
from curta.once import Lock

Members = tuple[int, ...]
_BYTES = 128  # of a name


class Turns:
    """Whose turn it is; the thread that makes it is the first of every process.

    `gather` exchanges a name with the other members.
    """

    def __init__(self, gather: Callable[[Members, np.ndarray], np.ndarray]) -> None:
        self._gather = gather
        self._lock = Lock()
        self._depth = 0
        self._home = threading.current_thread()
        self._holder = self._home
        self._last: dict[Members, str] = {}

    @contextmanager
    def turn(self, members: Members) -> Iterator[None]:
        """For a program, or one collective, between these members.

        Raises:
            HostsError: another thread is in one, or other processes run another thread.
        """
        thread = threading.current_thread()
        if not self._lock.acquire(blocking=False):
            raise HostsError(
                f"thread {thread.name!r} runs a program over several processes while"
                f" thread {self._holder.name!r} is in one: which comes first may differ"
                " between processes. Run them from one thread, or one after the other"
                " in an order that is the same on all processes."
            )
        try:
            self._holder = thread
            self._depth += 1
            if self._depth == 1:
                self._agree(
                    tuple(sorted(members)), "" if thread is self._home else thread.name
                )
            yield
        finally:
            self._depth -= 1
            self._lock.release()

    def _agree(self, members: Members, name: str) -> None:
        if len(members) == 1 or name == self._last.get(members, ""):
            return
        own = np.zeros(_BYTES, np.uint8)
        text = name.encode()[:_BYTES]
        own[: len(text)] = np.frombuffer(text, np.uint8)
        names = [
            bytes(row).rstrip(b"\0").decode(errors="replace")
            for row in self._gather(members, own)
        ]
        if len({*names}) > 1:
            pairs = zip(members, names, strict=True)
            each = (f"process {m} {n or 'the first'!r}" for m, n in pairs)
            raise HostsError(
                "threads run programs over several processes in an order that differs"
                f" between these: next is on {', '.join(each)}. Threads are told apart"
                " by their names."
            )
        self._last[members] = name
