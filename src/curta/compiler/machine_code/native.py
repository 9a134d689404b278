"""Native functions in memory, with the constant words of their tables."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.compiler.callee import Callee
from curta.compiler.sized import Sizes
from curta.config import config


@dataclass(frozen=True, eq=False, kw_only=True)
class NativeProgram(Callee):
    """A native function in memory, ready to be called.

    Fields:
        address: the address of the function.
        constants: the words of the table after the arrays. The word of the launcher,
            which runs chunks on threads, is 0.
        code: the object that keeps the machine code in memory.
        launcher: returns the address of the launcher; None if no thread is needed.
    """

    address: int
    constants: tuple[int, ...]
    code: Any
    launcher: Callable[[], int] | None = None

    def at(self, sizes: Sizes) -> NativeProgram:
        """The program as it is called for given sizes."""
        return self.code.at(sizes).native if hasattr(self.code, "at") else self

    @property
    def long(self) -> bool:
        """Whether other Python threads should run during a call."""
        return self.cost > config.tuning.released_cost

    @cached_property
    def with_threads(self) -> tuple[int, ...]:
        """The constants for calls that share work out to threads, if there is some."""
        if self.launcher is None:
            return self.constants
        word = self.arena_word - 1
        before, after = self.constants[:word], self.constants[word + 1 :]
        return (*before, self.launcher(), *after)

    @cached_property
    def words(self) -> ctypes.Array[ctypes.c_uint64]:
        """The constants in memory, for native code that calls this program."""
        constants = self.with_threads
        return (ctypes.c_uint64 * max(len(constants), 1))(*constants)
