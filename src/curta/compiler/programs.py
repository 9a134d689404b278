"""Whole programs in the kernel cache: found by their jaxpr, without compiling it.

    name = program_name(closed, target, options, config.context)
    program = find_program(name, parallel_for)

What is kept of a program is its *recipe*: the names of the object files, the consts,
the arguments and results. Consts of the jaxpr itself come with its name, by digest, and
are not kept again, and so do the ops that run in Python.
"""

from __future__ import annotations

import marshal
import time
from typing import Any

import numpy as np

from curta._base.on_demand import late
from curta.compiler import callee
from curta.compiler.emit.mpi_stub import stub
from curta.compiler.executable import Executable, Launcher, NativeCode, NDArray
from curta.compiler.fingerprint import ProgramName
from curta.compiler.lower.mpi_call import callee_of
from curta.compiler.machine_code import cache, host_call
from curta.compiler.machine_code.linked import Linked, Recipe, link, shared
from curta.compiler.machine_code.native import NativeProgram
from curta.core.avals import ShapedArray
from curta.core.evaluate import as_numpy
from curta.core.events import LOWERING, record_event_duration_secs
from curta.core.jaxpr import Eqn, Literal, Var
from curta.core.op import Op
from curta.dtypes import physical_dtype
from curta.primitives.host_collectives import HostDone, HostPoll, HostStart

mpi_loading: Any = late("curta.compiler.mpi_loading")
# The parts of a collective that goes on meanwhile; others are a whole.
PARTS: dict[type[Op], str] = {HostStart: "start", HostPoll: "poll", HostDone: "done"}
WHOLE = "whole"
BufferIdentity = tuple[Any, ...]
Type = tuple[str, tuple[int, ...]]


def find_program(name: ProgramName, parallel_for: Launcher) -> Executable | None:
    """The program kept under a name; None if it, or some of its code, is not there."""
    start = time.perf_counter()
    result = cache.read(name.text)
    if result is None:
        cache.log(name.title, f"miss: there is no {name.text[:12]}")
        return None
    try:
        program = _Maker(name, parallel_for).executable(marshal.loads(result))
    except (LookupError, ImportError) as gone:  # ImportError: no OpenBLAS
        cache.log(name.title, f"miss: {name.text[:12]} is not whole, {gone}")
        return None
    spent = time.perf_counter() - start
    record_event_duration_secs(LOWERING, spent)
    cache.log(name.title, f"hit: {name.text[:12]} in {1e3 * spent:.1f} ms")
    return program


def keep_program(name: ProgramName, program: Executable) -> None:
    """Keep a program under a name, if it is one that can be kept."""
    try:
        recipe = _RecipeWriter(name).recipe(program)
    except _CannotKeep as reason:
        cache.log(name.title, f"not kept: {reason}")
        return
    cache.write(name.text, marshal.dumps(recipe))


class _CannotKeep(Exception):
    """Why a program has no recipe."""


class _RecipeWriter:
    """Writes the recipes of a program and of those that it calls."""

    def __init__(self, name: ProgramName) -> None:
        self.name = name
        self.given = {_identity(x): digest for digest, x in name.consts.items()}

    def recipe(self, program: Executable) -> Recipe:
        """What `_Maker` makes the program of again.

        Consts that the name of the program has are not part of it: who knows the
        name has them.
        """
        code = program.code
        consts = [
            (_type(x), self.given.get(_identity(x)) or x.tobytes())
            for x in program.consts
        ]
        size = sum(len(x) for _, x in consts if isinstance(x, bytes))
        if size > self.name.target.tuning.kept_bytes:
            raise _CannotKeep(f"it has {size} bytes of constants of its own")
        return (
            code.linked.recipe, tuple(map(self._callee, code.callees)), int(code.cost),
            int(code.arena_bytes), int(code.temporaries), code.parallel,
            code.runs_python, code.cancellable, tuple(map(_type, program.out_avals)),
            tuple(map(_type, program.in_avals)), tuple(consts), tuple(program.in_place),
        )  # fmt: skip

    def _callee(self, called: Linked | NativeProgram) -> Recipe:
        if isinstance(called, Linked):
            return "function", called.recipe
        if isinstance(called.code, Executable):
            return "program", self.recipe(called.code)
        if called.eqn is not None and called.eqn.op.meets_hosts:
            return "collective", self._collective(called, called.eqn)
        if not called.is_host_call:
            raise _CannotKeep("it calls native code that is not known")
        if called.eqn is None:
            return "signals", ()
        op, _ = self.name.ops.get(id(called.eqn.op), (None, None))
        if op is None:
            raise _CannotKeep(f"there is no code for {called.eqn.op.name}")
        return "python", (op, *_ends(called.eqn))

    def _collective(self, called: NativeProgram, eqn: Eqn) -> Recipe:
        """A collective between hosts, or a part of one, and the line it is from.

        A call of MPI follows from the eqn; its symbols are resolved when it is loaded.
        """
        part, op = PARTS.get(type(eqn.op), WHOLE), eqn.op
        if part != WHOLE:
            op = eqn.op.each  # type: ignore[attr-defined]
        for text, (known, lines) in self.name.collectives.items():
            if known == op:
                line = next((i for i, x in enumerate(lines) if x == eqn.source_info), 0)
                return text, part, called.is_host_call, line, *_ends(eqn)
        raise _CannotKeep(f"{op.name} is not among its collectives")


