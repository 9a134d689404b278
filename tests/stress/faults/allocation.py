"""Allocations that fail: the n-th one for every n, in the allocators that there are.

    pool    `buffers.from_system`, which gives all memory of arrays and arenas
    numpy   the allocator of NumPy's arrays, for ops that NumPy evaluates
    python  Python's allocator of objects, in calls of what is compiled already

A call must raise MemoryError (such as OutOfMemoryError) or return the right result. The
next call, which has memory, must return it.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
from tests.stress.faults.programs import calls

import curta
from curta.compiler import code_generator
from curta.compiler.host_target import host
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.types import I64, PTR, Value
from curta.compiler.machine_code import link
from curta.core import buffers

try:
    import _testcapi
except ImportError:  # a Python that was built without its tests
    _testcapi = None

_FUNCTIONS = ("malloc", "calloc", "realloc", "free")
_NO_LOCK = ("can't allocate lock", "can't allocate read lock", "can't start new thread")
MOST = 3000  # allocations of a call that fail one after the other
Counts = collections.Counter[str]


class Wrong(Exception):
    """A result that is not right, or an error that is none of memory."""


class Failing:
    """Counts allocations; from the `first` on (or just that one) they fail."""

    def __init__(self) -> None:
        self.count = 0
        self.first = self.last = sys.maxsize

    def fails(self) -> bool:
        """Whether the next allocation does."""
        self.count += 1
        return self.first <= self.count - 1 <= self.last

    @contextlib.contextmanager
    def armed(self, first: int, only: bool) -> Iterator[None]:
        """Let allocations fail in the `with` body, counted from its start."""
        self.count, self.first = 0, first
        self.last = first if only else sys.maxsize
        try:
            yield
        finally:
            self.first = sys.maxsize


class FailingPool(Failing):
    """The memory that the pool asks the system for."""

    def __init__(self) -> None:
        super().__init__()
        given = buffers.from_system

        def from_system(size: int) -> Any:
            if self.fails():
                raise OSError(12, "Cannot allocate memory")
            return given(size)

        buffers.from_system = from_system


def _handler_module() -> str:
    """IR of an allocator that counts, `first` and `last` beside the count, and fails.

    NumPy gives memory back while exceptions are set, when no Python code may run.
    """
    module = Module.of(host())
    for name, sizes in (("malloc", 1), ("calloc", 2), ("realloc", 2)):
        kinds = [PTR if name == "realloc" and not i else I64 for i in range(sizes)]
        b = module.function(f"failing_{name}", [PTR, *kinds], PTR)
        state, *arguments = b.arguments
        count = b.load(I64, state)
        b.store(count + 1, state)
        first, last = (b.load(I64, b.offset(state, i, I64)) for i in (1, 2))
        fails = b.compare("le", first, count) & b.compare("le", count, last)
        null = Value("null", PTR, b)
        give = functools.partial(b.call, name, PTR, *arguments)
        b.ret(b.if_(fails, lambda null=null: [null], lambda give=give: [give()])[0])
    b = module.function("failing_free", [PTR, PTR, I64])
    b.call("free", None, b.arguments[1])
    b.ret()
    return module.text()


class _Handler(ctypes.Structure):
    """NumPy's `PyDataMem_Handler`."""

    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("context", ctypes.c_void_p),
        *((f"failing_{name}", ctypes.c_void_p) for name in _FUNCTIONS),
    )


class FailingNumPy(Failing):
    """The memory of NumPy's arrays, through a handler of its C interface."""

    _SET_HANDLER = 304  # the place of PyDataMem_SetHandler among the functions

    def __init__(self) -> None:
        self._state = (ctypes.c_int64 * 3)(0, sys.maxsize, sys.maxsize)
        names = [f"failing_{name}" for name in _FUNCTIONS]
        imports = {
            name: ctypes.cast(ctypes.pythonapi[name], ctypes.c_void_p).value or 0
            for name in _FUNCTIONS
        }
        machine_code = code_generator.compile_text(_handler_module())
        self._code = link.load(machine_code, names, imports)
        state = ctypes.addressof(self._state)
        places = map(self._code.address, names)
        self._handler = _Handler(b"failing", 1, state, *places)
        capsule = ctypes.pythonapi["PyCapsule_New"]
        capsule.restype = ctypes.py_object
        capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        place = ctypes.addressof(self._handler)
        self._capsule = capsule(place, b"mem_handler", None)
        pointer = ctypes.pythonapi["PyCapsule_GetPointer"]
        pointer.restype = ctypes.c_void_p
        pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
        api = pointer(np._core._multiarray_umath._ARRAY_API, None)
        words = ctypes.cast(api, ctypes.POINTER(ctypes.c_void_p))
        kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)
        kind(words[self._SET_HANDLER])(self._capsule)
        for owner in (self, self._code):  # arrays outlive all else
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))

    @property
    def count(self) -> int:
        """The allocations since the last `armed`."""
        return self._state[0]

    @contextlib.contextmanager
    def armed(self, first: int, only: bool) -> Iterator[None]:
        self._state[:] = [0, first, first if only else sys.maxsize]
        try:
            yield
        finally:
            self._state[1] = sys.maxsize


