"""The one loader of native modules: the functions of a `*_code` module, in memory.

    code = native_module(queue_code)
    code.address("submit")

Such a module has the functions that others call in EXPORTS.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from curta.compiler import code_generator
from curta.compiler.host_target import host
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.functions import Function
from curta.compiler.machine_code import cache
from curta.compiler.machine_code.link import LoadedCode, load
from curta.compiler.support import objects
from curta.compiler.targets import Target


def native_module(
    *sources: ModuleType,
    given: Mapping[str, int] = {},
    depends: str = "",
    layout: Any = None,
    exports: Sequence[Function] = (),
) -> LoadedCode:
    """Functions of native code: from the kernel cache, or compiled.

    Args:
        sources: the modules that the functions come from, which the first one exports.
        given: addresses of further names, objects of Python say.
        depends: what else they depend on.
        layout: where fields of objects lie, as the functions need to know.
        exports: the functions, where they are others than usual.

    Raises:
        ImportError: they are not in the cache and llvmlite is not installed.
        LookupError: this Python, or this system, does not have what they call.
    """
    exports = exports or sources[0].EXPORTS
    names = [s.__name__ for s in (objects, *sources)]
    parts = depends, repr(layout), f"{objects.CLASS} {objects.ITEMS}"

    def text() -> str:
        return native_text(exports, host(), layout)

    data = cache.fixed_object_file(text, code_generator.QUICK, names, *parts)
    return load(data, [f.name for f in exports], given)


def native_text(exports: Sequence[Function], target: Target, layout: Any = None) -> str:
    """The IR of functions."""
    module = Module.of(target)
    module.layout = layout
    for f in exports:
        f.export(module)
    return module.text()


def keep_for_process(*owners: Any) -> None:
    """Keep objects until the very end of the process, where threads may run code."""
    for owner in owners:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))


def shared_state(size: int) -> tuple[Any, int]:
    """Memory that native threads share, zeros, with the address of its cache lines."""
    memory = ctypes.create_string_buffer(size + 64)
    return memory, -(-ctypes.addressof(memory) // 64) * 64
