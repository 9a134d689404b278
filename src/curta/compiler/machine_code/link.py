"""From an object file to addresses: our own loader, or LLVM's where ours does not do.

    code = load(compile_text(ir), ["kernel"], {"parallel_for": address})
    code.address("kernel")

Code lives as long as the object that `load` gives; who keeps an address keeps
that object too.
"""

from __future__ import annotations

import ctypes
import itertools
import platform
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from curta._base.once import once
from curta.compiler import llvm_binding as binding
from curta.compiler.machine_code.elf import Image
from curta.compiler.machine_code.relocations import PROCESSORS, UnsupportedObject

# What LLVM's code generator may call without being asked, and what vector math calls
# for rare arguments.
RUNTIME_NAMES = frozenset(
    "memcpy memset memmove fma fmaf fmod fmodf floor floorf ceil ceilf trunc truncf "
    "roundeven roundevenf ldexp ldexpf sqrt sqrtf sin sinf cos cosf tan tanf".split()
)
# Functions of Python's C API and of the C library that our native modules call.
SYSTEM_NAMES = frozenset(
    "PyBool_FromLong PyByteArray_FromStringAndSize PyBytes_AsString "
    "PyDict_GetItemWithError PyDict_Size PyErr_CheckSignals PyErr_Clear PyErr_Fetch "
    "PyErr_NoMemory PyErr_Occurred PyErr_Restore PyEval_RestoreThread "
    "PyEval_SaveThread PyFloat_AsDouble PyGILState_Ensure PyGILState_Release "
    "PyList_GetItem PyList_SetItem PyList_Size PyLong_AsLongLong "
    "PyLong_AsUnsignedLongLong PyLong_AsVoidPtr PyLong_FromVoidPtr PyMem_RawFree "
    "PyMem_RawMalloc PyObject_CallFunction PyObject_CallNoArgs PyObject_CallOneArg "
    "PyObject_GetAttr PyObject_IsTrue PyObject_RichCompareBool PyObject_Vectorcall "
    "PySet_Discard PySet_Size PyTuple_GetItem PyTuple_New PyTuple_Size Py_DecRef "
    "Py_IncRef clock_gettime mmap pthread_create pthread_detach pthread_getspecific "
    "pthread_self pthread_setspecific sched_getcpu sched_yield sem_init sem_post "
    "sem_wait syscall".split()
)
_LIBRARY_NAMES = RUNTIME_NAMES | SYSTEM_NAMES
_counter = itertools.count()


class LoadedCode(Protocol):
    """Code in memory; freed with the last reference to this object."""

    def address(self, name: str) -> int:
        """Where a function of the module begins; KeyError if there is none."""


def load(
    object_file: bytes, exports: Sequence[str], imports: Mapping[str, int] | None = None
) -> LoadedCode:
    """Load an object file; `imports` are the addresses of functions it calls.

    Raises:
        ValueError: it is no object file.
        LookupError: it calls a function that is not imported.
        OSError: the system does not let memory be made executable.
    """
    known = _Imports(imports or {})
    processor = PROCESSORS.get(platform.machine()) if sys.platform == "linux" else None
    if processor is not None:
        try:
            return Image(object_file, known, processor)
        except UnsupportedObject as reason:
            if not binding.available():
                raise ValueError(f"cannot load this object file: {reason}") from reason
    return _LLVMImage(object_file, exports, known)


class _Imports(Mapping[str, int]):
    """The given addresses, and those of the functions that any code may call."""

    def __init__(self, given: Mapping[str, int]) -> None:
        self._given = given

    def __getitem__(self, name: str) -> int:
        if name in self._given:
            return self._given[name]
        if name not in _LIBRARY_NAMES or not _is_there(name):
            raise LookupError(f"native code calls {name!r}, which was not imported")
        function = getattr(_library_of(name), name)
        return ctypes.cast(function, ctypes.c_void_p).value or 0

    def __iter__(self) -> Any:
        present = filter(_is_there, _LIBRARY_NAMES)
        return itertools.chain(self._given, present)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _library_of(name: str) -> ctypes.CDLL:
    return ctypes.pythonapi if name.startswith("Py") else _c_library()


def _is_there(name: str) -> bool:
    return hasattr(_library_of(name), name)


@once
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL("ucrtbase.dll" if sys.platform == "win32" else None)


class _LLVMImage:
    """Code loaded by LLVM's own linker, for other systems and unusual objects."""

    def __init__(
        self, data: bytes, exports: Iterable[str], imports: Mapping[str, int]
    ) -> None:
        if data[:4] not in (b"\x7fELF", b"\xcf\xfa\xed\xfe") and data[:1] != b"\x64":
            raise ValueError("not an object file")
        llvm = binding.llvmlite()
        library = llvm.JITLibraryBuilder().add_object_img(data)
        for name in exports:
            library.export_symbol(name)
        for name in imports:
            library.import_symbol(name, imports[name])
        self._code = library.link(_linker(), f"curta{next(_counter)}")

    def address(self, name: str) -> int:
        return int(self._code[name])


@once
def _linker() -> Any:
    llvm = binding.llvmlite()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return llvm.create_lljit_compiler(target.create_target_machine(jit=True))
