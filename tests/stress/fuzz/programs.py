"""Random programs as data, and the functions that they describe.

A `Program` is a list of instructions over a list of values. An `Instruction` names one
of `INSTRUCTIONS`; its integers are taken modulo whatever they choose from, so that
every program is valid and Hypothesis can shrink it freely.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import curta
import curta.numpy as jnp
from curta import dtypes

DTYPES = (
    *("float32", "float64", "int32", "bool", "complex64", "float16", "bfloat16"),
    *("int64", "uint8", "int8", "uint32", "complex128", "int16", "uint16", "uint64"),
)
SHAPES = (
    *((), (3,), (1,), (0,), (2, 3), (4, 1), (5, 4), (1, 1, 2), (3, 0, 2), (2, 3, 4)),
    *((17,), (8, 16), (33, 7), (2, 2, 2, 2), (130,), (64, 65)),
)
EVEN = ((8,), (16, 4), (4, 8), (8, 6), (2, 4, 8), (8, 3, 4), (8, 1, 2), (4, 4))
# Of which some dims can be shared out by eight, four, two or three, and some by none.
UNEVEN = (*EVEN, (12,), (10, 8), (24, 2), (5, 8), (16,), (6, 4, 2))
LARGE = ((40_000,), (300, 200), (20, 30, 70))


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One step: its name, the integers that it chooses by, and bodies it contains."""

    name: str
    choices: tuple[int, ...]
    bodies: tuple[tuple[Instruction, ...], ...] = ()


@dataclasses.dataclass(frozen=True)
class Program:
    """Arguments, steps, and the transformations around them, innermost first."""

    seed: int
    arguments: tuple[tuple[int, int], ...]  # a dtype and a shape of each
    steps: tuple[Instruction, ...]
    transformations: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    donated: int = 0  # a bit for each argument

    def to_json(self) -> str:
        """The program as text."""
        return json.dumps(dataclasses.asdict(self))

    @staticmethod
    def from_json(text: str) -> Program:
        """The program that `to_json` wrote."""
        data = json.loads(text)
        return Program(
            data["seed"],
            tuple(map(tuple, data["arguments"])),
            _steps(data["steps"]),
            tuple(data["transformations"]),
            tuple(data["settings"]),
            data["donated"],
        )


def _steps(data: Any) -> tuple[Instruction, ...]:
    return tuple(
        Instruction(d["name"], tuple(d["choices"]), tuple(map(_steps, d["bodies"])))
        for d in data
    )


def shapes(program: Program) -> Sequence[tuple[int, ...]]:
    """The shapes that its integers choose from."""
    if "even" in program.settings:
        return EVEN
    if "uneven" in program.settings:
        return UNEVEN
    return SHAPES + LARGE if "large" in program.settings else SHAPES


def arguments(program: Program) -> list[np.ndarray]:
    """NumPy arrays to call the program with, the same ones each time."""
    rng = np.random.default_rng(program.seed)
    sizes = shapes(program)
    return [
        random_array(rng, sizes[s % len(sizes)], DTYPES[d % len(DTYPES)])
        for d, s in program.arguments
    ]


