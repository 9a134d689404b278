"""Executables: compiled programs, called with NumPy arrays.

A program is one machine-code function. Where an op has no compiled code, it calls back
into Python (machine_code/host_call.py). The runtime calls most programs without this
class between.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.compiler.machine_code.calls import call
from curta.compiler.machine_code.linked import Linked
from curta.compiler.machine_code.native import NativeProgram
from curta.compiler.sized import Sizes, Slots, number
from curta.core.avals import ShapedArray
from curta.core.buffers import empty
from curta.dtypes import physical_dtype

NDArray = np.ndarray[Any, Any]
Launcher = Callable[[], int]
"""Gives the address of the function that runs chunks on threads, when it is needed."""


@dataclass(frozen=True)
class NativeCode:
    """Machine code `i64 f(ptr table)`.

    The table has the addresses of results, arguments and consts, of `parallel_for`, of
    an arena of so many bytes, of a cancellation token, which it polls if it is
    `cancellable`, and `words` for the functions and programs that the code calls.
    `cost` estimates a call in simple scalar operations, `temporaries` is what it takes
    of memory besides the arrays, in bytes; `parallel` says whether it asks for threads.
    """

    linked: Linked
    callees: tuple[Linked | NativeProgram, ...]
    cost: int
    arena_bytes: int
    temporaries: int
    parallel: bool
    runs_python: bool = False
    cancellable: bool = False
    slots: Slots = field(default_factory=Slots)

    def at(self, sizes: Sizes) -> NativeCode:
        """The code as it is called for given sizes."""
        callees = [
            c.at(sizes) if isinstance(c, NativeProgram) else c for c in self.callees
        ]
        numbers = self.cost, self.arena_bytes, self.temporaries
        cost, arena, temporaries = (number(x, sizes) for x in numbers)
        return replace(
            self,
            callees=tuple(callees),
            cost=cost,
            arena_bytes=arena,
            temporaries=temporaries,
        )

    @property
    def words(self) -> tuple[int, ...]:
        words: list[int] = []
        for called in self.callees:
            words.append(called.address)
            if isinstance(called, NativeProgram):
                words.append(ctypes.addressof(called.words))
        return tuple(words)


def aval_at(aval: ShapedArray, sizes: Sizes) -> ShapedArray:
    """A type for given sizes."""
    return aval.update(shape=tuple(number(d, sizes) for d in aval.shape))


class Executable:
    """A compiled jaxpr: NumPy arrays of the physical dtypes in, a list of them out.

    Results `in_place` may lie where their argument does.
    """

    def __init__(
        self,
        in_avals: Sequence[ShapedArray],
        out_avals: Sequence[ShapedArray],
        code: NativeCode,
        consts: Sequence[NDArray],
        parallel_for: Launcher | None = None,
        in_place: frozenset[int] = frozenset(),
    ) -> None:
        self.in_avals: tuple[ShapedArray, ...] = tuple(in_avals)
        self.out_avals: tuple[ShapedArray, ...] = tuple(out_avals)
        self.code = code
        self.consts: list[np.ndarray[Any, Any]] = list(
            map(np.ascontiguousarray, consts)
        )
        self._launcher = parallel_for if code.parallel else None
        self.in_place = in_place
        self.sizes: NDArray | None = None

    def at(self, sizes: Sizes) -> Executable:
        """The same machine code as it is called for given sizes."""
        ins, outs = (
            [aval_at(a, sizes) for a in x] for x in (self.in_avals, self.out_avals)
        )
        result = Executable(
            ins, outs, self.code.at(sizes), self.consts, self._launcher, self.in_place
        )
        result.sizes = self.code.slots.table(sizes)
        return result

    @property
    def temporary_bytes(self) -> int:
        """The memory that a call takes besides arguments, constants and results."""
        return self.code.temporaries

    @property
    def native(self) -> NativeProgram:
        """The program as one native function, which keeps this object."""
        return self._program(self)

    @cached_property
    def _own_program(self) -> NativeProgram:
        """The same for calls by this object, which keeps the code itself."""
        return self._program(None)

    def _program(self, keeps: Executable | None) -> NativeProgram:
        code = self.code
        arrays = [*self.out_avals, *self.in_avals]
        return NativeProgram(
            code=keeps,
            address=code.linked.address,
            signature=tuple((physical_dtype(a.dtype), a.shape) for a in arrays),
            results=len(self.out_avals),
            constants=self._constants,
            cost=code.cost,
            arena_word=len(self.consts) + 1,
            arena_bytes=code.arena_bytes,
            temporaries=code.temporaries,
            in_place=self.in_place,
            runs_python=code.runs_python,
            cancellable=code.cancellable,
            launcher=self._launcher,
        )

    @cached_property
    def _constants(self) -> tuple[int, ...]:
        """The words of the table after the arrays; those of services are 0."""
        consts = [x.ctypes.data for x in self.consts]
        words = (*consts, 0, 0, 0, *self.code.words)
        if not self.code.slots.items:
            return words
        return (*words, 0 if self.sizes is None else self.sizes.ctypes.data)

    def __call__(self, *args: NDArray) -> list[NDArray]:
        given = list(map(_contiguous, args, self.in_avals))
        results = [empty(a.shape, physical_dtype(a.dtype)) for a in self.out_avals]
        call(self._own_program, _addresses(results + given))
        return results


def _addresses(arrays: Sequence[NDArray]) -> list[int]:
    # Not by `__array_interface__`, in which NumPy ends the process for want of memory.
    return [x.ctypes.data for x in arrays]


def _contiguous(array: Any, aval: ShapedArray) -> NDArray:
    dtype = physical_dtype(aval.dtype)
    return np.ascontiguousarray(array, dtype).reshape(aval.shape)
