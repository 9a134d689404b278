"""Native functions as Python callables that take arrays.

    entry = native_entry(code, address, signature, results=1)
    entry(result, x, y)  # True, or False when the arrays are not as promised

The native function is `void f(ptr table)`: the table holds the data addresses of the
arrays in order, then the constants, of which one may be the address of an arena: the
memory of temporaries, which the call provides. A call is checked in native code (each
argument an ndarray of the right dtype and shape, contiguous, aligned, results
writeable) and does nothing when the check fails, so no call can touch memory that it
should not. Where there is no memory for the arena it raises OutOfMemoryError.

The fast kind is a built-in function made of a little native code that reads the
fields of array objects. Whether they lie where NumPy's C interface has them is
verified first; where they do not, or there is no such thing as CPython's C interface,
an entry is a Python object that does the same through ctypes.
"""

from __future__ import annotations

import ctypes
import math
import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta.compiler import cache as kernel_cache, cancellation
from curta.compiler.link import LoadedCode, load, python_function
from curta.compiler.llvm import target
from curta.core.buffers import workspace
from curta.errors import OutOfMemoryError
from curta.once import once
from curta.runtime import entry_code
from curta.runtime.arenas import native_arenas

Signature = tuple[np.dtype[Any], tuple[int, ...]]
Entry = Callable[..., bool]
Arena = tuple[int, int]
NO_ARENA: Arena = 0, 0

_METH_FASTCALL = 0x80


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def native_entry(
    code: LoadedCode,
    address: int,
    signature: Sequence[Signature],
    results: int,
    constants: Sequence[int] = (),
    release_gil: bool = False,
    arena: Arena = NO_ARENA,
    token: int | None = None,
) -> Entry:
    """Make a callable of the native function `void f(ptr table)` at an address.

    Args:
        code: what keeps the function in memory; the entry keeps it.
        signature: dtype and shape of each array, results first.
        results: how many of the arrays the function writes to.
        constants: further words of the table, after the arrays.
        release_gil: let other Python threads run meanwhile; for long work.
        arena: the place of its address among the constants, and its bytes.
        token: the place of a cancellation token's, for functions that poll one; they
            are ended by what handlers of signals raise, which is raised here.
    """
    mode = _mode(release_gil, token)
    return _entry(code, address, signature, results, constants, mode, arena, token)


def plain_entry(
    code: LoadedCode,
    address: int,
    signature: Sequence[Signature],
    results: int,
    constants: Sequence[int] = (),
    release_gil: bool = False,
    arena: Arena = NO_ARENA,
    token: int | None = None,
) -> Entry:
    """The same through ctypes: slower to call, and made in no time."""
    mode = _mode(release_gil, token)
    arguments = code, address, signature, results, constants, mode, arena, token
    return _CtypesEntry(*arguments)


def _mode(release_gil: bool, token: int | None) -> int:
    if token is not None:
        return entry_code.CALL_CANCELLABLE
    return entry_code.CALL_WITHOUT_GIL if release_gil else entry_code.CALL


def table_entry(
    code: LoadedCode,
    signature: Sequence[Signature],
    results: int,
    constants: Sequence[int] = (),
) -> Callable[..., bytes | bool]:
    """A callable that gives the table for such a function, and calls nothing.

    It gives False where arrays are not as promised. The arguments are those of
    `native_entry`; who uses the table provides the arena.
    """
    return _entry(code, 0, signature, results, constants, entry_code.TABLE, NO_ARENA)


def _entry(
    code: LoadedCode,
    address: int,
    signature: Sequence[Signature],
    results: int,
    constants: Sequence[int],
    mode: int,
    arena: Arena,
    token: int | None = None,
) -> Callable[..., Any]:
    make = _builtin_maker()
    if make is None:
        arguments = code, address, signature, results, constants, mode, arena, token
        return _CtypesEntry(*arguments)
    signature = [(np.dtype(d), tuple(shape)) for d, shape in signature]
    place, size = arena
    words = [address, len(signature), results, mode, len(constants), size, place]
    words.append(token or 0)
    words += constants
    for dtype, shape in signature:
        words += [id(dtype), len(shape), *shape]
    try:
        record = struct.pack(f"={len(words)}Q", *words)
    except struct.error:
        sizes = [dtype.itemsize * math.prod(shape) for dtype, shape in signature]
        raise OutOfMemoryError(max(*sizes, size)) from None
    # The signature is kept because the record holds the addresses of its dtypes.
    return make((record, code, signature))


