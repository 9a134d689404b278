"""Loops and branches as native code, against their `eval` rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.programs import assert_compiles, staged

from curta.control.cond import Cond
from curta.control.scan import Scan
from curta.control.while_loop import While
from curta.ops import elementwise as ops
from curta.ops.dot import DotGeneral
from curta.ops.sorting import Sort
from curta.ops.structure import BroadcastInDim, ReduceSum

RNG = np.random.default_rng(0)
MATVEC = DotGeneral((((0,), (0,)), ((), ())))


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [0, 1, 2, 9])
def test_scan(length: int, reverse: bool) -> None:
    weights, state, rows = normal(6, 6) / 3, normal(6), normal(length, 6)

    def step(w: Any, h: Any, n: Any, x: Any) -> list[Any]:
        h = ops.tanh(ops.add(MATVEC(h, w), x))
        return [h, ops.add(n, np.int32(1)), h, ReduceSum((0,))(x)]

    body = staged(step, weights, state, np.int32(0), normal(6))
    scan = Scan(body, length, reverse, 1, 2)
    args = weights, state, np.asarray(np.int32(5)), rows
    compiled = assert_compiles(staged(lambda *a: list(scan(*a)), *args), *args)
    assert compiled.native is not None


def test_while() -> None:
    limit, step, x = np.asarray(np.float32(100)), normal(4) ** 2 + 1, normal(4)
    total = staged(lambda m, x: [ops.lt(ReduceSum((0,))(x), m)], limit, x)
    grow = staged(lambda s, x: [ops.add(x, s)], step, x)
    loop = While(total, grow, 1, 1)
    for start in (x, x + 1000):  # many turns, and none
        args = limit, step, start
        compiled = assert_compiles(staged(lambda *a: list(loop(*a)), *args), *args)
        assert compiled.native is not None


@pytest.mark.parametrize("index", [-3, 0, 1, 2, 9])
def test_cond(index: int) -> None:
    x = normal(5, 3)
    branches = tuple(
        staged(fun, x)
        for fun in (
            lambda x: [ops.exp(x), ReduceSum((0,))(x)],
            lambda x: [ops.neg(x), ReduceSum((0,))(ops.mul(x, x))],
            lambda x: [x, BroadcastInDim((3,), ())(np.float32(7))],
        )
    )
    args = np.asarray(np.int32(index)), x
    compiled = assert_compiles(
        staged(lambda i, x: list(Cond(branches)(i, ops.add(x, x))), *args), *args
    )
    assert compiled.native is not None


def test_nested_loops_of_complex_numbers_and_bools() -> None:
    z, flags = (normal(3) + 1j * normal(3)).astype(np.complex64), normal(3) > 0

    def inner(z: Any, x: Any) -> list[Any]:
        return [ops.mul(z, x), z]

    scan = Scan(staged(inner, z, z), 3, False, 0, 1)

    def outer(z: Any, flags: Any, zs: Any) -> list[Any]:
        z, all_z = scan(z, zs)
        return [z, ops.not_(flags), ReduceSum((0,))(all_z)]

    rows = (normal(3, 3) + 1j * normal(3, 3)).astype(np.complex64)
    twice = Scan(staged(outer, z, flags, rows), 2, False, 0, 2)
    stacked = np.stack([rows, rows[::-1]])
    args = z, flags, stacked
    assert_compiles(staged(lambda *a: list(twice(*a)), *args), *args, rtol=1e-4)


def test_a_body_with_a_step_in_python_runs_in_python() -> None:
    x = normal(8)

    def step(h: Any, x: Any) -> list[Any]:
        (low,) = Sort(dimension=0, num_keys=1)(ops.add(h, x))
        return [low]

    scan = Scan(staged(step, x, x), 4, False, 0, 1)
    args = x, normal(4, 8)
    compiled = assert_compiles(staged(lambda *a: list(scan(*a)), *args), *args)
    assert compiled.native is None
