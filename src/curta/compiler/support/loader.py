"""The one loader of native modules: what a `*_code` module writes, in memory.

    code = native_module(queue_code.queue_module, queue_code)
    code.address("submit")

Such a module names its functions in EXPORTS.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from curta.compiler import cache
from curta.compiler.link import LoadedCode, load
from curta.compiler.llvm import target
from curta.compiler.llvm.builder import Module


def native_module(
    write: Callable[[Module], None],
    *sources: ModuleType,
    given: Mapping[str, int] = {},
    depends: str = "",
    exports: Sequence[str] | None = None,
) -> LoadedCode:
    """The code that `write` writes as IR: from the kernel cache, or compiled.

    Args:
        write: adds the functions to a module.
        sources: the modules that the IR comes from, the first of which names what it
            exports.
        given: addresses of further names, objects of Python say.
        depends: what else the IR depends on.
        exports: its functions where they are others than usual.

    Raises:
        ImportError: it is not in the cache and llvmlite is not installed.
        LookupError: this Python, or this system, does not have what it calls.
    """

    def text() -> str:
        module = target.host().module()
        write(module)
        return module.text()

    names = [source.__name__ for source in sources]
    data = cache.fixed_object_file(text, target.QUICK, names, depends)
    return load(data, exports or sources[0].EXPORTS, given)


def keep_for_process(*owners: Any) -> None:
    """Keep objects until the very end of the process, where threads may run code."""
    for owner in owners:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


def shared_state(size: int) -> tuple[Any, int]:
    """Memory that native threads share, zeros, with the address of its cache lines."""
    memory = ctypes.create_string_buffer(size + 64)
    return memory, -(-ctypes.addressof(memory) // 64) * 64