def random_array(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: str
) -> np.ndarray:
    """Numbers around 1; now and then a zero of either sign, an infinity or a NaN."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        return rng.integers(0, 7, shape).astype(kind)
    values = rng.normal(size=shape)
    if rng.random() < 0.15:
        special = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30], shape)
        values = np.where(rng.random(shape) < 0.1, special, values)
    if kind.kind == "c":
        values = values + 1j * rng.normal(size=shape)
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(kind)


class Values:
    """The values of a running program, and how instructions choose among them."""

    def __init__(self, values: Sequence[Any]):
        self.values = list(values)

    def __getitem__(self, choice: int) -> Any:
        return self.values[choice % len(self.values)]

    def like(self, choice: int, shape: tuple[int, ...], dtype: Any) -> Any:
        """A value made to have a shape and a dtype."""
        return fit(self[choice], shape, dtype)

    def inexact(self, choice: int) -> Any:
        """A value made inexact, if it is not."""
        x = self[choice]
        return x if jnp.issubdtype(x.dtype, jnp.inexact) else fit(x, x.shape, "float32")

    def real(self, choice: int) -> Any:
        """A value that has an order."""
        x = self[choice]
        return x.real if jnp.iscomplexobj(x) else x

    def number(self, choice: int) -> Any:
        """A value that is not of booleans."""
        x = self[choice]
        return x.astype("int32") if x.dtype == bool else x


def fit(x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """The elements of `x`, repeated or cut to `shape`, as `dtype`."""
    dtype = np.dtype(dtypes.canonicalize_dtype(np.dtype(dtype)))
    if x.shape != shape:
        x = jnp.resize(x, shape) if x.size else jnp.zeros(shape, x.dtype)
    if x.dtype == dtype:
        return x
    if jnp.iscomplexobj(x) and dtype.kind != "c":
        x = x.real
    if dtype.kind == "b":
        return x > 0
    if jnp.issubdtype(x.dtype, jnp.floating) and dtype.kind in "iu":
        # Between two integers, so that rounding does not decide which it is.
        x = jnp.clip(jnp.nan_to_num(x), 0, 50)
    return x.astype(dtype)


def run(
    steps: Sequence[Instruction],
    values: Values,
    instructions: dict[str, Callable[..., Any]],
) -> list[Any]:
    """Do the steps; all values there are then."""
    for step in steps:
        out = instructions[step.name](values, step)
        values.values.extend(out if isinstance(out, (list, tuple)) else [out])
    return values.values


def function(
    program: Program, instructions: dict[str, Callable[..., Any]]
) -> Callable[..., list[Any]]:
    """The function of arrays to a list of arrays, without the transformations."""

    def fun(*args: Any) -> list[Any]:
        values = Values([jnp.asarray(a) for a in args])
        return run(program.steps, values, instructions)[-4:]

    return fun


def _summed(fun: Callable[..., list[Any]]) -> Callable[..., Any]:
    """The function with a number to differentiate, of the inexact arguments."""

    def loss(*args: Any) -> Any:
        total = jnp.float32(0)
        for out in fun(*args):
            if jnp.issubdtype(out.dtype, jnp.inexact):
                total += jnp.tanh(jnp.abs(out)).astype("float32").sum()
        return total

    return loss


def _inexact(args: Sequence[Any]) -> tuple[int, ...]:
    return tuple(i for i, a in enumerate(args) if jnp.issubdtype(a.dtype, jnp.inexact))


def _grad(fun: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    def gradients(*args: Any) -> list[Any]:
        which = _inexact(args)
        if not which:
            return fun(*args)
        return list(curta.grad(_summed(fun), which, holomorphic=False)(*args))

    return gradients


def _jvp(fun: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    def tangents(*args: Any) -> list[Any]:
        which = _inexact(args)

        def of_inexact(*some: Any) -> list[Any]:
            all_args = list(args)
            for i, a in zip(which, some, strict=True):
                all_args[i] = a
            outs = fun(*all_args)
            return [o for o in outs if jnp.issubdtype(o.dtype, jnp.inexact)]

        points = [args[i] for i in which]
        if not points:
            return fun(*args)
        return curta.jvp(of_inexact, points, [jnp.cos(p) for p in points])[1]

    return tangents


def _vmap(fun: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    def batched(*args: Any) -> list[Any]:
        stacked = [jnp.stack([a, jnp.flip(a)], a.ndim) for a in args]
        return curta.vmap(fun, [a.ndim for a in args])(*stacked)

    return batched


TRANSFORMATIONS: dict[str, Callable[..., Any]] = {
    "jit": curta.jit,
    "grad": _grad,
    "jvp": _jvp,
    "vmap": _vmap,
    "remat": curta.checkpoint,
}


def transformed(
    program: Program, instructions: dict[str, Callable[..., Any]]
) -> Callable[..., list[Any]]:
    """The function that the program describes."""
    fun = function(program, instructions)
    for name in program.transformations:
        fun = TRANSFORMATIONS[name](fun)
    return fun
