"""Arenas, the memory of programs' temporaries, for native code to take and give back.

A program does not allocate: its caller provides an arena. Between calls arenas belong
to the process, so a hundred programs need no more memory than the largest of them. They
are blocks of the pool (core/buffers.py). In consecutive calls, native code reuses one
without Python (arena_code.py).

    imports = native_arenas()  # addresses of `take_arena` and `give_arena`
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from curta._base.once import once
from curta.compiler.support import arena_code
from curta.compiler.support.arena_code import HEADER
from curta.compiler.support.loader import native_module
from curta.config import config
from curta.core import buffers

NDArray = np.ndarray[Any, Any]


class _Arenas:
    """The arenas that native code uses or has parked, by their addresses."""

    def __init__(self) -> None:
        self._blocks: dict[int, NDArray] = {}
        self._parked = ctypes.c_void_p()
        self._code = self._load()
        names = [f.name for f in arena_code.EXPORTS]
        take, give, exchange = map(self._code.address, names)
        self.functions = {"take_arena": take, "give_arena": give}
        pointer = ctypes.c_void_p
        self._exchange: Callable[[int | None], int | None]
        self._exchange = ctypes.PYFUNCTYPE(pointer, pointer)(exchange)
        buffers.when_trimmed(self._unpark)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._in_child)

    def _load(self) -> Any:
        # Bound methods are made anew at each access.
        self._functions = self._take, self._give
        given = {arena_code.PARKED: ctypes.addressof(self._parked)}
        given[arena_code.TAKE], given[arena_code.GIVE] = map(id, self._functions)
        most = str(config.tuning.idle_bytes)
        return native_module(arena_code, given=given, depends=most)

    def _take(self, parked: int, size: int) -> int:
        """The address of an arena, where the one that was parked is too small."""
        self._blocks.pop(parked, None)
        block = buffers.workspace(size + HEADER)
        start: int = block.ctypes.data
        ctypes.c_uint64.from_address(start).value = block.size - HEADER
        self._blocks[start + HEADER] = block
        return start + HEADER

    def _give(self, arena: int) -> None:
        """Leave an arena to the pool."""
        self._blocks.pop(arena, None)

    def _unpark(self) -> None:
        arena = self._exchange(None)
        if arena is not None:
            self._give(arena)

    def _in_child(self) -> None:
        """In a forked process no other thread has an arena."""
        parked = self._parked.value
        self._blocks = {a: b for a, b in self._blocks.items() if a == parked}


@once
def _arenas() -> _Arenas:
    return _Arenas()


def native_arenas() -> Mapping[str, int]:
    """The addresses of the functions of arena_code, for code that imports them.

    Raises:
        ImportError: there is no native code.
    """
    return _arenas().functions
