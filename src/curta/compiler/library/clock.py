"""Reading a clock between the kernels of a program."""

from __future__ import annotations

import ctypes
import time

from curta._base.lazy_dataclass import dataclass
from curta.compiler.library.routine import Routine
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.types import I32, I64, PTR


@dataclass(frozen=True)
class ReadClock(Routine):
    """The time of a clock of POSIX, as seconds and nanoseconds: two words.

    The operand is the address of `clock_gettime`, one word.
    """

    clock: int = time.CLOCK_MONOTONIC

    @property
    def work(self) -> int:
        return 0

    @property
    def scratch(self) -> int:
        return 0

    def emit(self, module: Module, name: str) -> None:
        b = module.function(name, [PTR] * 3)
        result, function, _ = b.arguments
        b.call(b.load(PTR, function), I32, b.const(I32, self.clock), result)
        b.ret()


def function_address() -> int:
    """The address of `clock_gettime`."""
    function = ctypes.CDLL(None).clock_gettime
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@dataclass(frozen=True)
class AddElapsed(Routine):
    """Add the nanoseconds since a reading of a clock to a total; renew the reading.

    Results: the reading, seconds and nanoseconds, and the total, one word. The operand
    is that of `ReadClock`.
    """

    clock: int = time.CLOCK_MONOTONIC

    @property
    def work(self) -> int:
        return 0

    @property
    def scratch(self) -> int:
        return 0

    def emit(self, module: Module, name: str) -> None:
        b = module.function(name, [PTR] * 4)
        reading, total, function, _ = b.arguments
        before = [b.load(I64, b.offset(reading, i, I64)) for i in range(2)]
        b.call(b.load(PTR, function), I32, b.const(I32, self.clock), reading)
        after = [b.load(I64, b.offset(reading, i, I64)) for i in range(2)]
        seconds, rest = (b.sub(x, y) for x, y in zip(after, before, strict=True))
        spent = b.add(b.mul(seconds, b.const(I64, 1_000_000_000)), rest)
        b.store(b.add(b.load(I64, total), spent), total)
        b.ret()
