"""The convention of calls of native programs, and how Python makes them.

A program is `i64 f(ptr table)`. The words of its table are the addresses of results and
arguments, then the constants, two of which come with each call: the address of an
arena, the memory of temporaries, and that of a cancellation token.

    call(program, addresses)        # now, on arrays at these addresses
    table(program, addresses, ...)  # for a call by somebody else: the queue
    head(program)                   # for calls by native code (support/invoke_code.py)
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta.compiler.machine_code import host_call
from curta.compiler.machine_code.native import NativeProgram
from curta.compiler.support import cancellation, invoke_code
from curta.core.buffers import workspace
from curta.errors import OutOfMemoryError

Table = ctypes.Array[ctypes.c_uint64]
_WORD = struct.Struct("=Q")


def table(
    program: NativeProgram,
    addresses: Sequence[int],
    arena: int = 0,
    token: int = 0,
    alone: bool = False,
) -> Table:
    """The words that a program is called with; `alone` for a call without threads."""
    first = len(addresses)
    constants = program.constants if alone else program.with_threads
    words = (ctypes.c_uint64 * max(first + len(constants), 1))(*addresses, *constants)
    if program.arena_bytes:
        words[first + program.arena_word] = arena
    if program.cancellable:
        words[first + program.token_word] = token
    return words


def complete(program: NativeProgram, table: bytearray, arena: int, token: int) -> None:
    """Store the addresses that come with each call in a table."""
    first = len(program.signature)
    if program.arena_bytes:
        _WORD.pack_into(table, 8 * (first + program.arena_word), arena)
    if program.cancellable:
        _WORD.pack_into(table, 8 * (first + program.token_word), token)


def call(program: NativeProgram, addresses: Sequence[int], alone: bool = False) -> None:
    """Run a program on arrays at these addresses; `alone` without threads.

    Raises:
        OutOfMemoryError: there is no memory for its arena.
        BaseException: what the handler of a signal raised, or Python that it calls.
    """
    arena = workspace(program.arena_bytes) if program.arena_bytes else None
    address = 0 if arena is None else arena.ctypes.data
    words = table(program, addresses, address, alone=alone)
    function = _function(program, len(addresses))
    if program.runs_python:
        host_call.call(function, words)
    else:
        function(ctypes.addressof(words))


def _function(program: NativeProgram, arrays: int) -> Callable[[int], int]:
    if program.cancellable:
        word = arrays + program.token_word
        return lambda words: cancellation.call(program.address, words, word)
    waits = program.long or program.runs_python
    kind = ctypes.CFUNCTYPE if waits else ctypes.PYFUNCTYPE
    return kind(ctypes.c_int64, ctypes.c_void_p)(program.address)


def fits(program: NativeProgram, arrays: Sequence[Any]) -> bool:
    """Whether arrays are as a program expects them: what native entries check."""
    if len(arrays) != len(program.signature):
        return False
    for i, (array, (dtype, shape)) in enumerate(
        zip(arrays, program.signature, strict=True)
    ):
        if type(array) is not np.ndarray or array.dtype is not np.dtype(dtype):
            return False
        flags = array.flags
        if array.shape != tuple(shape) or not (flags.c_contiguous and flags.aligned):
            return False
        if i < program.results and not flags.writeable:
            return False
    return True


def head(program: NativeProgram) -> list[int]:
    """The words from which native code calls a program, its constants included."""
    mode = invoke_code.CALL_WITHOUT_GIL if program.long else invoke_code.CALL
    if program.cancellable:
        mode = invoke_code.CALL_CANCELLABLE
    return [
        program.address, len(program.signature), program.results, mode,
        len(program.constants), program.arena_bytes, program.arena_word,
        program.token_word, *program.with_threads,
    ]  # fmt: skip


def packed(program: NativeProgram, words: Sequence[int]) -> bytes:
    """Words as native code reads them.

    Raises:
        OutOfMemoryError: a size is beyond all memory.
    """
    try:
        return struct.pack(f"={len(words)}Q", *words)
    except struct.error:
        size, dtype, shape = max(
            (np.dtype(d).itemsize * math.prod(s), str(d), s)
            for d, s in program.signature
        )
        if size < program.arena_bytes:
            raise OutOfMemoryError(program.arena_bytes) from None
        raise OutOfMemoryError(size, shape, dtype) from None
