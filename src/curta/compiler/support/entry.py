"""Native programs as Python callables that take arrays.

    entry = native_entry(program)
    entry(result, x, y)  # True, or False when the arrays are not as promised

A call is checked in native code (each argument an ndarray of the right dtype and shape,
contiguous, aligned, results writeable) and does nothing when the check fails, so no
call can touch memory that it should not. Where there is no memory for the arena it
raises OutOfMemoryError.

The fast kind is a built-in function made of a little native code that reads the
fields of array objects. Whether they lie where NumPy's C interface has them is
verified first; where they do not, or there is no such thing as CPython's C interface,
an entry is a Python function that does the same (compiler/machine_code/calls.py).
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from curta._base.once import once
from curta.compiler.machine_code import calls
from curta.compiler.machine_code.link import LoadedCode
from curta.compiler.machine_code.native import NativeProgram
from curta.compiler.support import cancellation, entry_code, invoke_code, objects
from curta.compiler.support.arenas import native_arenas
from curta.compiler.support.loader import keep_for_process, native_module

Entry = Callable[..., bool]

_METH_FASTCALL, _METH_KEYWORDS = 0x80, 0x2


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def native_entry(program: NativeProgram) -> Entry:
    """Make a callable of a native program, which it keeps in memory.

    Other Python threads run meanwhile if it is `long`. An exception of a signal handler
    ends a `cancellable` one, and is raised here.
    """
    makers = _builtin_makers()
    return plain_entry(program) if makers is None else makers[0](_record(program))


def table_entry(program: NativeProgram) -> Callable[..., bytearray]:
    """The function that fills the table for a call; arena and token are 0.

    It takes results and arguments, as an entry does, and checks them; the table is
    empty where they are not as promised.
    """
    makers = _builtin_makers()
    if makers is not None:
        return makers[1](_record(program))

    def table(*arrays: np.ndarray[Any, Any]) -> bytearray:
        if not calls.fits(program, arrays):
            return bytearray()
        return bytearray(calls.table(program, [a.ctypes.data for a in arrays]))

    return table


def _record(program: NativeProgram) -> tuple[Any, ...]:
    """What native code reads of a program, with the objects whose addresses it has."""
    words = calls.head(program)
    for dtype, shape in program.signature:
        words += [id(np.dtype(dtype)), len(shape), *shape]
    return calls.packed(program, words), program, program.code


def plain_entry(program: NativeProgram, alone: bool = False) -> Entry:
    """The same in Python: slower to call, and made in no time.

    `alone` is for calls without threads.
    """

    def entry(*arrays: np.ndarray[Any, Any]) -> bool:
        if not calls.fits(program, arrays):
            return False
        calls.call(program, [a.ctypes.data for a in arrays], alone)
        return True

    return entry


@once
def _builtin_makers() -> tuple[Callable[[tuple[Any, ...]], Any], ...] | None:
    """What make built-in functions of a program's record, if that is possible."""
    if not arrays_are_known():
        return None
    try:
        name = invoke_code.CANCELLATION
        given = {name: cancellation.addresses()[name], **native_arenas()}
        given[entry_code.ARRAY_TYPE] = id(np.ndarray)
        code = native_module(entry_code, invoke_code, given=given)
    except (ImportError, LookupError, OSError, ValueError):
        return None
    return tuple(
        builtin_function(f.name.encode(), code, code.address(f.name))
        for f in entry_code.EXPORTS
    )


@once
def arrays_are_known() -> bool:
    """Whether array objects are laid out as the native code reads them."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8:
        return False
    try:
        return all(map(_layout_is_known, _samples()))
    except (AttributeError, ValueError):
        return False


def builtin_function(
    name: bytes, code: LoadedCode, address: int, keywords: bool = False
) -> Callable[[Any], Callable[..., Any]]:
    """A maker of built-in functions (METH_FASTCALL) from native code, given `self`.

    Those that take `keywords` are given their names last, a tuple or null.
    """
    kind = _METH_FASTCALL | (_METH_KEYWORDS if keywords else 0)
    method = _MethodDef(name, address, kind, None)
    keep_for_process(method, code)  # the functions may outlive this module
    new = ctypes.pythonapi["PyCFunction_NewEx"]
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    definition = ctypes.addressof(method)
    return lambda owner: new(definition, owner, None)


def _samples() -> list[np.ndarray[Any, Any]]:
    read_only = np.zeros((2, 3), np.int16)
    read_only.flags.writeable = False
    strided = np.zeros((4, 6, 2), np.float64)[::2, ::3]
    return [np.zeros((), np.float32), np.zeros(5, np.bool_), read_only, strided]


def _layout_is_known(array: np.ndarray[Any, Any]) -> bool:
    """Whether the fields of an array object lie where the native code reads them."""
    if np.ndarray.__basicsize__ < entry_code.FLAGS + 4:
        return False

    def word(address: int) -> int:
        return ctypes.c_uint64.from_address(address).value

    start = id(array)
    dimensions = word(start + entry_code.DIMENSIONS)
    flags = word(start + entry_code.FLAGS) & 0xFFFFFFFF
    rank = word(start + entry_code.RANK) & 0xFFFFFFFF
    return (
        word(start + objects.CLASS) == id(np.ndarray)
        and word(start + entry_code.DATA) == array.ctypes.data
        and rank == array.ndim
        and all(word(dimensions + 8 * i) == n for i, n in enumerate(array.shape))
        and word(start + entry_code.DTYPE) == id(array.dtype)
        and word(start + entry_code.BASE) == (array.base is not None and id(array.base))
        and flags & 0x701 == array.flags.num & 0x701
    )
