"""A program, or a part of one, as a native function and what it is called with."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

from curta.compiler.sized import Sizes
from curta.config import config
from curta.core.jaxpr import Eqn
from curta.lazy_dataclass import dataclass
from curta.once import cached_property

UNKNOWN = 1 << 40  # the cost of a loop whose trip count nobody knows


# What a program returns: STOPPED if it was cancelled, or Python that it calls failed.
DONE, STOPPED = 0, 1


@dataclass(frozen=True, eq=False)
class NativeProgram:
    """A program that is one native function, `i64 f(ptr table)`.

    `signature` has the dtypes and shapes of the results, then of the arguments, whose
    addresses come first in the table; `constants` are the words after them. What runs
    chunks on threads is 0 there; the `launcher` gives its address when it is needed.
    `code`, the executable, keeps all of it in memory. `cost` estimates a call in simple
    scalar operations; it is UNKNOWN, or more, where nobody knows the trip count of a
    loop. Results `in_place` lie where arguments lay, which was allowed: their two
    addresses must be the same.
    A call needs an arena of so many bytes, 0 for none, whose address goes to the word
    number `arena_word` of the constants. Its `temporaries` are what it takes of memory,
    the stack included.
    One that is `cancellable` polls the token whose address is at `token_word`, and
    returns soon when it was cancelled, with results undefined (cancellation.py).
    Results are undefined where it returns STOPPED, and an exception is pending if it
    `runs_python` (host_call.py). A host call is Python itself, whose results are no
    native code's: it stores DONE as the last of the constants. `eqn` is what it runs.
    """

    code: Any
    address: int
    signature: tuple[tuple[Any, tuple[int, ...]], ...]
    results: int
    constants: tuple[int, ...]
    cost: int
    arena_word: int
    arena_bytes: int
    temporaries: int
    in_place: frozenset[int] = frozenset()
    runs_python: bool = False
    is_host_call: bool = False
    cancellable: bool = False
    eqn: Eqn | None = None
    launcher: Callable[[], int] | None = None

    def at(self, sizes: Sizes) -> NativeProgram:
        """The program as it is called for given sizes."""
        return self.code.at(sizes).native if hasattr(self.code, "at") else self

    @property
    def long(self) -> bool:
        """Whether other Python threads should run during a call."""
        return self.cost > config.tuning.released_cost

    @property
    def token_word(self) -> int:
        """Where among the constants the address of the cancellation token is."""
        return self.arena_word + 1

    def array_bytes(self, array: int) -> int:
        """The bytes of a result, or (counting on) of an argument."""
        dtype, shape = self.signature[array]
        return int(dtype.itemsize) * math.prod(shape)

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
