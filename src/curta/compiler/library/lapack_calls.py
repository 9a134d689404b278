"""Routines of BLAS and LAPACK called for each matrix of a batch, with no Python.

A call is described by its arguments, in order. The code copies what the routine
overwrites, hands over addresses, and keeps what the routine says went wrong, for the
program to look at. A chunk of the batch has workspace of its own.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import field
from functools import cache
from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.compiler.library import blas
from curta.compiler.library.blas_buffers_code import ENTER, LEAVE
from curta.compiler.library.routine import Routine, part, share
from curta.compiler.llvm.builder import Builder, Module, Values
from curta.compiler.llvm.types import F32, F64, I8, I32, I64, PTR, Value
from curta.compiler.targets import Tuning

SIZES = {"s": 4, "d": 8, "c": 8, "z": 16, "i": 4}
_PARTS = {"s": (F32, 1), "d": (F64, 1), "c": (F32, 2), "z": (F64, 2)}
_REALS = {
    k: ctypes.c_float if n == F32 else ctypes.c_double for k, (n, _) in _PARTS.items()
}
_LARGEST = 2**31 - 1


@dataclass(frozen=True)
class Result:
    """The address of a matrix of a result."""

    index: int


@dataclass(frozen=True)
class OperandAddress:
    """The address of a matrix of an operand, which the routine only reads."""

    index: int


@dataclass(frozen=True)
class Space:
    """The address of so many bytes of workspace."""

    bytes: int


@dataclass(frozen=True)
class Work:
    """Workspace of elements of a kind, and its length: two arguments.

    The routine itself says how much it wants, when it is told the length -1.
    """

    kind: str


Argument = bytes | int | float | Result | OperandAddress | Space | Work | None
"""A character, an integer, a real number, an address, or a null pointer."""


@dataclass(frozen=True)
class BatchedCall(Routine):
    """Calls of the routine `name`, with and without info as the last argument.

    `results` and `operands` have the bytes of one matrix each. `copied` are pairs of a
    result and the operand with which it begins; `cleared` results begin with zeros.
    """

    name: str
    arguments: tuple[Argument, ...]
    batch: int
    results: tuple[int, ...]
    operands: tuple[int, ...]
    copied: tuple[tuple[int, int], ...]
    cleared: tuple[int, ...]
    each: int
    tuning: Tuning = field(repr=False, kw_only=True)

    @property
    def work(self) -> int:
        """Roughly how many operations it takes."""
        return self.batch * self.each

    @property
    def chunks(self) -> int:
        """How many matrices are worked on at a time, in workspace of their own."""
        tuning = self.tuning
        short = self.each <= tuning.lapack_short
        most = tuning.lapack_short_chunks if short else tuning.lapack_chunks
        return max(1, min(self.batch, most, self.work // tuning.lapack_chunk_work))

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """The elements that the routine wants of each kind of work."""
        if not any(isinstance(a, Work) for a in self.arguments):
            return ()
        return _lengths(self.name, self.arguments)

    @property
    def spaces(self) -> list[int]:
        """Where the workspaces of a chunk begin, and where the last one ends."""
        wanted = iter(self.lengths)
        ends = [0]
        for a in self.arguments:
            if isinstance(a, (Space, Work)):
                size = a.bytes if isinstance(a, Space) else SIZES[a.kind] * next(wanted)
                ends.append(ends[-1] + -(-size // 64) * 64)
        return ends

    @property
    def scratch(self) -> int:
        """The bytes of memory it needs."""
        return self.chunks * self.spaces[-1]

    @property
    def externals(self) -> tuple[str, ...]:
        """The routine."""
        return (self.name,)

    def run(self, results: Sequence[Any], operands: Sequence[Any]) -> None:
        """The calls made by Python, on C-contiguous arrays."""
        scratch = ctypes.create_string_buffer(self.spaces[-1] + 1)
        for i in range(self.batch):
            to = [x.ctypes.data + i * n for x, n in zip(results, self.results)]
            of = [x.ctypes.data + i * n for x, n in zip(operands, self.operands)]
            for result, operand in self.copied:
                ctypes.memmove(to[result], of[operand], self.results[result])
            for result in self.cleared:
                ctypes.memset(to[result], 0, self.results[result])
            starts = iter(self.spaces)
            memory = [
                to[a.index] if isinstance(a, Result)
                else of[a.index] if isinstance(a, OperandAddress)
                else ctypes.addressof(scratch) + next(starts)
                if isinstance(a, (Space, Work)) else 0
                for a in self.arguments
            ]  # fmt: skip
            _call(self.name, self.arguments, memory, self.lengths)

    def emit(self, module: Module, name: str) -> None:
        """Add `void name(ptr results.., operands.., scratch, parallel_for)`.

        Raises:
            ValueError: a size does not fit the 32 bits of LAPACK.
        """
        if any(isinstance(a, int) and a > _LARGEST for a in self.arguments):
            raise ValueError(f"LAPACK has 32-bit indices, too few for {self}")
        b = module.function(name, [PTR] * (len(self.results) + len(self.operands) + 2))
        *given, launcher = b.arguments
        share(b, launcher, "matrices", self.chunks, given, self._matrices)
        b.ret()

    def _matrices(self, b: Builder, chunk: Value, *given: Value) -> None:
        *arrays, scratch = given
        memory = b.offset(scratch, chunk * self.spaces[-1], I8)
        arguments, sizes = _fixed(b, self, memory), (*self.results, *self.operands)
        b.call(ENTER, None)
        with b.loop(*part(chunk, self.batch, self.chunks)) as loop:
            here = [
                b.offset(x, loop.index * size, I8)
                for x, size in zip(arrays, sizes, strict=True)
            ]
            results, operands = here[: len(self.results)], here[len(self.results) :]
            for i, j in self.copied:
                b.copy(results[i], operands[j], self.results[i])
            for i in self.cleared:
                b.fill(results[i], 0, self.results[i])
            pointers = [
                results[x.index] if isinstance(x, Result)
                else operands[x.index] if isinstance(x, OperandAddress) else x
                for x in arguments
            ]  # fmt: skip
            b.call(self.name, None, *pointers)
        b.call(LEAVE, None)


def _fixed(
    b: Builder, call: BatchedCall, memory: Value
) -> list[Value | Result | OperandAddress]:
    """The arguments, with the addresses of all that is the same for every matrix."""
    result: list[Value | Result | OperandAddress] = []
    starts, lengths = iter(call.spaces), iter(call.lengths)
    for a in call.arguments:
        if isinstance(a, (Result, OperandAddress)):
            result.append(a)
        elif isinstance(a, (Space, Work)):
            result.append(b.offset(memory, next(starts), I8))
            if isinstance(a, Work):
                result.append(_by_reference(b, [b.const(I32, next(lengths))]))
        elif isinstance(a, bytes):
            result.append(_by_reference(b, [b.const(I8, a[0])]))
        elif isinstance(a, float):
            part, count = _PARTS[call.name[0]]
            result.append(
                _by_reference(b, [b.const(part, x) for x in (a, 0.0)[:count]])
            )
        elif a is None:
            result.append(b.null)
        else:
            result.append(_by_reference(b, [b.const(I32, a)]))
    # Fortran wants the lengths of characters after everything else.
    letters = sum(isinstance(a, bytes) for a in call.arguments)
    return [*result, *[b.const(I64, 1)] * letters]


def _by_reference(b: Builder, values: Values) -> Value:
    """The address of values: Fortran takes nothing else."""
    pointer = b.scratch(sum(v.type.size for v in values), align=8)
    for i, value in enumerate(values):
        b.store(value, b.offset(pointer, i, value.type))
    return pointer


@cache
def _lengths(name: str, arguments: Sequence[Argument]) -> tuple[int, ...]:
    """What the routine answers when it is asked for the lengths of its workspaces."""
    unused = ctypes.create_string_buffer(64)
    kinds = [a.kind for a in arguments if isinstance(a, Work)]
    asked = {
        i: ctypes.create_string_buffer(64)
        for i, a in enumerate(arguments)
        if isinstance(a, Work)
    }
    memory = [ctypes.addressof(asked.get(i, unused)) for i in range(len(arguments))]
    _call(name, arguments, memory, [-1] * len(asked))
    return tuple(_first(kind, x) for kind, x in zip(kinds, asked.values()))


def _call(
    name: str, arguments: Sequence[Argument], memory: Sequence[int], lengths: Any
) -> None:
    """Call a routine from Python, with an address for each argument in memory."""
    given: list[Any] = []
    left = iter(lengths)
    for a, address in zip(arguments, memory, strict=True):
        if isinstance(a, bytes):
            given.append(ctypes.create_string_buffer(a))
        elif isinstance(a, int):
            given.append(ctypes.c_int32(a))
        elif isinstance(a, float):
            given.append((_REALS[name[0]] * 2)(a, 0.0))
        else:
            given.append(0 if a is None else address)
            if isinstance(a, Work):
                given.append(ctypes.c_int32(next(left)))
    words = [x if isinstance(x, int) else ctypes.addressof(x) for x in given]
    letters = sum(isinstance(a, bytes) for a in arguments)
    blas.call(name, *words, *[1] * letters)


def _first(kind: str, answer: ctypes.Array[ctypes.c_char]) -> int:
    dtype = {"i": np.int32, "s": np.float32, "c": np.float32}.get(kind, np.float64)
    return max(1, int(np.frombuffer(answer.raw, dtype)[0]))
