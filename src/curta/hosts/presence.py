"""Heartbeats: processes show that they run, and learn when others end.

When another process fails or is gone, this one is given a few seconds to end by itself,
by the error that its next collective raises; then it is ended, as it may be waiting
somewhere that nothing wakes.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from curta.errors import JaxRuntimeError
from curta.hosts import wire
from curta.hosts.failures import HostsError
from curta.hosts.store import StoreConnection

_INTERVAL = 1.0  # seconds between signs of life
_GRACE = 5.0  # seconds for a process to end by itself when another has failed


class Presence:
    """The connection of a process to the service of process 0."""

    def __init__(self, store: StoreConnection, index: int, limit: float) -> None:
        self.failure: HostsError | None = None
        self.left: set[int] = set()
        self.waiting: Callable[[], str | None] = lambda: None
        """Says in which collective the process waits."""
        self.watched: Callable[[], None] = lambda: None
        """Called every second, in the thread of this object."""
        self._store = store
        self._index = index
        self._limit = limit
        self._sending = threading.Condition()
        self._failed = threading.Event()
        self._ended = threading.Event()
        self._closed = threading.Event()
        self._asked = 0
        self._connection = store.connect()
        self._send(b"join", b"%d" % index, b"%r" % limit)
        self._thread = threading.Thread(
            target=self._run, name="curta-presence", daemon=True
        )
        self._thread.start()

    # ---- what the process says

    def failed(self, reason: str) -> None:
        """Tell the others that this process ends, and why."""
        if self.failure is None:
            self._leave(b"failed", reason.encode(errors="replace"))
        self._ended.set()

    def leave(self) -> None:
        """Tell the others that this process needs them no more."""
        self._leave(b"leaving")

    def _leave(self, *texts: bytes) -> None:
        if not self._ended.is_set():
            self._send(*texts)
            self._closed.wait(_GRACE)
            self._ended.set()

    def _send(self, *texts: bytes) -> None:
        try:
            with self._sending:
                wire.send_texts(self._connection, *texts)
        except OSError:
            return  # the thread notices that process 0 is gone

    # ---- what it learns of others

    def states(self, processes: Iterable[int], seconds: float = 2.0) -> str:
        """The states of other processes, as far as they answer in time."""
        self._asked += 1
        number = f"{self._index}.{self._asked}"
        self._send(b"states?", number.encode())
        result = []
        end = time.monotonic() + seconds
        for process in processes:
            left = b"%f" % max(0.0, end - time.monotonic())
            key = f"curta/state/{number}/{process}".encode()
            try:
                status, text = self._store.ask(b"get", key, left)
            except JaxRuntimeError:  # process 0 has ended meanwhile
                status, text = b"gone", b""
            said = text.decode() if status == b"ok" else "does not answer"
            result.append(f"process {process} {said}")
        return "; ".join(result)

    def reason(self, seconds: float) -> HostsError | None:
        """What failed, if it becomes known within `seconds`."""
        self._failed.wait(seconds)
        return self.failure

    def _run(self) -> None:
        heard = time.monotonic()
        try:
            while not self._ended.is_set():
                self._send(b"here")
                end = time.monotonic() + _INTERVAL
                while (left := end - time.monotonic()) > 0:
                    if select.select([self._connection], [], [], left)[0]:
                        self._hear(*wire.receive_texts(self._connection))
                        heard = time.monotonic()
                        if self._ended.is_set():
                            return
                self.watched()
                if time.monotonic() - heard > self._limit:
                    self._fail(f"process 0 has not been heard of for {self._limit} s")
        except OSError:
            if not self._ended.is_set():
                self._fail("process 0 is gone")
        finally:
            self._connection.close()
            self._closed.set()

    def _hear(self, verb: bytes, *texts: bytes) -> None:
        if verb == b"state?":
            _, number = texts
            self._send(b"state", number, self.state().encode())
        elif verb == b"left":
            self.left.add(int(texts[0]))
        elif verb == b"failed":
            self._fail(f"process {int(texts[0])} failed: {texts[1].decode()}")
        elif verb == b"gone":
            self._fail(f"process {int(texts[0])} {texts[1].decode()}")
        elif verb == b"bye":
            self._ended.set()

    def state(self) -> str:
        """The state of this process."""
        waiting = self.waiting()
        return f"waits in {waiting}" if waiting else f"is at {line_of_main_thread()}"

    def _fail(self, reason: str) -> None:
        if self.failure is None and not self._ended.is_set():
            self.failure = HostsError(reason)
            self._failed.set()
            threading.Thread(
                target=self._end_later, name="curta-ending", daemon=True
            ).start()

    def _end_later(self) -> None:
        if not self._ended.wait(_GRACE):
            end(f"process {self._index} ends, as {self.failure}; it {self.state()}")


def end(message: str, status: int = 1) -> None:
    """End the process at once, whatever its threads do."""
    sys.stderr.write(f"curta: {message}\n")
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(status)


_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def line_of_main_thread() -> str:
    """The line of the program at which the main thread is."""
    frame: Any = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None and _inner(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return "its end"
    name = os.path.basename(frame.f_code.co_filename)
    return f"{name}:{frame.f_lineno}"


_LIBRARY = os.path.dirname(os.path.abspath(socket.__file__)) + os.sep


def _inner(file: str) -> bool:
    """Whether a line of this file says little about where a program is."""
    return file.startswith((_PACKAGE, _LIBRARY, "<frozen"))
