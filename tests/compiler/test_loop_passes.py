"""The passes over loops: what they move, and that results stay what they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.programs import assert_compiles, staged

import curta
from curta.compiler.host_target import host
from curta.compiler.rewrite.prepare import prepare
from curta.control.scan import Scan
from curta.control.while_loop import While
from curta.core.jaxpr import ClosedJaxpr, Eqn
from curta.core.op import Op
from curta.primitives import elementwise as ops
from curta.primitives.dot import DotGeneral
from curta.primitives.structure import BroadcastInDim, ReduceSum, Transpose

RNG = np.random.default_rng(0)
MATMUL = DotGeneral((((1,), (0,)), ((), ())))
TURNED = DotGeneral((((1,), (1,)), ((), ())))
OUTER = DotGeneral((((0,), (0,)), ((), ())))


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def looped(op: Op, *args: Any) -> ClosedJaxpr:
    return staged(lambda *xs: list(op(*xs)), *args)


def prepared(closed: ClosedJaxpr) -> tuple[list[str], Eqn]:
    """The ops around the loop of a prepared program, and the loop."""
    eqns = prepare(closed, host()).eqns
    (loop,) = (e for e in eqns if isinstance(e.op, (Scan, While)))
    return [e.op.name for e in eqns if e is not loop], loop


def body(loop: Eqn) -> list[str]:
    jaxpr = loop.op.body_jaxpr if isinstance(loop.op, While) else loop.op.jaxpr
    return [e.op.name for e in jaxpr.eqns]


def test_what_is_constant_is_computed_once() -> None:
    w, h, xs = normal(4, 4), normal(3, 4), normal(5, 3, 4)

    def step(w: Any, h: Any, x: Any) -> list[Any]:
        scale = ops.exp(MATMUL(w, w))  # dear
        shift = ops.add(w, w)  # cheap: stays
        return [ops.tanh(ops.add(MATMUL(h, ops.add(scale, shift)), x))]

    closed = looped(Scan(staged(step, w, h, xs[0]), 5, False, 1, 1), w, h, xs)
    around, loop = prepared(closed)
    assert around == ["dot_general", "exp"]
    assert body(loop) == ["add", "add", "dot_general", "add", "tanh"]
    assert_compiles(closed, w / 4, h, xs)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("rows", [1, 3, 20])
def test_products_of_rows_are_one_product(rows: int, reverse: bool) -> None:
    """Where they are few: many are as fast by themselves."""
    w, h, xs = normal(4, 6) / 4, normal(rows, 6), normal(7, rows, 4)

    def step(w: Any, h: Any, x: Any) -> list[Any]:
        x = ops.mul(x, np.float32(2))
        h = ops.tanh(ops.add(h, MATMUL(x, w)))
        return [h, ops.add(h, MATMUL(ops.neg(x), w))]

    closed = looped(Scan(staged(step, w, h, xs[0]), 7, reverse, 1, 1), w, h, xs)
    around, loop = prepared(closed)
    assert around.count("dot_general") == (2 if rows < 16 else 0)
    assert ("dot_general" in body(loop)) == (rows >= 16)
    assert_compiles(closed, w, h, xs)


def test_a_constant_matrix_on_the_left_of_rows() -> None:
    w, h, xs = normal(6, 4) / 4, normal(6, 2), normal(7, 4, 2)

    def step(w: Any, h: Any, x: Any) -> list[Any]:
        return [ops.tanh(ops.add(h, MATMUL(w, x)))]

    closed = looped(Scan(staged(step, w, h, xs[0]), 7, False, 1, 1), w, h, xs)
    assert "dot_general" not in body(prepared(closed)[1])
    assert_compiles(closed, w, h, xs)


def test_matrices_are_turned_once() -> None:
    w, h, xs = normal(6, 6) / 6, normal(20, 6), normal(3, 20, 6)

    def step(w: Any, h: Any, x: Any) -> list[Any]:
        h = ops.add(TURNED(h, w), x)
        return [h, TURNED(h, w)]

    closed = looped(Scan(staged(step, w, h, xs[0]), 3, False, 1, 1), w, h, xs)
    around, loop = prepared(closed)
    assert around == ["transpose"]
    numbers = [e.op.dimension_numbers for e in loop.op.jaxpr.eqns if e.op.name != "add"]
    assert numbers == [MATMUL.dimension_numbers] * 2
    assert_compiles(closed, w, h, xs)


@pytest.mark.parametrize("length", [0, 1, 6])
def test_sums_of_products_are_one_product(length: int) -> None:
    h, total, sums = normal(3, 4), normal(4, 5), normal(5)
    xs, ys = normal(length, 3, 4), normal(length, 3, 5)

    def step(h: Any, total: Any, sums: Any, x: Any, y: Any) -> list[Any]:
        h = ops.tanh(ops.add(h, x))
        y = ops.mul(y, y)
        total = ops.add(ops.add(OUTER(h, y), total), OUTER(x, y))
        return [h, total, ops.add(sums, ReduceSum((0,))(y))]

    rows = normal(3, 4), normal(3, 5)
    closed = looped(
        Scan(staged(step, h, total, sums, *rows), length, False, 0, 3),
        h, total, sums, xs, ys,
    )  # fmt: skip
    if length:
        around, loop = prepared(closed)
        assert sorted(around) == ["add"] * 3 + ["dot_general"] * 2 + ["reduce_sum"]
        assert body(loop) == ["add", "tanh", "mul"]
    assert_compiles(closed, h, total, sums, xs, ys)


def test_what_is_no_sum_stays() -> None:
    """A carry that is read, shown or scaled; a term that is used twice."""
    h, total, xs = normal(3, 4), normal(4, 4), normal(6, 3, 4)

    def reads(h: Any, total: Any, x: Any) -> list[Any]:
        return [MATMUL(x, total), ops.add(total, OUTER(x, x))]

    def shows(h: Any, total: Any, x: Any) -> list[Any]:
        total = ops.add(total, OUTER(x, x))
        return [ops.add(h, x), total, total]

    def scales(h: Any, total: Any, x: Any) -> list[Any]:
        return [
            ops.add(h, x),
            ops.add(ops.mul(total, np.float32(0.5)), OUTER(x, x)),
        ]

    def doubles(h: Any, total: Any, x: Any) -> list[Any]:
        return [ops.add(h, x), ops.add(total, total)]

    def shares(h: Any, total: Any, x: Any) -> list[Any]:
        term = OUTER(x, x)
        return [ops.tanh(MATMUL(h, term)), ops.add(total, term)]

    for step in (reads, shows, scales, doubles, shares):
        scan = Scan(staged(step, h, total, xs[0]), 6, False, 0, 2)
        closed = looped(scan, h, total, xs)
        around, loop = prepared(closed)
        assert around == []
        assert loop.op.num_carry == 2
        assert_compiles(closed, h, total, xs / 4)


def test_what_nobody_reads_is_not_computed() -> None:
    h, xs = normal(3), normal(5, 3)

    def step(h: Any, n: Any, other: Any, x: Any) -> list[Any]:
        return [ops.add(h, x), ops.sin(ops.add(n, other)), other, ops.exp(n), h]

    scan = Scan(staged(step, h, h, h, h), 5, False, 0, 3)
    closed = staged(lambda h, xs: [scan(h, h, h, xs)[4]], h, xs)
    _, loop = prepared(closed)
    assert body(loop) == ["add"]
    assert len(loop.outvars) == 2
    assert_compiles(closed, h, xs)


def test_what_does_not_change_is_no_carry() -> None:
    w, x = normal(4, 4) / 4, normal(4, 4)
    limit = np.asarray(np.int32(7))

    def goes_on(i: Any, w: Any, limit: Any, x: Any) -> list[Any]:
        return [ops.lt(i, limit)]

    def turn(i: Any, w: Any, limit: Any, x: Any) -> list[Any]:
        x = ops.add(MATMUL(x, ops.exp(w)), x)
        return [ops.add(i, np.int32(1)), w, limit, ops.tanh(x)]

    zero = np.asarray(np.int32(0))
    args = zero, w, limit, x
    loop = While(staged(goes_on, *args), staged(turn, *args), 0, 0)
    closed = looped(loop, *args)
    around, found = prepared(closed)
    assert around == ["exp"]
    assert (found.op.cond_nconsts, found.op.body_nconsts) == (1, 1)
    assert len(found.outvars) == 2
    assert_compiles(closed, *args)
    assert_compiles(closed, limit, *args[1:])  # not a single turn


def test_loops_in_loops() -> None:
    """Code that the inner loop hoists is hoisted further by the outer one."""
    w, h, xs = normal(4, 4) / 4, normal(2, 4), normal(3, 5, 2, 4)

    def step(w: Any, h: Any, x: Any) -> list[Any]:
        return [ops.tanh(ops.add(MATMUL(h, MATMUL(w, w)), MATMUL(x, w)))]

    inner = Scan(staged(step, w, h, xs[0, 0]), 5, False, 1, 1)
    turn = staged(lambda w, h, x: list(inner(w, h, x)), w, h, xs[0])
    closed = looped(Scan(turn, 3, False, 1, 1), w, h, xs)
    around, loop = prepared(closed)
    assert "dot_general" in around
    assert body(loop) == ["scan"]
    assert body(loop.op.jaxpr.eqns[0]) == ["dot_general", "add", "tanh"]
    assert_compiles(closed, w, h, xs)


def test_constants_of_bodies() -> None:
    x, table = normal(4), normal(4)

    def step(x: Any) -> list[Any]:
        return [ops.add(x, ops.exp(table)), BroadcastInDim((2, 4), (1,))(table)]

    closed = looped(Scan(staged(step, x), 3, False, 0, 1), x)
    around, _ = prepared(closed)
    assert "exp" in around
    assert_compiles(closed, x)


def test_a_transposed_matrix_stays_a_constant_of_the_program() -> None:
    x = normal(20, 4)
    w = normal(4, 4)
    op = Scan(staged(lambda h: [TURNED(h, Transpose((1, 0))(w))], x), 3, False, 0, 1)
    assert_compiles(looped(op, x), x)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("length", [12, 13])
def test_long_loops_go_in_blocks(length: int, reverse: bool, limits: Any) -> None:
    """If the length has a divisor; results are stacked in the order of turns."""
    limits(loop_block_bytes=4 * 4 * (2 * 5 + 3 * 5 + 3 * 4))
    w, h, total = normal(4, 5) / 4, normal(3, 5), normal(4, 5)
    xs = normal(length, 3, 4)

    def step(w: Any, h: Any, total: Any, x: Any) -> list[Any]:
        h = ops.tanh(ops.add(h, MATMUL(x, w)))
        return [h, ops.add(total, OUTER(ops.exp(x), h)), h]

    body_of = staged(step, w, h, total, xs[0])
    closed = looped(Scan(body_of, length, reverse, 1, 2), w, h, total, xs)
    _, loop = prepared(closed)
    if length == 12:
        assert loop.op.length == 3
        assert body(loop).count("dot_general") == 2
        (turns,) = (e for e in loop.op.jaxpr.eqns if e.op.name == "scan")
        assert turns.op.length == 4
    else:
        assert loop.op.length == length
    assert_compiles(closed, w, h, total, xs)


def test_rows_that_follow_from_others_are_computed_again() -> None:
    """Those that are dear, returned, or follow from the carry alone are stored."""
    w, h, xs = normal(4), normal(3, 4), normal(6, 3, 4)

    def first(w: Any, h: Any, x: Any) -> list[Any]:
        z = ops.logistic(ops.add(h, x))
        rest = ops.sub(np.float32(1), z)
        slope = ops.mul(z, rest)
        scaled = ops.mul(x, BroadcastInDim((3, 4), (1,))(w))
        twice = ops.add(h, h)
        return [ops.mul(h, z), z, rest, slope, scaled, twice, slope, ops.neg(z)]

    def second(c: Any, *rows: Any) -> list[Any]:
        for row in rows:
            c = ops.add(ops.mul(c, row), row)
        return [ops.sin(c)]

    forward = Scan(staged(first, w, h, xs[0]), 6, False, 1, 1)
    backward = Scan(staged(second, h, *[h] * 6), 6, True, 0, 1)

    def program(w: Any, h: Any, xs: Any) -> list[Any]:
        _, *stored, returned = forward(w, h, xs)
        return [*backward(h, *stored), returned]

    closed = staged(program, w, h, xs)
    loops = [e for e in prepare(closed, host()).eqns if isinstance(e.op, Scan)]
    assert [v.aval.shape for v in loops[0].outvars] == [(3, 4)] + [(6, 3, 4)] * 3
    assert len(loops[1].op.jaxpr.in_avals) == 1 + 1 + 3
    assert_compiles(closed, w, h, xs)


def test_what_is_read_or_stacked_twice() -> None:
    h, xs = normal(3), normal(5, 3)

    def step(h: Any, x: Any, y: Any) -> list[Any]:
        h = ops.sin(ops.add(h, ops.mul(x, y)))
        return [h, h, h]

    scan = Scan(staged(step, h, h, h), 5, False, 0, 1)
    closed = staged(lambda h, xs: list(scan(h, xs, xs)), h, xs)
    _, loop = prepared(closed)
    assert (len(loop.invars), len(loop.outvars)) == (2, 2)
    assert_compiles(closed, h, xs)


def test_rows_of_cheap_arrays_are_computed_in_the_loop() -> None:
    h, a, b, xs = normal(3), normal(), normal(5), normal(5, 3)

    def step(h: Any, x: Any, y: Any) -> list[Any]:
        return [ops.sin(ops.add(h, ops.mul(x, y))), h]

    scan = Scan(staged(step, h, h, h), 5, True, 0, 1)

    def program(h: Any, a: Any, b: Any, xs: Any) -> list[Any]:
        wide = BroadcastInDim((5, 3), ())
        cheap = ops.mul(ops.add(xs, xs), wide(a))
        along = BroadcastInDim((5, 3), (0,))(b)  # differs from row to row
        dear = ops.exp(ops.neg(xs))
        shown = ops.neg(xs)
        return [
            *scan(h, cheap, along), *scan(h, dear, shown),
            *scan(h, wide(np.float32(2)), cheap), shown,
        ]  # fmt: skip

    closed = staged(program, h, a, b, xs)
    loops = [e for e in prepare(closed, host()).eqns if isinstance(e.op, Scan)]
    rows = [len(e.invars) - e.op.num_consts - e.op.num_carry for e in loops]
    assert rows == [2, 2, 1]  # what two loops read stays an array
    assert_compiles(closed, h, a, b, xs)

    def alone(h: Any, a: Any, xs: Any) -> list[Any]:
        both = ops.mul(ops.add(xs, xs), BroadcastInDim((5, 3), ())(a))
        return list(scan(h, both, xs))

    closed = staged(alone, h, a, xs)
    around, loop = prepared(closed)
    assert around == []
    assert len(loop.invars) == 3
    assert_compiles(closed, h, a, xs)


@pytest.mark.parametrize("shape", [(3, 0), (0, 3), (0, 0)])
def test_products_with_matrices_without_elements(shape):
    rows = np.ones((4, 2, shape[1]), np.float32)

    def products(w, xs):
        return curta.lax.scan(lambda c, x: (c, x @ w.T), 0.0, xs)[1]

    found = curta.jit(products)(np.ones(shape, np.float32), rows)
    np.testing.assert_array_equal(found, np.zeros((4, 2, shape[0]), np.float32))
