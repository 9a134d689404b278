"""Whether a program compiled gives what its `eval` rules give.

Rounding is distinguished from faults by measurement (the CESTAC method of Vignes and La
Porte): the program is evaluated several times, with every inexact operand (arguments,
constants and the results of eqns) perturbed by a few units in the last place at random.
The spread of these results bounds the allowed difference between a compiled program and
`eval`.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tests.stress.fuzz.instructions import INSTRUCTIONS
from tests.stress.fuzz.programs import Program, arguments, transformed

import curta
from curta.config import config
from curta.core.evaluate import const_as_numpy, evaluate, watching
from curta.core.jaxpr import Eqn
from curta.transforms.partial_eval import prune

ULPS = 3  # by which noise moves a number
NOISY_RUNS = 4
MORE_NOISY_RUNS = 24  # before a difference is believed
# What bad programs raise; anything else is a fault of Curta's.
REFUSALS = (TypeError, ValueError, NotImplementedError, FloatingPointError)

SETTINGS = {
    "x32": ("jax_enable_x64", False),
    "not optimised": ("jax_disable_most_optimizations", True),
    "waited for": ("jax_cpu_enable_async_dispatch", False),
}

Outs = list[np.ndarray]


class Mismatch(AssertionError):
    """A program does one thing compiled and another otherwise."""


@contextlib.contextmanager
def settings_of(program: Program) -> Iterator[None]:
    """The settings of a program, and 64 bits unless it says otherwise."""
    wanted = {"jax_enable_x64": True}
    wanted.update(SETTINGS[s] for s in program.settings if s in SETTINGS)
    before = {name: getattr(config, name) for name in wanted}
    for name, value in wanted.items():
        curta.config.update(name, value)
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of donations that were not usable
            yield
    finally:
        for name, value in before.items():
            curta.config.update(name, value)


def _as_numpy(outs: Any) -> Outs:
    return [np.array(o) for o in outs]


def evaluated(program: Program, seed: int | None = None) -> Outs:
    """The results by `eval` rules; with noise, if there is a seed for it."""
    with settings_of(program):
        args = [curta.numpy.asarray(a) for a in arguments(program)]
        # What nobody reads may be a linear call without a forward rule.
        closed = prune(curta.make_jaxpr(transformed(program, INSTRUCTIONS))(*args))
        given, variables = _as_numpy(args), closed.jaxpr.constvars
        consts = [
            const_as_numpy(c, v.aval)
            for c, v in zip(closed.consts, variables, strict=True)
        ]
        if seed is None:
            return evaluate(closed.jaxpr, consts, given)
        # Constants are operands too: of them, what is 0 by chance rounds to something.
        noise = Noise(seed)
        with watching(noise.after):
            return evaluate(closed.jaxpr, [*map(noise, consts)], [*map(noise, given)])


class Noise:
    """Moves numbers by a few units in the last place, at random."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        if not curta.numpy.issubdtype(x.dtype, np.inexact):
            return x
        if x.dtype.kind == "c":
            return self(x.real) + 1j * self(x.imag).astype(x.dtype)
        step = ULPS * float(curta.numpy.finfo(x.dtype).eps)
        factor = 1 + step * self.random.choice([-1.0, 1.0], x.shape)
        return np.asarray(x.astype(np.float64) * factor).astype(x.dtype)

    def after(self, eqn: Eqn, outs: list[np.ndarray]) -> None:
        """Replace what an eqn computed."""
        outs[:] = map(self, outs)


def compiled(program: Program) -> Outs:
    """The results of the compiled program, which also must not change when repeated."""
    with settings_of(program):
        fun = curta.jit(transformed(program, INSTRUCTIONS))
        args = list(map(curta.numpy.asarray, arguments(program)))
        outs = _as_numpy(fun(*args))
        _same_bits(outs, _as_numpy(fun(*args)), "called again")
        for given, now in zip(arguments(program), args, strict=True):
            _same_bits([np.array(curta.numpy.asarray(given))], [np.array(now)], "args")
    return outs


def donated(program: Program) -> Outs:
    """The results where arguments lend their memory to results."""
    count = len(program.arguments)
    which = tuple(i for i in range(count) if program.donated >> i & 1)
    with settings_of(program):
        fun = curta.jit(transformed(program, INSTRUCTIONS), donate_argnums=which)
        return _as_numpy(fun(*map(curta.numpy.array, arguments(program))))


def eager(program: Program) -> Outs:
    """The results op by op, large ones by compiled ops."""
    with settings_of(program):
        fun = transformed(program, INSTRUCTIONS)
        return _as_numpy(fun(*map(curta.numpy.asarray, arguments(program))))


