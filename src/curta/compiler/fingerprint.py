"""The name of a program in the kernel cache: all that its compiled code depends on.

    name = program_name(closed, target, (optimise, in_place), config.context)

That is the jaxpr with its literals and consts, the settings, the versions and the
source of Curta. A program has no name if a part of it has no complete textual form,
such as a function among the parameters of an op.

A jaxpr is named by the values that it computes: each variable is called by the hash of
its eqn, in which the operands are called by theirs. So the order of independent eqns,
which may follow Python's hash seed, dead code and equal eqns do not change the name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import hashlib
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._base.once import once
from curta._settings.options import TraceContext
from curta.compiler.dump import is_watched
from curta.compiler.library import blas
from curta.compiler.machine_code.cache import key, log
from curta.compiler.targets import Target
from curta.control.call import JaxprOp
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from curta.core.op import Op
from curta.core.source_info import SourceInfo
from curta.core.user_lowering import lowered
from curta.core.user_op import UserOp
from curta.primitives.host_collectives import communicates
from curta.primitives.random_bits.implementations import KeyImplementation

# The packages whose source decides what a jaxpr is compiled to.
_PACKAGES = ("compiler", "control", "core", "dtypes", "primitives", "transforms")
# A file that changed so shortly before it was looked at may not be what was imported.
_RECENT_NS = 10 * 10**9


Collectives = dict[str, tuple[Op, list[SourceInfo]]]


@dataclass(frozen=True)
class ProgramName:
    """The key of a program in the cache, and the values that are not stored with it.

    Consts are there by their digests. Ops that run in Python are there by their `id`,
    with the strings that represent them in the name. `title` is what the log calls the
    program, `target` the machine it is for. `collectives` are those between hosts, each
    op by its text with the lines that it is from.
    """

    text: str
    consts: Mapping[str, np.ndarray[Any, Any]] = field(compare=False)
    ops: Mapping[int, tuple[str, Op]] = field(compare=False)
    title: str = field(compare=False)
    target: Target = field(compare=False)
    collectives: Collectives = field(compare=False, default_factory=dict)


class _Unknown(Exception):
    """Something that is not known to be written down in full."""


def program_name(
    closed: ClosedJaxpr,
    target: Target,
    options: tuple[Any, ...],
    settings: TraceContext,
) -> ProgramName | None:
    """The name under which what is compiled of a jaxpr may be kept, if it may.

    Args:
        closed: the program.
        target: the machine that it is compiled for.
        options: further options of the compiler: plain values.
        settings: those that rules of ops are traced with.
    """
    title = closed.jaxpr.debug_info.function()
    stamp = None if is_watched() else _source_stamp()
    if stamp is None:
        watched = "CURTA_DUMP or CURTA_CHECK is set"
        log(title, f"not kept: {watched if is_watched() else 'the source is new'}")
        return None
    writer = _Writer(target)
    try:
        writer.value(options)
        writer.closed(closed)
        written = _settings(settings)
    except _Unknown as unknown:
        log(title, f"not kept: {unknown}")
        return None
    text = key(target, "program", stamp, written, " ".join(writer.parts))
    parts = writer.consts, writer.ops, title, target, writer.collectives
    return ProgramName(text, *parts)


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
        result = [os.stat(path) for path in _sources(root)]
    except OSError:  # an archive
        return None
    if max(x.st_mtime_ns for x in result) > time.time_ns() - _RECENT_NS:
        return None
    stamps = [(x.st_mtime_ns, x.st_size) for x in result]
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

    def __init__(self, target: Target | None = None) -> None:
        self.target = target
        self.parts: list[str] = []
        self.consts: dict[str, np.ndarray[Any, Any]] = {}
        self._jaxprs: dict[ClosedJaxpr, str] = {}
        self.ops: dict[int, tuple[str, Op]] = {}
        self.collectives: Collectives = {}
        self._texts: dict[Op, str] = {}
        self._written: dict[int, str] = {}
        self._avals: dict[ShapedArray, str] = {}
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
            self.number(x)
        elif isinstance(x, enum.Enum):
            self.parts += [_class_name(kind), x.name]
        elif isinstance(x, (tuple, KeyImplementation)) or dataclasses.is_dataclass(x):
            self._fields(x)
        elif kind is frozenset:
            self.parts.append("frozenset")
            self.items(sorted(x, key=repr))
        else:
            raise _Unknown(f"a parameter of the class {kind.__qualname__}")

    def _fields(self, x: Any) -> None:
        """The class of an object and its fields."""
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

    def number(self, x: float | complex | np.generic) -> None:
        """A number whose zeros have signs and which may be NaN."""
        array = np.asarray(x)
        if array.dtype.hasobject:
            raise _Unknown("a Python object")
        self.parts.append(f"{array.dtype!r}{array.tobytes().hex()}")

    def items(self, xs: tuple[Any, ...] | list[Any]) -> None:
        """The length comes first, and so for whatever has parts."""
        self.parts.append(f"{type(xs).__name__}{len(xs)}")
        for x in xs:
            self.value(x)

    def type(self, x: type) -> None:
        """A class."""
        self.parts.append(_class_name(x))

    def array(self, x: Any) -> None:
        """An array in memory, by the hash of its elements."""
        storage = getattr(x, "_storage", None)
        if storage is None and not isinstance(x, _ARRAYS):
            raise _Unknown(f"a const of the class {type(x).__qualname__}")
        array = np.asarray(x if storage is None else storage())
        self._bytes += array.nbytes
        most = math.inf if self.target is None else self.target.tuning.named_bytes
        if self._bytes > most:
            raise _Unknown(f"more than {most} bytes of consts")
        if array.dtype.hasobject:
            raise _Unknown("a const of Python objects")
        row = np.ascontiguousarray(array).reshape(-1)
        digest = hashlib.sha256(row.view(np.uint8).data).hexdigest()
        self.consts[digest] = array
        self.parts.append(f"{array.dtype!r}{array.shape}{digest}")

    def aval(self, x: ShapedArray) -> None:
        """An aval, which many values share."""
        known = self._avals.get(x)
        if known is None:
            known = self._avals[x] = self._aside(self._aval, x)
        self.parts.append(known)

    def _aval(self, x: ShapedArray) -> None:
        self.parts.append(f"{'~' * x.weak_type}{x.shape}")
        self.value(x.dtype)

    # ---- jaxprs

    def closed(self, x: ClosedJaxpr) -> None:
        """A jaxpr with its consts, by a hash."""
        known = self._jaxprs.get(x)
        if known is None:
            written = self._aside(self._body, x.jaxpr, x.consts)
            known = self._jaxprs[x] = _digest(written)
        self.parts.append(known)

    def jaxpr(self, x: Jaxpr) -> None:
        """A jaxpr whose consts are arguments."""
        self._body(x.replace(constvars=(), invars=(*x.constvars, *x.invars)), ())

    def _body(self, jaxpr: Jaxpr, consts: Sequence[Any]) -> None:
        """The types of arguments, the results, and what happens besides, in order."""
        names: dict[Var, str] = {}
        self.parts.append(f"jaxpr {len(jaxpr.invars)} {len(jaxpr.outvars)}")
        for v, const in zip(jaxpr.constvars, consts, strict=True):
            aval = self._aside(self.value, v.aval)
            names[v] = _digest(f"const {aval} {self._aside(self.array, const)}")
        for i, v in enumerate(jaxpr.invars):
            names[v] = f"argument{i}"
            self.value(v.aval)
        effects = 0
        for eqn in jaxpr.eqns:
            written = self._aside(self._eqn, eqn, names)
            # Effects, and messages to other hosts, have an order.
            ordered = bool(eqn.effects) or communicates(eqn.op)
            if ordered:
                written += f" effect{effects}"
                effects += 1
            digest = _digest(written)
            if ordered:
                self.parts.append(digest)
            names.update((v, f"{digest}.{i}") for i, v in enumerate(eqn.outvars))
        for a in jaxpr.outvars:
            self._atom(a, names)

    def _eqn(self, eqn: Eqn, names: Mapping[Var, str]) -> None:
        op, known = eqn.op, self._written.get(id(eqn.op))
        if known is None:
            known = self._aside(self.op, op, [a.aval for a in eqn.invars])
            if not isinstance(op, UserOp):  # what it stands for depends on operands
                self._written[id(op)] = known
        if op.meets_hosts:
            self._collective(eqn)
        self.parts += [known, f"{len(eqn.invars)} {len(eqn.outvars)}"]
        for a in eqn.invars:
            self._atom(a, names)
        for v in eqn.outvars:
            self.value(v.aval)

    def _collective(self, eqn: Eqn) -> None:
        """Note an op between hosts; code depends on what carries its messages."""
        if not self.collectives:
            assert self.target is not None
            self.value(self.target.transport)
        for op in dict.fromkeys((eqn.op, getattr(eqn.op, "each", eqn.op))):
            text = self._aside(self.op, op)
            self.collectives.setdefault(text, (op, []))[1].append(eqn.source_info)

    def _atom(self, a: Atom, names: Mapping[Var, str]) -> None:
        if isinstance(a, Literal):
            self.value(a.aval)
            self.value(a.val)
        elif a in names:
            self.parts.append(names[a])
        else:
            raise _Unknown("a variable of another jaxpr")

    def op(self, x: Op, avals: Sequence[ShapedArray] = ()) -> None:
        """An op by its class and fields; of a call, what it calls.

        What runs in Python is not compiled: which of such ops are the same will do.
        """
        body = lowered(x, avals) if isinstance(x, UserOp) else None
        if isinstance(x, JaxprOp):
            body = x.jaxpr
        if body is not None:
            again = " again" if x.recomputes else ""
            self.parts.append(f"call{again} {x.memory_limit or ''}")
            self.closed(body)
        elif x.runs_python:
            text = f"python {type(x).__qualname__} {len(self.ops)}"
            with contextlib.suppress(TypeError):  # what has no hash is equal to nothing
                text = self._texts.setdefault(x, text)
            self.ops[id(x)] = text, x
            self.parts.append(text)
        else:
            try:
                self._fields(x)
            except _Unknown as unknown:
                raise _Unknown(f"{x.name} has {unknown}") from None

    def _aside(self, write: Callable[..., None], *args: Any) -> str:
        """What something is written as, apart from the rest."""
        outer, self.parts = self.parts, []
        write(*args)
        inner, self.parts = self.parts, outer
        return " ".join(inner)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


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
        raise _Unknown(f"a parameter of the class {kind.__qualname__}")
    return f"{kind.__module__}.{kind.__qualname__}"


_source_stamp()  # at import: later the files may have changed
