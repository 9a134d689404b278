"""Calls of native programs that can be cancelled: their loops poll a token.

    call(address, table_address, word)  # the word of the token in the table

What answers signals, Python's main thread, has them handled while its call runs, and
what a handler raises ends the call. In the queue of long computations a token of one's
own says whether a job is to stop.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Mapping

from curta._base.once import once
from curta.compiler.support import cancellation_code as code
from curta.compiler.support.loader import keep_for_process, native_module

_PLAIN = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)


class CancellationToken:
    """Whether a computation is to stop, for its loops to see."""

    __slots__ = ("_words",)

    def __init__(self) -> None:
        self._words = (ctypes.c_uint64 * code.TOKEN_WORDS)()

    @property
    def address(self) -> int:
        """For native code; valid as long as the token is."""
        return ctypes.addressof(self._words)

    @property
    def cancelled(self) -> bool:
        """Whether it is to stop."""
        return self._words[0] != 0

    def cancel(self) -> None:
        """Mark the call as cancelled."""
        self._words[0] = 1


class _Code:
    """The native functions and their state, which stay as long as the process."""

    def __init__(self) -> None:
        self._state = ctypes.create_string_buffer(code.STATE_SIZE)
        self._find_main()
        given = {code.STATE: ctypes.addressof(self._state)}
        self._loaded = native_module(code, given=given, depends=sys.platform)
        names = [f.name for f in code.EXPORTS]
        self.addresses = {name: self._loaded.address(name) for name in names}
        pointer, word = ctypes.c_void_p, ctypes.c_int64
        # Of this kind, because that raises an exception which was set meanwhile.
        kind = ctypes.PYFUNCTYPE(word, pointer, pointer, word)
        self.call = kind(self.addresses["call_cancellable"])
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._find_main)
        # The threads of the pool may run this code until the very end of the process.
        keep_for_process(self, self._state, self._loaded)

    def _find_main(self) -> None:
        main = ctypes.c_uint64.from_buffer(self._state, code.MAIN)
        main.value = threading.main_thread().ident or 0


@once
def _code() -> _Code | None:
    if sys.platform not in ("linux", "darwin"):
        return None
    try:
        return _Code()
    except ImportError:  # no compiler
        return None


def addresses() -> Mapping[str, int]:
    """The addresses of the native functions.

    Raises:
        ImportError: there are none on this system.
    """
    result = _code()
    if result is None:
        raise ImportError("calls cannot be canceled on this system")
    return result.addresses


def call(address: int, table: int, word: int) -> int:
    """Call a program on a table of words with a token at a word; what it returns.

    Raises:
        BaseException: what the handler of a signal raised.
    """
    result = _code()
    if result is not None:
        status: int = result.call(address, table, word)
        return status
    token = CancellationToken()
    ctypes.c_uint64.from_address(table + 8 * word).value = token.address
    return _PLAIN(address)(table)