class _CtypesEntry:
    """The same in Python: what works everywhere."""

    def __init__(
        self,
        code: LoadedCode,
        address: int,
        signature: Sequence[Signature],
        results: int,
        constants: Sequence[int],
        mode: int,
        arena: Arena,
        token: int | None,
    ) -> None:
        holding = mode == entry_code.CALL
        kind = ctypes.PYFUNCTYPE if holding else ctypes.CFUNCTYPE
        self._function: Callable[[int], Any] = kind(None, ctypes.c_void_p)(address)
        if token is not None:
            place = len(signature) + token
            self._function = lambda table: cancellation.call(address, table, place)
        self._gives_table = mode == entry_code.TABLE
        self._code = code
        self._signature = [(np.dtype(d), tuple(shape)) for d, shape in signature]
        self._results = results
        self._constants = constants
        self._size = len(signature) + len(constants)
        self._arena_place, self._arena_bytes = len(signature) + arena[0], arena[1]

    def __call__(self, *arrays: np.ndarray[Any, Any]) -> bytes | bool:
        if len(arrays) != len(self._signature):
            return False
        for i, (array, (dtype, shape)) in enumerate(
            zip(arrays, self._signature, strict=True)
        ):
            if type(array) is not np.ndarray or array.dtype is not dtype:
                return False
            flags = array.flags
            usable = flags.c_contiguous and flags.aligned
            if array.shape != shape or not usable:
                return False
            if i < self._results and not flags.writeable:
                return False
        words = [a.ctypes.data for a in arrays]
        table = (ctypes.c_uint64 * max(self._size, 1))(*words, *self._constants)
        if self._gives_table:
            return bytes(table)
        if self._arena_bytes:
            arena = workspace(self._arena_bytes)
            table[self._arena_place] = arena.ctypes.data
        self._function(ctypes.addressof(table))
        return True


@once
def _builtin_maker() -> Callable[[tuple[Any, ...]], Entry] | None:
    """What makes a built-in function of an entry's record, if that is possible."""
    header = known_header()
    if header is None:
        return None
    try:
        compiled = kernel_cache.fixed_object_file(
            lambda: entry_code.entry_module(target.host().module(), header),
            target.QUICK,
            [entry_code.__name__],
            str(header),
        )
        imports = {n: python_function(n) for n in entry_code.FUNCTIONS}
        imports[entry_code.ARRAY_TYPE] = id(np.ndarray)
        imports |= native_arenas()
        name = entry_code.CANCELLATION
        imports[name] = cancellation.addresses()[name]
        code = load(compiled, ["call_entry"], imports)
    except (ImportError, AttributeError, OSError, ValueError):
        return None
    return builtin_function(b"entry", code, code.address("call_entry"))


@once
def known_header() -> int | None:
    """The bytes of an object's header, if array objects are laid out as expected."""
    if sys.implementation.name != "cpython" or struct.calcsize("P") != 8:
        return None
    header = object.__basicsize__
    try:
        known = all(_layout_is_known(a, header) for a in _samples())
    except (AttributeError, ValueError):
        return None
    return header if known else None


def builtin_function(
    name: bytes, code: LoadedCode, address: int
) -> Callable[[Any], Callable[..., Any]]:
    """What makes built-in functions (METH_FASTCALL) of native code, given `self`."""
    method = _MethodDef(name, address, _METH_FASTCALL, None)
    for owner in (method, code):  # the functions may outlive this module
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))
    new = ctypes.pythonapi["PyCFunction_NewEx"]
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    place = ctypes.addressof(method)
    return lambda owner: new(place, owner, None)


def _samples() -> list[np.ndarray[Any, Any]]:
    read_only = np.zeros((2, 3), np.int16)
    read_only.flags.writeable = False
    strided = np.zeros((4, 6, 2), np.float64)[::2, ::3]
    return [np.zeros((), np.float32), np.zeros(5, np.bool_), read_only, strided]


def _layout_is_known(array: np.ndarray[Any, Any], header: int) -> bool:
    """Whether the fields of an array object lie where the native code reads them."""
    if np.ndarray.__basicsize__ < header + entry_code.FLAGS + 4:
        return False

    def word(place: int) -> int:
        return ctypes.c_uint64.from_address(place).value

    start = id(array) + header
    dimensions = word(start + entry_code.DIMENSIONS)
    flags = word(start + entry_code.FLAGS) & 0xFFFFFFFF
    rank = word(start + entry_code.RANK) & 0xFFFFFFFF
    return (
        word(id(array) + header - 8) == id(np.ndarray)
        and word(start + entry_code.DATA) == array.ctypes.data
        and rank == array.ndim
        and all(word(dimensions + 8 * i) == n for i, n in enumerate(array.shape))
        and word(start + entry_code.DTYPE) == id(array.dtype)
        and flags & 0x701 == array.flags.num & 0x701
    )