def _ends(eqn: Eqn) -> tuple[list[Any], list[Type]]:
    """The types of operands, with the elements of literals, and of results."""
    operands = [
        (
            _type(v.aval),
            as_numpy(v.val, v.aval).tobytes() if isinstance(v, Literal) else None,
        )
        for v in eqn.invars
    ]
    return operands, [_type(v.aval) for v in eqn.outvars]


def _identity(x: NDArray) -> BufferIdentity:
    """Where an array lies: equal for the same elements in the same memory."""
    return x.__array_interface__["data"][0], x.dtype.name, x.shape, x.strides


def _type(x: Any) -> Type:
    return physical_dtype(x.dtype).name, tuple(x.shape)


class _Maker:
    """Makes programs of their recipes; LookupError if their code is gone."""

    def __init__(self, name: ProgramName, parallel_for: Launcher) -> None:
        self.consts = name.consts
        self.ops = dict(name.ops.values())
        self.collectives = name.collectives
        self.target = name.target
        self.parallel_for = parallel_for

    def executable(self, recipe: Recipe) -> Executable:
        """The program of a recipe."""
        (
            linked, parts, cost, arena_bytes, temporaries, parallel, runs_python,
            cancellable, results, arguments, consts, in_place,
        ) = recipe  # fmt: skip
        code = NativeCode(
            shared(linked), tuple(map(self._callee, parts)), cost, arena_bytes,
            temporaries, parallel, runs_python, cancellable,
        )  # fmt: skip
        values = [self._const(kind, data) for kind, data in consts]
        avals = list(map(_aval, arguments)), list(map(_aval, results))
        overwriting = frozenset(in_place)
        return Executable(*avals, code, values, self.parallel_for, overwriting)

    def _const(self, kind: Type, data: str | bytes) -> NDArray:
        return self.consts[data] if isinstance(data, str) else _array(kind, data)

    def _callee(self, part: tuple[str, Recipe]) -> Linked | NativeProgram:
        kind, recipe = part
        if kind == "function":
            return shared(recipe)
        if kind == "program":
            return self.executable(recipe).native
        if kind == "signals":
            return host_call.load(callee.SIGNALS)
        if kind == "collective":
            return self._collective(recipe)
        op, operands, results = recipe
        return host_call.load(callee.host_call(_eqn(self.ops[op], operands, results)))

    def _collective(self, recipe: Recipe) -> NativeProgram:
        text, part, in_python, line, operands, results = recipe
        op, lines = self.collectives[text]
        kinds: dict[str, Any] = {p: k for k, p in PARTS.items()}
        made = kinds[part](op) if part in kinds else op
        eqn = _eqn(made, operands, results).replace(source_info=lines[line])
        if in_python:
            return host_call.load(callee.host_call(eqn))
        called = callee_of(eqn, self.target.transport)
        if called is None:
            raise LookupError(f"MPI has no {op.name}")
        (code,) = link([stub(called, self.target)])
        result: NativeProgram = mpi_loading.load(called, code)
        return result


def _eqn(op: Any, operands: Any, results: Any) -> Eqn:
    invars = [
        Var(_aval(k)) if data is None else Literal(_array(k, data), _aval(k))
        for k, data in operands
    ]
    return Eqn(op, tuple(invars), tuple(Var(_aval(k)) for k in results))


def _array(kind: Type, data: bytes) -> NDArray:
    return np.ndarray(kind[1], np.dtype(kind[0]), data)


def _aval(kind: Type) -> ShapedArray:
    return ShapedArray(kind[1], np.dtype(kind[0]))
