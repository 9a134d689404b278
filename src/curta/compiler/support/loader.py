"""The one loader of native modules: what a `*_code` module writes, in memory.

    code = native_module(queue_code.queue_module, queue_code)
    code.address("submit")

Such a module names its functions in EXPORTS, and what they call in CALLS: functions of
Python's C interface, which begin with Py, and of the C library.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from curta.compiler import cache
from curta.compiler.link import LoadedCode, c_function, load, python_function
from curta.compiler.llvm import target
from curta.compiler.llvm.builder import Module


def native_module(
    write: Callable[[Module], str],
    *sources: ModuleType,
    given: Mapping[str, int] = {},
    depends: str = "",
    exports: Sequence[str] | None = None,
) -> LoadedCode:
    """The code that `write` writes as IR: from the kernel cache, or compiled.

    Args:
        write: adds the functions to a module, and gives its text.
        sources: the modules that the IR comes from, the first of which names what it
            exports and calls.
        given: addresses of further names, objects of Python say.
        depends: what else the IR depends on.
        exports: its functions where they are others than usual; such code calls nothing
            but what is given.

    Raises:
        ImportError: it is not in the cache and llvmlite is not installed.
        AttributeError: this Python, or this system, does not have what it calls.
    """
    names = [source.__name__ for source in sources]
    data = cache.fixed_object_file(
        lambda: write(target.host().module()), target.QUICK, names, depends
    )
    if exports is not None:
        return load(data, exports, given)
    return load(data, sources[0].EXPORTS, {**called_functions(sources[0]), **given})


def called_functions(code: ModuleType) -> dict[str, int]:
    """The addresses of the functions that a module's code calls."""
    find = {True: python_function, False: c_function}
    return {name: find[name.startswith("Py")](name) for name in code.CALLS}


def keep_for_process(*owners: Any) -> None:
    """Keep objects until the very end of the process, where threads may run code."""
    for owner in owners:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


def shared_state(size: int) -> tuple[Any, int]:
    """Memory that native threads share, zeros, with the address of its cache lines."""
    memory = ctypes.create_string_buffer(size + 64)
    return memory, -(-ctypes.addressof(memory) // 64) * 64