def _same_bits(a: Outs, b: Outs, what: str) -> None:
    for n, (x, y) in enumerate(zip(a, b, strict=True)):
        if x.dtype != y.dtype or x.shape != y.shape:
            raise Mismatch(
                f"{what}: result {n} is {x.dtype}{x.shape} and {y.dtype}{y.shape}"
            )
        if x.tobytes() != y.tobytes() and not _equal_but_nans(x, y):
            raise Mismatch(f"{what}: result {n} differs:\n{x}\n{y}")


def _equal_but_nans(x: np.ndarray, y: np.ndarray) -> bool:
    if x.dtype.kind in "biu":
        return False
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    return np.array_equal(x.astype(wide), y.astype(wide), equal_nan=True)


def outcome(fun: Callable[[Program], Outs], program: Program) -> Outs | str:
    """The results, or the class of the error that refuses the program."""
    try:
        return fun(program)
    except REFUSALS as error:
        return type(error).__name__


def compare(program: Program, got: Outs | str, wanted: Outs | str, what: str) -> None:
    """Raise `Mismatch` if results differ by more than rounding explains."""
    if isinstance(got, str) or isinstance(wanted, str):
        if isinstance(got, str) != isinstance(wanted, str):
            short = [x if isinstance(x, str) else "no error" for x in (got, wanted)]
            raise Mismatch(f"{what}: {short[0]}, by eval {short[1]}")
        return
    for n, (x, y) in enumerate(zip(got, wanted, strict=True)):
        if x.dtype != y.dtype or x.shape != y.shape:
            raise Mismatch(
                f"{what}: result {n} is {x.dtype}{x.shape}, by eval {y.dtype}{y.shape}"
            )
    runs = [wanted]
    for first, last in ((0, NOISY_RUNS), (NOISY_RUNS, MORE_NOISY_RUNS)):
        if not any(_beyond(x, ys).any() for x, *ys in zip(got, *runs, strict=True)):
            return
        runs += [evaluated(program, seed) for seed in range(first, last)]
    for n, (x, *ys) in enumerate(zip(got, *runs, strict=True)):
        bad = _beyond(x, ys)
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            raise Mismatch(
                f"{what}: result {n}, {x.dtype}{x.shape}, differs in {bad.sum()} of"
                f" {bad.size} elements; at {at} {x[at]!r}, by eval {ys[0][at]!r},"
                f" with noise {[y[at] for y in ys[1:4]]}"
            )


def _beyond(x: np.ndarray, runs: Outs) -> np.ndarray:
    """Where `x` is farther from the first run than the others lead to expect."""
    if x.dtype.kind in "biu":
        bad = x != runs[0]
        for y in runs[1:]:  # what rounding decides is nobody's fault
            bad &= y == runs[0]
        return bad
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    eps = float(curta.numpy.finfo(x.dtype).eps)
    tiny = float(curta.numpy.finfo(x.dtype).tiny)
    x, *ys = (v.astype(wide) for v in (x, *runs))
    with np.errstate(all="ignore"):
        spread = np.max([np.zeros(x.shape), *(abs(y - ys[0]) for y in ys[1:])], 0)
        near = abs(x - ys[0]) <= 8 * spread + 64 * eps * abs(ys[0]) + 4 * tiny
    same = (x == ys[0]) | (np.isnan(x) & np.isnan(ys[0]))
    unstable = ~np.isfinite(spread)
    for y in ys[1:]:
        unstable |= np.isfinite(y) != np.isfinite(ys[0])
    return ~(near | same | unstable)


def check(program: Program) -> tuple[Outs | str, bool]:
    """Compare compiled and eager results with `eval`; the compiled ones."""
    wanted = outcome(evaluated, program)
    got = outcome(compiled, program)
    if isinstance(wanted, str) and not isinstance(got, str) and "jvp" in str(program):
        return got, True  # a linear call in dead code has no forward rule to evaluate
    compare(program, got, wanted, "compiled")
    if program.donated:
        compare(program, outcome(donated, program), wanted, "donated")
    if "eager" in program.settings:
        compare(program, outcome(eager, program), wanted, "eager")
    return got, isinstance(wanted, str)


def same_on_threads(a: Outs | str, b: Outs | str) -> None:
    """Raise `Mismatch` unless two numbers of threads gave the same bits."""
    if isinstance(a, str) or isinstance(b, str):
        if a != b:
            raise Mismatch(f"threads: {a} and {b}")
        return
    _same_bits(a, b, "threads")
