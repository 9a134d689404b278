"""The name of a program in the kernel cache: all that its compiled code depends on.

    name = program_name(closed, (optimise, in_place))  # None: not to be kept

That is the jaxpr with its literals and consts, the settings, the versions and the
source of Curta. What this module does not know for certain how to write down (a
function among the parameters of an op, say) makes a program that has no name.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from curta.compiler.cache import key
from curta.compiler.library import blas
from curta.config import config
from curta.control.call import JaxprOp
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, Var
from curta.core.op import Op
from curta.once import once
from curta.primitives.random_bits.implementations import KeyImplementation

# The packages whose code says what becomes of a jaxpr.
_PACKAGES = ("compiler", "control", "core", "dtypes", "primitives", "transforms")
# A file that changed so shortly before it was looked at may not be what was imported.
_RECENT_NS = 10 * 10**9


class _Unknown(Exception):
    """Something that is not known to be written down in full."""


def program_name(closed: ClosedJaxpr, options: tuple[Any, ...]) -> str | None:
    """The name under which what is compiled of a jaxpr may be kept, if it may.

    `options` are what the compiler is told besides: plain values.
    """
    stamp = None if _is_watched() else _source_stamp()
    if stamp is None:
        return None
    writer = _Writer()
    try:
        writer.value(options)
        writer.closed(closed)
        settings = _settings(config.context)
    except _Unknown:
        return None
    return key("program", stamp, settings, " ".join(writer.parts))


def _is_watched() -> bool:
    """Whether somebody wants to see the compiler at work."""
    return "CURTA_DUMP" in os.environ or "CURTA_CHECK" in os.environ


@cache
def _settings(context: Any) -> str:
    writer = _Writer()
    writer.value(context.values)
    return " ".join(writer.parts)


@once
def _source_stamp() -> str | None:
    """The versions and the state of the source; None if it is not known for sure."""
    root = os.path.dirname(os.path.dirname(__file__))
    try:
        found = [os.stat(path) for path in _sources(root)]
    except OSError:  # an archive
        return None
    if max(x.st_mtime_ns for x in found) > time.time_ns() - _RECENT_NS:
        return None
    stamps = [(x.st_mtime_ns, x.st_size) for x in found]
    return f"{sys.version} {np.__version__} {blas.location()} {stamps}"


def _sources(root: str) -> list[str]:
    files: list[str] = []
    folders = [f"{root}/{package}" for package in _PACKAGES]
    for folder in folders:  # which grows meanwhile
        for name in sorted(os.listdir(folder)):
            if name.endswith(".py"):
                files.append(f"{folder}/{name}")
            elif "." not in name and name != "__pycache__":
                folders.append(f"{folder}/{name}")
    return files


class _Writer:
    """Writes values down, so that no two different ones are written alike."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self._variables: dict[Var, str] = {}
        self._jaxprs: dict[ClosedJaxpr, str] = {}
        self._bytes = 0

    def value(self, x: Any) -> None:
        """Anything among the parameters of ops."""
        kind = type(x)
        write = _KINDS.get(kind)
        if write is not None:
            write(self, x)
        elif isinstance(x, Op):
            self.op(x)
        elif isinstance(x, np.dtype):
            self.parts.append(repr(x))
        elif isinstance(x, np.generic):
            self.array(np.asarray(x))
        elif isinstance(x, enum.Enum):
            self.parts += [_class_name(kind), x.name]
        elif isinstance(x, (tuple, KeyImplementation)) or dataclasses.is_dataclass(x):
            self._fields(x)
        else:
            raise _Unknown

    def _fields(self, x: Any) -> None:
        """An object by its class and what it consists of."""
        self.parts.append(_class_name(type(x)))
        if isinstance(x, tuple):
            self.items(tuple(x))
        elif dataclasses.is_dataclass(x):
            self.items([getattr(x, f.name) for f in dataclasses.fields(x)])
        else:
            self.items(sorted(vars(x).items()))

    def plain(self, x: Any) -> None:
        """What `repr` tells apart."""
        self.parts.append(repr(x))

    def number(self, x: float | complex) -> None:
        """A number whose zeros have signs and which may be NaN."""
        self.array(np.asarray(x))

    def items(self, xs: tuple[Any, ...] | list[Any]) -> None:
        """The length comes first, and so for whatever has parts."""
        self.parts.append(f"{type(xs).__name__}{len(xs)}")
        for x in xs:
            self.value(x)

    def type(self, x: type) -> None:
        """A class."""
        self.parts.append(_class_name(x))

    def array(self, x: Any) -> None:
        """The elements of an array in memory."""
        storage = getattr(x, "_storage", None)
        if storage is None and not isinstance(x, _ARRAYS):
            raise _Unknown
        array = np.asarray(x if storage is None else storage())
        self._bytes += array.nbytes
        if self._bytes > config.tuning.named_bytes or array.dtype.hasobject:
            raise _Unknown
        self.parts.append(f"{array.dtype!r}{array.shape}{array.tobytes().hex()}")

    def aval(self, x: ShapedArray) -> None:
        """A type."""
        self.parts.append(f"{'~' * x.weak_type}{x.shape}")
        self.value(x.dtype)
        if x.placement is not None:
            raise _Unknown

    # ---- jaxprs

    def closed(self, x: ClosedJaxpr) -> None:
        """A jaxpr with its consts; one that was written before by its number."""
        known = self._jaxprs.get(x)
        if known is not None:
            self.parts.append(known)
            return
        self._jaxprs[x] = f"again{len(self._jaxprs)}"
        self.parts.append(f"closed{len(x.consts)}")
        for const in x.consts:
            self.array(const)
        self.jaxpr(x.jaxpr)

    def jaxpr(self, x: Jaxpr) -> None:
        """A jaxpr by its eqns."""
        counts = len(x.constvars), len(x.invars), len(x.eqns), len(x.outvars)
        self.parts.append(f"jaxpr{counts}")
        for v in (*x.constvars, *x.invars):
            self._bind(v)
        for eqn in x.eqns:
            self.op(eqn.op)
            self.parts.append(f"{len(eqn.invars)} {len(eqn.outvars)}")
            for a in eqn.invars:
                self._atom(a)
            for v in eqn.outvars:
                self._bind(v)
        for a in x.outvars:
            self._atom(a)

    def _bind(self, v: Var) -> None:
        self._variables[v] = f"v{len(self._variables)}"
        self.value(v.aval)

    def _atom(self, a: Any) -> None:
        if type(a) is Literal:
            self.value(a.aval)
            self.value(a.val)
        elif a in self._variables:
            self.parts.append(self._variables[a])
        else:
            raise _Unknown

    def op(self, x: Op) -> None:
        """An op by its class and fields; of a call, what it calls."""
        if isinstance(x, JaxprOp):
            self.parts.append("call")
            self.closed(x.jaxpr)
        else:
            self._fields(x)


_ARRAYS = (np.ndarray, np.generic, bool, int, float, complex)
_KINDS: dict[type, Callable[[_Writer, Any], None]] = {
    **dict.fromkeys((bool, int, str, bytes, type(None)), _Writer.plain),
    float: _Writer.number,
    complex: _Writer.number,
    tuple: _Writer.items,
    list: _Writer.items,
    type: _Writer.type,
    np.ndarray: _Writer.array,
    ShapedArray: _Writer.aval,
    ClosedJaxpr: _Writer.closed,
    Jaxpr: _Writer.jaxpr,
}


def _class_name(kind: type) -> str:
    """The name of a class whose code is known: Curta's, NumPy's or Python's own."""
    package = kind.__module__.partition(".")[0]
    known = package in ("curta", "numpy", "builtins", "ml_dtypes")
    if not known or "<locals>" in kind.__qualname__:
        raise _Unknown
    return f"{kind.__module__}.{kind.__qualname__}"


_source_stamp()  # now, while the files are those that are being imported
