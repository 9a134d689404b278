"""From samples of ops to the text of a program, and the results of running it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tests.accelerators import xla
from tests.accelerators.modules import lower, staged
from tests.conformance.checks import evaluate
from tests.conformance.samples import Case

import curta
import curta.numpy as jnp
from curta.core.avals import ShapedArray
from curta.dtypes import KeyDType


def run_staged(fun: Callable[..., Any], *args: Any) -> list[np.ndarray]:
    """The results of a function of arrays, which gives a list, run by XLA."""
    arrays = [np.asarray(x) for x in map(jnp.asarray, args)]
    closed = curta.make_jaxpr(lambda *xs: list(fun(*xs)))(*args)
    results = xla.run(lower(closed), arrays)
    return [stored(x, a) for x, a in zip(results, closed.out_avals, strict=True)]


def run_cases(
    found: Sequence[Case], platforms: Sequence[str] = ("cpu",)
) -> list[list[np.ndarray]]:
    """The outputs of all cases, from one program: compiling once is much faster."""
    closed, counts = staged(found)
    args = [given(x, a) for c in found for x, a in zip(c.args, c.avals, strict=True)]
    results = xla.run(lower(closed, platforms), args)
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
