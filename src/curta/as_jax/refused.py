"""Modules of JAX that Curta has not, for libraries that import them in any case.

Their kernels for accelerators are called on accelerators alone, but imported at the top
of files that have more in them. Whatever such a module is asked for is a class that
refuses to be called.

>>> pallas = refused_module("jax.experimental.pallas", "It is not there.")
>>> pallas.ops.gmm(1)
Traceback (most recent call last):
...
NotImplementedError: jax.experimental.pallas.ops.gmm: It is not there.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NoReturn


class _Refused(type):
    """The type of what is refused; a class, as annotations and subclasses need."""

    reason: str

    def __getattr__(cls, name: str) -> Any:
        if name[:2] == "__":  # what Python asks for, which tells what a class can do
            raise AttributeError(name)
        return _refused(f"{cls.__module__}.{cls.__qualname__}", name, cls.reason)

    def __call__(cls, *args: Any, **options: Any) -> NoReturn:
        name = f"{cls.__module__}.{cls.__qualname__}"
        raise NotImplementedError(f"{name}: {cls.reason}")


def _refused(module: str, name: str, reason: str) -> _Refused:
    return _Refused(name, (), {"__module__": module, "reason": reason})


def refused_module(name: str, reason: str) -> ModuleType:
    """A module that can be imported; a call of what is in it tells the reason."""

    def getattr_(attribute: str) -> _Refused:
        if attribute[:2] == "__":
            raise AttributeError(attribute)
        return _refused(name, attribute, reason)

    module = ModuleType(name)
    module.__path__ = []
    vars(module)["__getattr__"] = getattr_
    return module
