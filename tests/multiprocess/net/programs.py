"""The programs of the net: samples of all ops, random programs, and some by name."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tests.conformance.checks import TOLERANCE, array, as_list
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import Case, cases
from tests.multiprocess.net.written import WRITTEN
from tests.stress.fuzz import strategies
from tests.stress.fuzz.checks import compare, evaluated, outcome, settings_of
from tests.stress.fuzz.instructions import INSTRUCTIONS
from tests.stress.fuzz.programs import Program, arguments, transformed

import curta
from curta import dtypes
from curta.config import enable_x64
from curta.dtypes import KeyDType

# Ops whose results have no values that another run has to give.
_NO_VALUE = {"Empty", "RngBitGenerator"}
Arrays = list[np.ndarray]


@dataclass(frozen=True)
class NetProgram:
    """A program and its arguments.

    `settings` makes the context in which it is traced and run. `check` raises an
    AssertionError unless results (on hosts) are close enough to those of one host. A
    `quick` program is run once, in one layout, and compared with its `eval` rules.
    """

    name: str
    function: Callable[..., Any]
    arguments: Arrays
    settings: Callable[[], Any]
    check: Callable[[Arrays, Arrays], None]
    donated: tuple[int, ...] = ()
    quick: bool = False


def program_of(name: str) -> NetProgram:
    """The program of a name.

    Names are `op NAME VARIANT`, `written NAME`, `random JSON` and `fuzz JSON`.
    """
    kind, _, rest = name.partition(" ")
    return _MAKERS[kind](rest)


def names(kinds: Sequence[str], count: int, seed: int, variant: int) -> list[str]:
    """The names of all programs of some kinds, `count` random ones among them.

    Each sample of an op is run in one dtype; `variant` says in which.
    """
    result: list[str] = []
    if "written" in kinds:
        result += [f"written {n}" for n in WRITTEN]
    if "op" in kinds:
        classes = [c for c in sampled_ops() if c.__name__ not in _NO_VALUE]
        result += [f"op {c.__name__} {variant}" for c in classes]
    if "random" in kinds:
        result += [f"random {p.to_json()}" for p in drawn(seed, count)]
    if "fuzz" in kinds:
        result += [f"fuzz {text}" for text in drawn_fast(seed, count)]
    return result


def drawn(seed: int, count: int) -> list[Program]:
    """Random programs along dims that can be split; all can be traced.

    Of those that Hypothesis makes one after another, which are alike, a few are taken.
    """
    found: dict[str, Program] = {}
    each = strategies.programs(False, "uneven")
    while len(found) < count:
        some: list[Program] = []
        strategies.try_programs(seed, _OF_A_SEED * _APART, some.append, each)
        for program in some[::-_APART][:_OF_A_SEED]:
            if _is_traced(program):
                found[program.to_json()] = program
        seed += 1
    return [*found.values()][:count]


def drawn_fast(seed: int, count: int) -> list[str]:
    """Random programs as JSON; some cannot be traced."""
    found: dict[str, None] = {}
    each = strategies.programs(False, "uneven")
    while len(found) < count:
        some: list[Program] = []
        strategies.try_programs(seed, 4 * _APART, some.append, each)
        found.update((p.to_json(), None) for p in some[::-2])
        seed += 1
    return [*found][:count]


_OF_A_SEED, _APART = 5, 6


def _is_traced(program: Program) -> bool:
    """Whether one host takes a program, too."""
    try:
        with settings_of(program):
            args = [curta.numpy.asarray(a) for a in arguments(program)]
            curta.make_jaxpr(transformed(program, INSTRUCTIONS))(*args)
    except Exception:
        return False
    return bool(args)


# ---- samples of ops


@functools.cache
def _classes() -> dict[str, Any]:
    return {c.__name__: c for c in sampled_ops()}


def _one_dtype(found: Sequence[Case], variant: int) -> list[Case]:
    """Of the cases of each sample, which differ in dtypes, one."""
    groups = itertools.groupby(found, lambda c: (id(c.op), [a.shape for a in c.avals]))
    each = [[*group] for _, group in groups]
    return [group[(variant + n) % len(group)] for n, group in enumerate(each)]


def _of_op(text: str) -> NetProgram:
    """All samples of an op: one program, as compiling takes most of the time."""
    name, variant = text.split()
    found = _one_dtype(cases(_classes()[name]), int(variant))
    fixed = [[_is_key(a) for a in c.avals] for c in found]
    given = [x for c, keys in zip(found, fixed) for x, k in zip(c.args, keys) if not k]

    def function(*flat: Any) -> list[Any]:
        rest = iter(flat)
        outs: list[Any] = []
        for case, keys in zip(found, fixed):
            operands = [
                array(x, a) if k else next(rest)
                for x, a, k in zip(case.args, case.avals, keys, strict=True)
            ]
            for out in as_list(case.op, case.op(*operands)):
                if isinstance(out.dtype, KeyDType):
                    outs.append(curta.random.key_data(out))
                elif isinstance(out.dtype, np.dtype):  # tokens have no elements
                    outs.append(out)
        return outs

    return NetProgram(text, function, given, functools.partial(enable_x64, True), close)


def _is_key(x: Any) -> bool:
    return isinstance(x.dtype, dtypes.ExtendedDType)


def close(got: Arrays, wanted: Arrays) -> None:
    """Equal, up to the rounding of sums in another order."""
    for n, (x, y) in enumerate(zip(got, wanted, strict=True)):
        assert (x.dtype, x.shape) == (y.dtype, y.shape), (n, x.dtype, x.shape, y.dtype)
        if not dtypes.issubdtype(y.dtype, np.inexact):
            np.testing.assert_array_equal(x, y, err_msg=f"result {n}")
            continue
        tolerance = 4 * TOLERANCE[y.dtype.name]
        wide = np.complex128 if y.dtype.kind == "c" else np.float64
        with np.errstate(all="ignore"):
            scale = np.nanmax(np.abs(np.where(np.isfinite(y), y, 0)), initial=1.0)
        np.testing.assert_allclose(
            *(x.astype(wide), y.astype(wide), tolerance, tolerance * float(scale)),
            err_msg=f"result {n}",
        )


# ---- programs by name


def _written(name: str) -> NetProgram:
    function, args = WRITTEN[name]
    return NetProgram(name, function, args, contextlib.nullcontext, close)


# ---- random programs


def _random(text: str) -> NetProgram:
    program = Program.from_json(text)

    def check(got: Arrays, wanted: Arrays) -> None:
        compare(program, got, outcome(evaluated, program), "on hosts")

    with settings_of(program):
        args = [np.array(curta.numpy.asarray(a)) for a in arguments(program)]
    function = transformed(program, INSTRUCTIONS)
    donated = tuple(i for i in range(len(args)) if program.donated >> i & 1)
    settings = functools.partial(settings_of, program)
    return NetProgram(text, function, args, settings, check, donated)


def _fuzz(text: str) -> NetProgram:
    return dataclasses.replace(_random(text), quick=True)


_MAKERS: dict[str, Callable[[str], NetProgram]] = {
    "op": _of_op,
    "written": _written,
    "random": _random,
    "fuzz": _fuzz,
}
