"""From samples of ops to the text of a program, and the results of running it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tests.conformance.checks import as_list, evaluate
from tests.conformance.samples import Case

import curta
import curta.numpy as jnp
from accelerators import xla
from curta.compiler.stablehlo import rules
from curta.compiler.stablehlo.asm import module_text
from curta.compiler.stablehlo.lowering import Program
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.stage import stage
from curta.dtypes import KeyDType

assert rules.FAMILIES  # the table of rules is full


def lower(closed: ClosedJaxpr, platforms: Sequence[str] = ("cpu",)) -> str:
    """The text of a jaxpr."""
    program = Program("jit_f", platforms)
    program.define(closed, "main", public=True)
    return module_text(program.module)


def run_staged(fun: Callable[..., Any], *args: Any) -> list[np.ndarray]:
    """The results of a function of arrays, which gives a list, run by XLA."""
    arrays = [np.asarray(x) for x in map(jnp.asarray, args)]
    closed = curta.make_jaxpr(lambda *xs: list(fun(*xs)))(*args)
    results = xla.run(lower(closed), arrays)
    return [stored(x, a) for x, a in zip(results, closed.out_avals, strict=True)]


def run_cases(found: Sequence[Case]) -> list[list[np.ndarray]]:
    """The outputs of all cases, from one program: compiling once is much faster."""
    counts: list[int] = []

    def program(*flat: Any) -> list[Any]:
        rest = iter(flat)
        outs = [as_list(c.op, c.op(*[next(rest) for _ in c.avals])) for c in found]
        counts[:] = map(len, outs)
        return [x for several in outs for x in several]

    closed = stage(program, [a for c in found for a in c.avals])
    args = [given(x, a) for c in found for x, a in zip(c.args, c.avals, strict=True)]
    results = xla.run(lower(closed), args)
    outs = iter(map(stored, results, closed.jaxpr.out_avals))
    return [[next(outs) for _ in range(count)] for count in counts]


def wanted(case: Case) -> list[np.ndarray]:
    """The outputs of `eval`."""
    return evaluate(case.op, case.args)


def given(x: np.ndarray, aval: ShapedArray) -> np.ndarray:
    """An array as the program takes it: random keys as words along a last dim."""
    if not isinstance(aval.dtype, KeyDType):
        return x
    return np.ascontiguousarray(x)[..., None].view(np.uint32)


def stored(x: np.ndarray, aval: ShapedArray) -> np.ndarray:
    """The opposite for a result."""
    if not isinstance(aval.dtype, KeyDType):
        return x
    return np.ascontiguousarray(x).view(aval.dtype.physical)[..., 0]
