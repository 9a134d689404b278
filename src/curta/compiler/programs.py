"""Whole programs in the kernel cache: found by their jaxpr, without compiling it.

    name = program_name(closed, options)
    program = find_program(name, parallel_for)

What is kept of a program is its *recipe*: the names of the object files, the consts,
the arguments and results. A program some of which runs in Python is compiled anew each
time, which finds its kernels by their text.
"""

from __future__ import annotations

import marshal
import time
from typing import Any

import numpy as np

from curta.compiler import cache
from curta.compiler.executable import Executable, Launcher, NativeCode
from curta.compiler.linked import Linked, Recipe, relinked, shared
from curta.compiler.native import NativeProgram
from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.events import LOWERING, record_event_duration_secs
from curta.dtypes import physical_dtype


def find_program(name: str, parallel_for: Launcher) -> Executable | None:
    """The program kept under a name; None if it, or some of its code, is not there."""
    start = time.perf_counter()
    found = cache.read(name)
    if found is None:
        return None
    try:
        program = _executable(marshal.loads(found), parallel_for)
    except (LookupError, ImportError):  # ImportError: OpenBLAS is no longer there
        return None
    record_event_duration_secs(LOWERING, time.perf_counter() - start)
    return program


def keep_program(name: str, program: Executable) -> None:
    """Keep a program under a name, if it is one that can be kept."""
    recipe = _recipe(program)
    if recipe is not None:
        cache.write(name, marshal.dumps(recipe))


def _recipe(program: Executable) -> Recipe | None:
    """What `_executable` makes the program of again; None for what has Python in it."""
    code = program.code
    if code.runs_python:
        return None
    if sum(x.nbytes for x in program.consts) > config.tuning.kept_bytes:
        return None
    parts: list[Recipe] = []
    for called in code.callees:
        if isinstance(called, Linked):
            parts.append((False, called.recipe))
            continue
        recipe = _recipe(called.code)
        if recipe is None:
            return None
        parts.append((True, recipe))
    return (
        code.linked.recipe, tuple(parts), int(code.cost), int(code.arena_bytes),
        int(code.temporaries), code.parallel, code.cancellable,
        tuple(map(_type, program.out_avals)), tuple(map(_type, program.in_avals)),
        tuple((_type(x), x.tobytes()) for x in program.consts),
        tuple(program.in_place),
    )  # fmt: skip


def _type(x: Any) -> tuple[str, tuple[int, ...]]:
    return physical_dtype(x.dtype).name, tuple(x.shape)


def _executable(recipe: Recipe, parallel_for: Launcher) -> Executable:
    """The program of a recipe; LookupError if its code is not in the cache."""
    (
        linked, parts, cost, arena_bytes, temporaries, parallel, cancellable, results,
        arguments, consts, in_place,
    ) = recipe  # fmt: skip
    callees = [_callee(nested, r, parallel_for) for nested, r in parts]
    code = NativeCode(
        relinked(linked), tuple(callees), cost, arena_bytes, temporaries, parallel,
        cancellable=cancellable,
    )  # fmt: skip
    values = [np.ndarray(shape, np.dtype(n), data) for (n, shape), data in consts]
    avals = list(map(_aval, arguments)), list(map(_aval, results))
    return Executable(*avals, code, values, parallel_for, frozenset(in_place))


def _callee(
    nested: bool, recipe: Recipe, parallel_for: Launcher
) -> Linked | NativeProgram:
    if not nested:
        return shared(recipe)
    return _executable(recipe, parallel_for).native


def _aval(kind: tuple[str, tuple[int, ...]]) -> ShapedArray:
    return ShapedArray(kind[1], np.dtype(kind[0]))
