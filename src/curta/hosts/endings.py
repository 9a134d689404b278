"""How a process of several ends: the others are told, and nobody waits for it.

An exception that nothing catches, and `sys.exit` with a status that is not 0, end the
whole program with that status. A process that raises SystemExit leaves by itself:
others that wait for it then fail by themselves.
"""

from __future__ import annotations

import atexit
import opcode
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from curta._base.signals import is_main_thread

_RAISES = {opcode.opmap[name] for name in ("RERAISE", "RAISE_VARARGS")}


class Endings:
    """Hooks of a process; `end(reason, status)` is called once, at its end.

    `reason` is None when the process ends in order.
    """

    def __init__(self, end: Callable[[str | None, int], None]) -> None:
        self._end = end
        self._reason: str | None = None
        self._status = 0
        self._left: SystemExit | None = None
        self._hook, self._exit = sys.excepthook, sys.exit
        self._own_hook: Any = self._uncaught
        self._own_exit: Any = self._exits
        sys.excepthook = self._own_hook
        sys.exit = self._own_exit
        atexit.register(self._at_exit)

    def remove(self) -> None:
        """Undo what was hooked, unless others have hooked themselves since."""
        atexit.unregister(self._at_exit)
        if sys.excepthook is self._own_hook:
            sys.excepthook = self._hook
        if sys.exit is self._own_exit:
            sys.exit = self._exit

    def _uncaught(
        self,
        kind: type[BaseException],
        error: BaseException,
        trace: TracebackType | None,
    ) -> None:
        self._hook(kind, error, trace)
        self._reason, self._status = f"{kind.__name__}: {error}", 1

    def _exits(self, status: Any = None) -> NoReturn:
        error = SystemExit(status)
        if is_main_thread():
            self._left = error
        raise error

    def _at_exit(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        left = self._left
        if left is not None and left.code not in (None, 0, False) and _ends(left):
            self._status = left.code if isinstance(left.code, int) else 1
            self._reason = f"sys.exit({left.code!r})"
        self._end(self._reason, self._status)


def _ends(error: SystemExit) -> bool:
    """Whether nothing has caught an exception that was raised.

    What catches it goes on: its frame is no more at the instruction that raised it, or
    that raised it again.
    """
    trace = error.__traceback__
    if trace is None:
        return True
    frame = trace.tb_frame
    at = frame.f_lasti
    return at == trace.tb_lasti or frame.f_code.co_code[at] in _RAISES
