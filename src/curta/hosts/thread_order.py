"""In which order threads of a process use its engine: the same on all processes.

Which of two threads is first is for the system to say, and another process may decide
otherwise: then arrays of different programs would meet. So a thread is refused while
another one is in a program over several processes; and where it is another thread than
before that runs one, processes compare the names of these threads first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from curta._base.guarded_thread import kept_out
from curta._base.once import Lock
from curta.hosts.failures import HostsError

T = TypeVar("T")
Members = tuple[int, ...]
_BYTES = 128  # of a name


class ThreadOrder:
    """Which thread is in a program; the one that makes this is the first everywhere.

    `gather` exchanges a name with the other members.
    """

    def __init__(self, gather: Callable[[Members, np.ndarray], np.ndarray]) -> None:
        self._gather = gather
        self._lock = Lock()
        self._home = threading.current_thread()
        self._holder: threading.Thread | None = None
        self._programs = 0
        self._last: dict[Members, str] = {}

    def run(self, members: Members, function: Callable[[], T]) -> T:
        """Call `function`, a program or one collective between these members.

        Raises:
            HostsError: another thread is in one, or has a `thread_guard`, or other
                processes run another thread.
        """
        if len(members) > 1 and (guarded := kept_out()) is not None:
            raise _guarded(threading.current_thread(), guarded)
        if self._lock._is_owned():  # within a program of this thread
            return function()
        programs, holder = self._programs, self._holder
        thread = threading.current_thread()
        if holder is not None and not self._is_free():
            raise _both(thread, holder)
        with self._lock:  # no signal handler runs before the block does
            if self._programs != programs:  # changed before we got the lock
                raise _both(thread, None)
            self._programs += 1
            self._holder = thread
            try:
                self._agree(
                    tuple(sorted(members)), "" if thread is self._home else thread.name
                )
                return function()
            finally:
                self._holder = None

    def _is_free(self) -> bool:
        """Whether a signal came just before the last holder was forgotten."""
        free: bool = self._lock.acquire(blocking=False)
        if free:
            self._lock.release()
        return free

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
                f" between these: next is on {', '.join(each)}. Threads are identified"
                " by their names."
            )
        self._last[members] = name


def _guarded(thread: threading.Thread, other: threading.Thread) -> HostsError:
    return HostsError(
        f"a thread guard was set in thread {other.name!r}, and thread {thread.name!r}"
        " runs a program over several processes. Run it in the first thread, or after"
        " its block of `thread_guard`."
    )


def _both(thread: threading.Thread, holder: threading.Thread | None) -> HostsError:
    other = "another thread" if holder is None else f"thread {holder.name!r}"
    return HostsError(
        f"thread {thread.name!r} runs a program over several processes while {other} is"
        " in one: which comes first may differ between processes. Run them from one"
        " thread, or one after the other in an order that is the same on all processes."
    )
