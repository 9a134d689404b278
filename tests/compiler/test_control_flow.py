"""Loops and branches as native code, against their `eval` rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.programs import InPython, assert_compiles, staged

from curta.compiler.pipeline import compile_jaxpr
from curta.control.cond import Cond
from curta.control.scan import Scan
from curta.control.while_loop import While
from curta.primitives import elementwise as ops
from curta.primitives.dot import DotGeneral
from curta.primitives.indexing.dynamic import DynamicSlice, DynamicUpdateSlice
from curta.primitives.indexing.numbers import ScatterDimensionNumbers
from curta.primitives.indexing.scatter import Scatter
from curta.primitives.structure import BroadcastInDim, ReduceSum, Reshape

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


def test_a_body_calls_python_for_what_has_no_code() -> None:
    x = normal(8)

    def step(h: Any, x: Any) -> list[Any]:
        return [InPython()(ops.add(h, x))]

    scan = Scan(staged(step, x, x), 4, False, 0, 1)
    args = x, normal(4, 8)
    compiled = assert_compiles(staged(lambda *a: list(scan(*a)), *args), *args)
    assert compiled.native.runs_python


ROW = ScatterDimensionNumbers((), (0,), (0,))
SET = Scatter(ROW)


def place(i: Any) -> Any:
    return Reshape((1,))(i)


def test_a_loop_updates_its_carry_in_place() -> None:
    """Element by element, reading others; a loop that copied would be quadratic."""
    x = normal(4000)
    read = DynamicSlice((1,))

    def step(i: Any, x: Any) -> list[Any]:
        before = Reshape(())(read(x, ops.sub(i, np.int32(1))))
        return [
            ops.add(i, np.int32(1)),
            SET(x, place(i), ops.mul(before, np.float32(0.9))),
        ]

    start = np.asarray(np.int32(1))
    body = staged(step, start, x)
    assert compile_jaxpr(body, in_place={1: 1}).native.in_place == {1}
    scan = Scan(body, 3999, False, 0, 2)
    assert_compiles(staged(lambda *a: list(scan(*a)), start, x), start, x, rtol=1e-4)


def test_what_must_not_be_updated_in_place() -> None:
    """An argument; what is returned, read again, swapped, or a view in disguise."""
    x, i = normal(6, 4), np.asarray(np.int32(2))
    rows = Scatter(ScatterDimensionNumbers((0,), (0,), (0,)))

    def updates(x: Any, i: Any) -> list[Any]:
        y, z, w = ops.exp(x), ops.neg(x), ops.tanh(x)
        flat = Reshape((24,))(w)
        row = Reshape((4,))(ReduceSum((0,))(x))
        return [
            rows(x, place(i), row), y, rows(y, place(i), row),
            rows(z, place(i), row), ReduceSum((1,))(z),
            SET(flat, place(i), np.float32(5)), ops.add(w, w),
        ]  # fmt: skip

    before = x.copy()
    assert_compiles(staged(updates, x, i), x, i)
    np.testing.assert_array_equal(x, before)

    def swapping(x: Any, y: Any) -> list[Any]:
        zero = Reshape((1,))(np.int32(0))
        return [y, SET(x, zero, ReduceSum((0,))(y))]

    u, v = normal(5), normal(5)
    scan = Scan(staged(swapping, u, v), 5, False, 0, 2)
    assert_compiles(staged(lambda *a: list(scan(*a)), u, v), u, v)


def test_a_condition_does_not_change_the_carry() -> None:
    x = normal(5) ** 2

    def small(x: Any) -> list[Any]:
        first = SET(x, Reshape((1,))(np.int32(0)), np.float32(-50))
        return [ops.lt(ReduceSum((0,))(first), np.float32(100))]

    loop = While(staged(small, x), staged(lambda x: [ops.add(x, x)], x), 0, 0)
    assert_compiles(staged(lambda x: list(loop(x)), x), x)


ROWS = Scatter(ScatterDimensionNumbers((0,), (0,), (0,)))


def test_rows_are_updated_in_place_from_other_rows() -> None:
    """Their operands are computed before; a copy of each would be quadratic."""
    x = normal(500, 40)

    def step(i: Any, x: Any) -> list[Any]:
        before = DynamicSlice((1, 40))(x, ops.sub(i, np.int32(1)), np.int32(0))
        row = ops.sin(ops.add(Reshape((40,))(before), np.float32(1)))
        return [ops.add(i, np.int32(1)), ROWS(x, place(i), row), ReduceSum((0,))(row)]

    start = np.asarray(np.int32(1))
    body = staged(step, start, x)
    assert compile_jaxpr(body, in_place={1: 1}).native.in_place == {1}
    scan = Scan(body, 499, False, 0, 2)
    assert_compiles(staged(lambda *a: list(scan(*a)), start, x), start, x)


def test_an_update_that_overlaps_what_it_is_made_of() -> None:
    """All of the new window is computed before any of it is stored."""
    x = normal(30, 4)

    def step(i: Any, x: Any) -> list[Any]:
        zero = np.int32(0)
        window = DynamicSlice((10, 4))(x, i, zero)
        moved = DynamicUpdateSlice()(x, ops.neg(window), ops.add(i, np.int32(1)), zero)
        return [ops.add(i, np.int32(2)), moved]

    start = np.asarray(np.int32(3))
    body = staged(step, start, x)
    assert compile_jaxpr(body, in_place={1: 1}).native.in_place == {1}
    scan = Scan(body, 6, False, 0, 2)
    assert_compiles(staged(lambda *a: list(scan(*a)), start, x), start, x)


def test_an_operand_that_is_read_with_its_update_is_copied() -> None:
    x, i = normal(6, 4) + 3, np.asarray(np.int32(2))  # sums that do not cancel

    def before(x: Any, i: Any) -> list[Any]:
        total = ReduceSum((0, 1))(x)
        return [ROWS(x, place(i), normal(4)), total]

    def after(x: Any, i: Any) -> list[Any]:
        new = ROWS(x, place(i), Reshape((4,))(ReduceSum((0,))(x)))
        return [new, ReduceSum((0, 1))(x)]

    def itself(x: Any, i: Any) -> list[Any]:
        all_rows = Scatter(ScatterDimensionNumbers((0, 1), (), (0,)))
        return [all_rows(x, place(i), x)]

    def shifted(x: Any, i: Any) -> list[Any]:
        new = ROWS(x, place(i), np.ones(4, np.float32))
        return [new, ops.add(ops.sin(x), new)]

    for fun, expected in ((before, {0}), (after, {0}), (shifted, set())):
        closed = staged(fun, x, i)
        assert compile_jaxpr(closed, in_place={0: 0}).native.in_place == expected
        assert_compiles(closed, x, i)
    assert compile_jaxpr(staged(itself, x, i), in_place={0: 0}).native.in_place == set()


def test_loops_in_loops_share_the_place_of_a_carry() -> None:
    x, one = normal(40, 3), np.int32(1)

    def inner(i: Any, x: Any) -> list[Any]:
        row = Reshape((3,))(DynamicSlice((1, 3))(x, i, np.int32(0)))
        return [ops.add(i, one), ROWS(x, place(i), ops.sin(ops.add(row, row)))]

    start = np.asarray(np.int32(0))
    scan = Scan(staged(inner, start, x), 39, False, 0, 2)

    def outer(x: Any) -> list[Any]:
        total = ReduceSum((0,))(x)  # reads the carry before it is overwritten
        _, x = scan(np.int32(1), x)
        return [ROWS(x, place(np.int32(0)), total)]

    def keeps(x: Any) -> list[Any]:
        _, new = scan(np.int32(0), x)
        return [ops.add(new, x)]  # needs the carry as it was

    for turn in (outer, keeps):
        body = staged(turn, x)
        assert compile_jaxpr(body, in_place={0: 0}).native.in_place == {0}
        loop = Scan(body, 5, False, 0, 1)
        assert_compiles(staged(lambda x, loop=loop: list(loop(x)), x), x)

    before = x.copy()
    assert_compiles(staged(lambda x: [scan(np.int32(1), x)[1], ops.neg(x)], x), x)
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_results_of_loops_that_begin_with_the_same(length: int) -> None:
    """One initial value for two parts of the carry, and for what comes after."""
    x = normal(5)

    def step(a: Any, b: Any) -> list[Any]:
        zero = Reshape((1,))(np.int32(0))
        return [SET(a, zero, ReduceSum((0,))(b)), ops.mul(b, b)]

    scan = Scan(staged(step, x, x), length, False, 0, 2)

    def program(x: Any) -> list[Any]:
        start = ops.exp(x)
        return [*scan(start, start), *scan(ops.neg(x), x), ops.add(start, x)]

    assert_compiles(staged(program, x), x)


def test_a_branch_updates_what_another_hands_on() -> None:
    x, one = normal(300, 4), np.int32(1)

    def update(x: Any, i: Any) -> list[Any]:
        row = Reshape((4,))(DynamicSlice((1, 4))(x, ops.sub(i, one), np.int32(0)))
        return [ROWS(x, place(i), ops.sin(ops.add(row, row))), ReduceSum((0,))(row)]

    def leave(x: Any, i: Any) -> list[Any]:
        return [x, ops.convert_element_type(i, np.dtype("float32"))]

    def other(x: Any, i: Any) -> list[Any]:
        return [ops.neg(x), ops.convert_element_type(i, np.dtype("float32"))]

    start = np.asarray(np.int32(1))
    for branches, expected in (((update, leave), {1}), ((update, leave, other), set())):
        cond = Cond(tuple(staged(f, x, start) for f in branches))

        def step(i: Any, x: Any, cond: Any = cond) -> list[Any]:
            x, total = cond(ops.rem(i, np.int32(4)), x, i)
            return [ops.add(i, one), x, total]

        body = staged(step, start, x)
        found = compile_jaxpr(body, in_place={1: 1}).native.in_place
        assert (1 in found) == (1 in expected)
        scan = Scan(body, 299, False, 0, 2)
        closed = staged(lambda *a, scan=scan: list(scan(*a)), start, x)
        assert_compiles(closed, start, x)
        once = staged(lambda x, cond=cond: [*cond(one, x, one), ops.exp(x)], x)
        before = x.copy()
        assert_compiles(once, x)
        np.testing.assert_array_equal(x, before)