class FailingPython(Failing):
    """Python's objects; nothing counts them, so that `count` is a guess upwards.

    Not all fail from one on, but so many that nothing gets through: where memory never
    comes back, CPython 3.11 looks for the handler of an exception for ever, because to
    enter one it makes a number (`exception_unwind` in ceval.c).
    """

    _MANY = 2000

    @contextlib.contextmanager
    def armed(self, first: int, only: bool) -> Iterator[None]:
        self.count = 0
        _testcapi.set_nomemory(first + 1, first + (2 if only else self._MANY))
        try:
            yield
        finally:
            _testcapi.remove_mem_hooks()


_MAKERS = {"pool": FailingPool, "numpy": FailingNumPy, "python": FailingPython}
_made: dict[str, Failing] = {}


def available(allocator: str) -> bool:
    """Whether it can be made to fail here.

    CPython 3.12 and 3.13 crash in programs of nothing but functions and dicts when one
    allocation of an object fails: they forget references of functions (`func_clear`).
    """
    sound = _testcapi is not None and sys.version_info < (3, 12)
    return allocator != "python" or sound


def fail(name: str, allocator: str, only: bool, cold: bool, step: int = 1) -> Counts:
    """Run a program with each `step`-th allocation failing, or all from there on.

    Where it is `cold` each call traces and compiles the program; else it is ready.

    Raises:
        Wrong: a result was not right, or an error none of memory.
    """
    if allocator not in _made:
        _made[allocator] = _MAKERS[allocator]()
    failing, make = _made[allocator], calls()[name]
    sys.unraisablehook = lambda _: None  # what objects say that die for want of memory
    call = make()
    for _ in range(4):
        expected = _values(call())
    counts: Counts = collections.Counter()
    fair = 0  # calls in a row that nothing disturbed
    for n in range(0, MOST * step, step):
        buffers.trim()
        call = make() if cold else call
        got: Any = None
        with failing.armed(n, only):
            try:
                got = curta.block_until_ready(call())
                outcome = "right"
            except MemoryError:
                outcome = "errors"
            except Exception as error:
                got, outcome = error, _outcome(error)
        if outcome == "strange":
            raise Wrong(f"{name}, {allocator} allocation {n}: {got!r}") from got
        if outcome == "right" and not _same(_values(got), expected):
            raise Wrong(f"{name}, {allocator} allocation {n}: another result")
        got = None
        if not _same(_values(call()), expected):
            raise Wrong(f"{name}, after {allocator} allocation {n}: another result")
        counts[outcome] += 1
        fair = fair + 1 if outcome == "right" else 0
        done = failing.count <= n if allocator != "python" else fair > 30
        if done:
            return counts
    counts["not all"] += 1
    return counts


def _outcome(error: Exception) -> str:
    """Whether an error that is no MemoryError is one of memory."""
    # SystemErrors are of NumPy's `array.ctypes`, for example. CPython has RuntimeErrors
    # where it is a lock of a thread or of a file that memory is wanting for, and
    # looking up an attribute of a class forgets a MemoryError: the attribute is there.
    of_lock = isinstance(error, RuntimeError) and str(error).startswith(_NO_LOCK)
    forgot = isinstance(error, AttributeError) and hasattr(error.obj, error.name)
    # NumPy asks next for another way to see an object as an array.
    of_numpy = "Could not convert object to sequence" in str(error)
    if of_lock or forgot or of_numpy or isinstance(error, SystemError):
        return "errors that do not say that they are of memory"
    # A function of the user that fails is one of a program that does.
    return "errors" if "MemoryError" in str(error) else "strange"


def _values(tree: Any) -> list[Any]:
    return [np.array(x) for x in curta.tree.leaves(tree)]


def _same(xs: list[Any], ys: list[Any]) -> bool:
    return all(x.tobytes() == y.tobytes() for x, y in zip(xs, ys, strict=True))
