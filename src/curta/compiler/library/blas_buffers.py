"""The memory that OpenBLAS works in, taken when it is loaded; a semaphore for calls.

For each of the calls that run at once OpenBLAS maps a buffer, when it first needs one
more, keeps it for later calls, and ends the process where the system refuses. So the
buffers are mapped at once, while an error can be raised, and the library's own `mmap`
is made to give these out; and no more calls run at once than there are buffers.
A process that may not have many gets few, and its threads wait for each other.

A fork waits until no call runs: the child has all buffers, and finds no lock taken.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Mapping, Sequence
from mmap import mmap
from typing import Any

from curta._base.once import once
from curta.compiler.host_target import host
from curta.compiler.library import blas_buffers_code as code
from curta.compiler.machine_code.link import LoadedCode
from curta.compiler.support.loader import keep_for_process, native_module, shared_state
from curta.config import config
from curta.core.buffers import ensure, mapped
from curta.errors import OutOfMemoryError

BYTES = 1 << 25  # of a buffer
_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class Buffers:
    """Native functions and state, which stay for as long as the process."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._state, start = shared_state(code.STATE_SIZE)
        self._word = (ctypes.c_uint64 * (code.STATE_SIZE // 8)).from_address(start)
        self.addresses: Mapping[str, int] = {}
        with contextlib.suppress(ImportError):  # no compiler: no code that calls
            self._bound(library, start)

    def _bound(self, library: ctypes.CDLL, start: int) -> None:
        slot = _slot(library, b"mmap") if sys.platform == "linux" else None
        if slot is None:
            self._code = native_module(
                code, depends="unlimited", exports=code.UNLIMITED
            )
        else:
            given = {code.STATE: start}
            self._code = native_module(code, given=given)
            self._memory = self._take()
            slot.value = self._code.address("map_buffer")
            self._watch_forks()
        self.addresses = {n: self._code.address(n) for n in (code.ENTER, code.LEAVE)}
        keep_for_process(self, self._state, self._code)

    @property
    def permits(self) -> int:
        """How many calls may run at once; 0 if nothing bounds them."""
        return self._word[code.MOST // 8]

    @property
    def wanted(self) -> int:
        """How many buffers OpenBLAS asked for since it was loaded."""
        return self._word[code.GIVEN // 8]

    def _take(self) -> mmap | bytearray:
        """Map as many buffers as are wanted, with no more than half of what is left.

        Raises:
            OutOfMemoryError: there is no memory for one.
        """
        count = _most_calls()
        while count > 1 and not _is_there(2 * count * BYTES):
            count //= 2
        memory = mapped(count * BYTES)
        pages = ctypes.c_char.from_buffer(memory)
        self._word[code.BASE // 8] = ctypes.addressof(pages)
        self._word[code.COUNT // 8], self._word[code.BYTES // 8] = count, BYTES
        self._word[code.MOST // 8] = count
        self._code_of("in_child")()  # resets the semaphore
        return memory

    def _code_of(self, name: str) -> Any:
        return ctypes.PYFUNCTYPE(None)(self._code.address(name))

    def _watch_forks(self) -> None:
        """Not by Python: whatever else is done before a fork may call OpenBLAS."""
        names = ("before_fork", "in_parent", "in_child")
        handlers = [ctypes.c_void_p(self._code.address(n)) for n in names]
        libc = ctypes.CDLL(None)
        if hasattr(libc, "__register_atfork"):  # what pthread_atfork calls in glibc
            libc["__register_atfork"](*handlers, None)
        else:
            libc["pthread_atfork"](*handlers)


def _is_there(size: int) -> bool:
    try:
        ensure(size)
    except OutOfMemoryError:
        return False
    return True


def _most_calls() -> int:
    affinity = hasattr(os, "sched_getaffinity")
    processors = len(os.sched_getaffinity(0)) if affinity else os.cpu_count() or 1
    threads = max(processors, config.curta_num_threads)
    # More than processors: a short call need not wait for the end of long ones.
    return min(2 * threads + 6, config.tuning.blas_buffers)


@once
def _caller(count: int, enter: int = 0, leave: int = 0) -> tuple[Any, LoadedCode]:
    loaded = native_module(
        code,
        given={code.ENTER: enter, code.LEAVE: leave},
        depends=str(count),
        exports=[code.caller(count)],
    )
    return _CALL(loaded.address("call")), loaded


def call(buffers: Buffers, routine: int, words: Sequence[int]) -> None:
    """Call a routine of so many words from Python, with a permit of its own."""
    try:
        caller, _ = _caller(len(words), *buffers.addresses.values())
    except ImportError:  # without a compiler no other thread runs native code
        plain = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * len(words))
        plain(routine)(*words)
    else:
        caller(routine, (ctypes.c_uint64 * len(words))(*words))


# ---- where a library keeps the address of a function of another one

_JUMP_SLOTS = {"x86_64": 7, "aarch64": 1026}
_STRTAB, _SYMTAB, _PLTRELSZ, _JMPREL = 5, 6, 2, 23


class _LinkMap(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("dynamic", ctypes.c_uint64),
    )


def _slot(library: ctypes.CDLL, name: bytes) -> ctypes.c_uint64 | None:
    """Where a loaded library looks up a function; None if that cannot be changed."""
    kind = _JUMP_SLOTS.get(host().machine)
    libc = ctypes.CDLL(None)
    if kind is None or not hasattr(libc, "dlinfo"):
        return None
    result = ctypes.POINTER(_LinkMap)()
    handle = ctypes.c_void_p(library._handle)
    if libc.dlinfo(handle, ctypes.c_int(2), ctypes.byref(result)):  # RTLD_DI_LINKMAP
        return None
    image = result.contents
    tags = _tags(image.dynamic)
    if any(t not in tags for t in (_STRTAB, _SYMTAB, _PLTRELSZ, _JMPREL)):
        return None
    strings, symbols, relocations = (
        tags[t] if tags[t] >= image.base else tags[t] + image.base  # as in musl
        for t in (_STRTAB, _SYMTAB, _JMPREL)
    )
    table = ctypes.string_at(relocations, tags[_PLTRELSZ])
    for offset, info, _ in struct.iter_unpack("=QQq", table):
        start = ctypes.c_uint32.from_address(symbols + 24 * (info >> 32)).value
        if info & 0xFFFFFFFF == kind and ctypes.string_at(strings + start) == name:
            return _writable(image.base + offset)
    return None


def _tags(entry: int) -> dict[int, int]:
    tags: dict[int, int] = {}
    while tag := ctypes.c_uint64.from_address(entry).value:
        tags[tag] = ctypes.c_uint64.from_address(entry + 8).value
        entry += 16
    return tags


def _writable(address: int) -> ctypes.c_uint64 | None:
    """The word at an address, if it lies in memory that may be written."""
    with open("/proc/self/maps") as file:
        for line in file:
            span, rights = line.split()[:2]
            first, last = (int(x, 16) for x in span.split("-"))
            if first <= address < last:
                return ctypes.c_uint64.from_address(address) if "w" in rights else None
    return None
