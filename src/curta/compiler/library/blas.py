"""BLAS and LAPACK: OpenBLAS from the scipy-openblas32 wheel, loaded when first needed.

The wheel's copy is Curta's own; the one that NumPy brought is left alone. OpenBLAS
takes processors that it does not know for older ones and then runs at half their
speed, so its kernels are chosen here by what the processor can do. OPENBLAS_CORETYPE
is often set for other copies and does not count here; CURTA_OPENBLAS_CORETYPE does.
It runs single-threaded: work is cut into pieces by shape and the pieces run on
Curta's pool, so that results do not depend on the number of threads.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
from collections.abc import Iterable, Iterator

from curta._base.once import once
from curta.compiler.host_target import host
from curta.compiler.library import blas_buffers
from curta.core.buffers import ensure

_PREFIX = "scipy_"
# Needed for loading: OpenBLAS exits the process where they are missing.
_BYTES = 1 << 26


def available() -> bool:
    """Whether the library is installed and can be loaded."""
    return _library() is not None


@once
def address(name: str) -> int:
    """The address of a Fortran routine of BLAS or LAPACK: `sgemm`, `dgetrf`, ...

    Raises:
        ImportError: scipy-openblas32 is not installed.
        AttributeError: there is no such routine.
    """
    routine = _needed().library[f"{_PREFIX}{name}_"]
    address = ctypes.cast(routine, ctypes.c_void_p).value
    assert address is not None
    return address


def addresses(names: Iterable[str]) -> dict[str, int]:
    """The addresses of several routines, by name.

    With those of `enter_blas` and `leave_blas`, which code calls before and after.
    """
    result = {name: address(name) for name in names}
    return {**result, **_needed().buffers.addresses} if result else {}


def call(name: str, *words: int) -> None:
    """Call a routine with addresses and lengths of characters.

    Raises:
        ImportError: scipy-openblas32 is not installed.
        AttributeError: there is no such routine.
    """
    blas_buffers.call(_needed().buffers, address(name), words)


def buffers() -> blas_buffers.Buffers:
    """What bounds the calls that run at once.

    Raises:
        ImportError: scipy-openblas32 is not installed.
    """
    return _needed().buffers


def _needed() -> _BlasLibrary:
    result = _library()
    if result is None:
        raise ImportError("linear algebra needs OpenBLAS: pip install scipy-openblas32")
    return result


def core_type() -> str:
    """The processor that OpenBLAS chose its kernels for."""
    result = _library()
    if result is None:
        return ""
    name = result.library[f"{_PREFIX}openblas_get_corename"]
    name.restype = ctypes.c_char_p
    return str(name().decode())


@once
def location() -> str | None:
    """The folder of the library, if it is installed."""
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is None or spec.origin is None:
        return None
    return os.path.join(os.path.dirname(spec.origin), "lib")


class _BlasLibrary:
    """The library, and the memory that it works in."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library
        self.buffers = blas_buffers.Buffers(library)


@once
def _library() -> _BlasLibrary | None:
    folder = location()
    if folder is None:
        return None
    names = ("libscipy_openblas.so", "libscipy_openblas.dylib", "libscipy_openblas.dll")
    paths = (os.path.join(folder, name) for name in names)
    path = next(filter(os.path.exists, paths), None)
    if path is None:
        return None
    # OpenBLAS reads these once, while it is loaded.
    wanted = {"OPENBLAS_NUM_THREADS": "1"}
    core = os.environ.get("CURTA_OPENBLAS_CORETYPE") or _best_core()
    if core:
        wanted["OPENBLAS_CORETYPE"] = core
    ensure(_BYTES)
    with _environment(wanted):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            return None
    return _BlasLibrary(library)


def _best_core() -> str | None:
    machine = host()
    if machine.machine != "x86_64":
        return None
    if machine.vector_bytes == 64:
        return "SkylakeX"
    return "Haswell" if machine.vector_bytes == 32 and machine.has_fma else None


@contextlib.contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
