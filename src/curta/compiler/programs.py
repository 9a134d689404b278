"""Whole programs in the kernel cache: found by their jaxpr, without compiling it.

    name = program_name(closed, options)
    program = find_program(name, parallel_for)

What is kept of a program is its *recipe*: the names of the object files, the consts,
and which array is which. A program with steps in Python is compiled anew each time,
which finds its kernels by their text.
"""

from __future__ import annotations

import marshal
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.compiler import cache
from curta.compiler.executable import Executable, Launcher, NativeStep
from curta.compiler.linked import Linked, Recipe, relinked, shared
from curta.compiler.loops.nodes import Buffer
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
    step = program.steps[0]
    if len(program.steps) != 1 or not isinstance(step, NativeStep):
        return None
    if sum(x.nbytes for x in program.consts.values()) > config.tuning.kept_bytes:
        return None
    parts: list[Recipe] = []
    for called in step.callees:
        if isinstance(called, Linked):
            parts.append((False, called.recipe))
            continue
        recipe = _recipe(called.code)
        if recipe is None:
            return None
        parts.append((True, recipe))
    numbers = {b: i for i, b in enumerate(dict.fromkeys(step.pointers))}
    consts = [(_type(x), x.tobytes()) for x in program.consts.values()]
    return (
        step.code.recipe, tuple(parts), int(step.cost), int(step.arena_bytes),
        int(step.temporaries), step.parallel,
        tuple(numbers[b] for b in step.pointers),
        tuple(numbers[b] for b in step.created),
        tuple(map(_type, program.out_avals)), tuple(map(_type, program.in_avals)),
        tuple(consts), tuple(program.replaced),
    )  # fmt: skip


def _type(x: Any) -> tuple[str, tuple[int, ...]]:
    return physical_dtype(x.dtype).name, tuple(x.shape)


def _executable(recipe: Recipe, parallel_for: Launcher) -> Executable:
    """The program of a recipe; LookupError if its code is not in the cache."""
    (
        code, parts, cost, arena_bytes, temporaries, parallel, numbers, created,
        results, arguments, constants, replaced,
    ) = recipe  # fmt: skip
    callees = [_callee(nested, r, parallel_for) for nested, r in parts]
    avals = list(map(_aval, (*results, *arguments, *(kind for kind, _ in constants))))
    made: dict[int, Buffer] = {}
    pointers = [made.setdefault(n, _buffer(a)) for n, a in zip(numbers, avals)]
    first, second = len(results), len(results) + len(arguments)
    outputs, inputs, consts = _cut(pointers, first, second)
    values = [np.ndarray(k[1], np.dtype(k[0]), data) for k, data in constants]
    step = NativeStep(
        relinked(code), tuple(callees), tuple(pointers),
        tuple(made[n] for n in created), cost, arena_bytes, temporaries, parallel,
    )  # fmt: skip
    return Executable(
        avals[first:second], avals[:first], [step], inputs, outputs,
        dict(zip(consts, values)),
        dict(zip(pointers, avals)), parallel_for, frozenset(replaced),
    )  # fmt: skip


def _callee(
    nested: bool, recipe: Recipe, parallel_for: Launcher
) -> Linked | NativeProgram:
    if not nested:
        return shared(recipe)
    program = _executable(recipe, parallel_for).native
    assert program is not None
    return program


def _aval(kind: tuple[str, tuple[int, ...]]) -> ShapedArray:
    return ShapedArray(kind[1], np.dtype(kind[0]))


def _buffer(aval: ShapedArray) -> Buffer:
    return Buffer("kept", aval.dtype, aval.size)


def _cut(items: Sequence[Buffer], *places: int) -> list[Sequence[Buffer]]:
    ends = [0, *places, len(items)]
    return [items[a:b] for a, b in zip(ends, ends[1:])]
