"""Long work in native code, done so that Python can answer signals meanwhile.

Python runs the handlers of signals in the main thread, between two of its instructions:
a handler waits until a native function returns.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_LOOK = 0.2  # seconds from one look for signals to the next


def is_main_thread() -> bool:
    """Return True if this is the thread in which Python answers signals."""
    return threading.get_ident() == threading.main_thread().ident


def answering(function: Callable[..., T], *args: Any) -> T:
    """`function(*args)`; the main thread leaves it to another one and waits.

    If a handler raises, the call runs to its end and its result is discarded.

    >>> answering(pow, 2, 10)
    1024
    """
    if not is_main_thread():
        return function(*args)
    call = _CallThread(function, args)
    call.start()
    call.join()
    if call.error is not None:
        raise call.error
    return call.result


def await_event(event: threading.Event) -> None:
    """Wait for an event that may be long in coming.

    A signal that comes when Python is about to sleep does not wake it, and its handler
    would wait for the event.
    """
    while not event.wait(_LOOK):
        pass


def processors() -> int:
    """How many processors this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def at_once(function: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    """The results of `function`, which is native for the most part, for all items.

    The caller waits for the threads, as in `answering`. If some raise, the error of the
    first item that did is raised.

    >>> at_once(lambda x: x * 2, [1, 2, 3], 2)
    [2, 4, 6]
    """
    left = deque(enumerate(items))
    results: list[Any] = [None] * len(items)
    errors: dict[int, Exception] = {}

    def work() -> None:
        while True:
            try:
                at, item = left.popleft()
            except IndexError:
                return
            try:
                results[at] = function(item)
            except Exception as error:  # raised where it is waited for
                errors[at] = error

    calls = [_CallThread(work, ()) for _ in range(max(1, min(threads, len(items))))]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    if errors:
        raise errors[min(errors)]
    return results


@contextmanager
def meanwhile(function: Callable[[], Any] | None) -> Iterator[None]:
    """Run a function, native for the most part, in a thread during the `with` block.

    Errors that it raises are left to the next call.
    """
    if function is None:
        yield
        return
    call = _CallThread(function, ())
    call.start()
    try:
        yield
    finally:
        call.join()


class _CallThread(threading.Thread):
    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        super().__init__(name="curta")
        self._function, self._arguments = function, args
        self.result: Any = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            self.result = self._function(*self._arguments)
        except Exception as error:  # raised where it is waited for
            self.error = error
