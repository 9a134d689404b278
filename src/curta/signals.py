"""Long work in native code, done so that Python can answer signals meanwhile.

Python runs the handlers of signals in the main thread, between two of its instructions:
a handler waits until a native function returns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def is_main_thread() -> bool:
    """Whether this is the thread in which Python answers signals."""
    return threading.get_ident() == threading.main_thread().ident


def answering(function: Callable[..., T], *args: Any) -> T:
    """`function(*args)`; the main thread leaves it to another one and waits.

    If a handler raises, the call goes on to its end, and nobody sees what it gives.

    >>> answering(pow, 2, 10)
    1024
    """
    if not is_main_thread():
        return function(*args)
    call = _Call(function, args)
    call.start()
    call.join()
    if call.error is not None:
        raise call.error
    return call.result  # type: ignore[no-any-return]


class _Call(threading.Thread):
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
