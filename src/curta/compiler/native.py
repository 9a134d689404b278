"""A program, or a part of one, as a native function and what it is called with."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True, eq=False)
class NativeProgram:
    """A program that is one native function, `void f(ptr table)`.

    `signature` has the dtypes and shapes of the results, then of the arguments, whose
    addresses come first in the table; `constants` are the words after them. `code`
    keeps all of it in memory. `long` says that a call may take so long that other
    Python threads should run meanwhile. Results `in_place` lie where arguments lay,
    which was allowed: their two addresses must be the same.
    """

    code: object
    address: int
    signature: tuple[tuple[Any, tuple[int, ...]], ...]
    results: int
    constants: tuple[int, ...]
    long: bool
    in_place: frozenset[int] = frozenset()

    @cached_property
    def words(self) -> ctypes.Array[ctypes.c_uint64]:
        """The constants in memory, for native code that calls this program."""
        return (ctypes.c_uint64 * max(len(self.constants), 1))(*self.constants)
