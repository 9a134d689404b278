"""Regions as data: their printed form, and the checks on them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.programs import staged

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.check import InvalidKernel, check_region
from curta.compiler.loops.index import ZERO, LoopVar, as_index
from curta.compiler.loops.nodes import (
    Block,
    Buffer,
    Call,
    Carry,
    Copy,
    For,
    If,
    LoopNest,
    Pack,
    Region,
    Store,
    View,
    While,
)
from curta.compiler.pipeline import compile_jaxpr

FLOAT32, BOOL = np.dtype("float32"), np.dtype("bool")

SCAN = """
    lanes of lane8:8:
        t0:float32 = in0[lane8]
        r1[lane8] = t0
    lanes of lane24:24:
        t0:float32 = in1[lane24]
        r2[lane24] = t0
    for iteration3:3 in reverse:
        carry r4 = r1, then r7, at last r9
        lanes of lane8:8:
            t0:float32 = in1[8*iteration3:][lane8]
            r6[lane8] = t0
        lanes of lane8:8:
            t0:float32 = r4[lane8]
            t1:float32 = r6[lane8]
            t2:float32 = mul t0, t1
            r7[lane8] = t2
        lanes of lane8:8:
            t0:float32 = r4[lane8]
            v3[8*iteration3:][lane8] = t0
    lanes of lane8:8:
        t0:float32 = r9[lane8]
        v2[lane8] = t0
"""


def test_a_scan_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CURTA_DUMP", "fuse")
    ones = np.ones(8, np.float32), np.ones((3, 8), np.float32)
    compile_jaxpr(
        staged(
            lambda c, xs: lax.scan(lambda c, x: (c * x, c), c, xs, reverse=True), *ones
        )
    )
    assert SCAN in capsys.readouterr().err


WHILE = """
    v1 = in0
    while:
        carry v1.now = v1, then v1.then, at last v1.last
        carry v1.then = next0, then v1.now, at last v1.other
        goes_on = call v1.now
        t0:bool = goes_on[0]
        goes_on[0] = t0
    goes on if goes_on, with:
        v1.then = call v1.now
    v1 = v1.last
"""


def test_a_loop_around_programs_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two places take turns: each carry hands on the address of the other one."""
    monkeypatch.setenv("CURTA_DUMP", "fuse")
    monkeypatch.setenv("CURTA_CHECK", "1")

    def loop(x):
        return [lax.while_loop(lambda c: c.sum() < 9, lambda c: c + c[::-1], x)]

    compile_jaxpr(staged(loop, np.ones(300, np.float32)))
    assert WHILE in capsys.readouterr().err


def test_programs_are_called_with_what_they_take() -> None:
    program = compile_jaxpr(staged(lambda x: [x + 1], np.ones(4, np.float32))).native
    x, y, short = (Buffer(n, FLOAT32, s) for n, s in (("x", 4), ("y", 4), ("short", 3)))
    check_region(Region((Call(program, (y,), (x,)),)), [x, y])
    with pytest.raises(InvalidKernel, match="is called with"):
        check_region(Region((Call(program, (y,), (short,)),)), [y, short])
    with pytest.raises(InvalidKernel, match="x is not there yet"):
        check_region(Region((Call(program, (y,), (x,)),)), [y])


def value(name: str, size: int = 4) -> Buffer:
    return Buffer(name, FLOAT32, size, "register")


def copied(to: Buffer, source: Buffer) -> LoopNest:
    lane = LoopVar("lane", to.size)
    load = ScalarBuilder().load_where(source, as_index(lane), None, source.dtype)
    return LoopNest((lane,), (Store(to, as_index(lane), load),), ())


X, Y = Buffer("x", FLOAT32, 4), Buffer("y", FLOAT32, 4)
A, B, C, D = map(value, "abcd")
FLAG = Buffer("flag", BOOL, 1, "register")
READ, STEP, WRITTEN = copied(A, X), copied(C, B), copied(Y, D)


def check(*block: object) -> None:
    statements: Block = block  # type: ignore[assignment]
    check_region(Region(statements), (X, Y))


CARRY = Carry(A, B, C, D)


def loop(*body: LoopNest, carry: Carry = CARRY) -> For:
    return For(LoopVar("i", 3), (carry,), body)


def test_good_regions_pass() -> None:
    check(READ, loop(STEP), WRITTEN)
    check(copied(FLAG, FLAG_IN_MEMORY), READ, If(FLAG, ((), ()), ((A,), (A,)), (D,)))
    row = Buffer("row", FLOAT32, 2, View(X, as_index(LoopVar("i", 3)) + 1))
    check(copied(value("e", 2), row), Copy(Y, X))


FLAG_IN_MEMORY = Buffer("f", BOOL, 1, View(Buffer("m", BOOL, 1, "stack"), ZERO))


def test_values_are_made_before_they_are_read() -> None:
    with pytest.raises(InvalidKernel, match="a is not there yet"):
        check(loop(STEP))
    with pytest.raises(InvalidKernel, match="c is not there yet"):
        check(READ, loop())
    with pytest.raises(InvalidKernel, match="c is not there yet"):  # of an iteration
        check(READ, loop(STEP), copied(Y, C))
    with pytest.raises(InvalidKernel, match="flag is not there yet"):
        check(READ, While((CARRY,), (), FLAG, (STEP,)))
    with pytest.raises(InvalidKernel, match="z is not there yet"):
        check(copied(A, Buffer("row", FLOAT32, 4, View(value("z"), ZERO))))


def test_rows_are_packed_into_as_many_elements() -> None:
    rows, columns = (Buffer(name, FLOAT32, 64) for name in ("rows", "columns"))
    check_region(Region((Pack(rows, columns, 16, 4),)), [rows, columns])
    with pytest.raises(InvalidKernel, match="rows is packed as columns"):
        check_region(Region((Pack(rows, columns, 17, 4),)), [rows, columns])


def test_what_is_handed_on_fits() -> None:
    with pytest.raises(InvalidKernel, match="a becomes e"):
        check(READ, loop(STEP, carry=Carry(A, value("e", 8), C, D)))
    with pytest.raises(InvalidKernel, match="is copied to x"):
        check(Copy(X, Buffer("s", FLOAT32, 8, "stack")))
    with pytest.raises(InvalidKernel, match="uses"):
        check(LoopNest((), READ.stores, ()))


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_booleans_of_examples_are_bytes(count):
    def run(x):
        def body(c, _):
            c = c * 1.5 - jnp.sin(c)
            return c, jnp.stack([c > 0.1 * i for i in range(count)])

        return lax.scan(body, x, None, length=3)[1]

    x = np.linspace(-2, 2, 512, dtype=np.float32)
    got = np.asarray(curta.jit(curta.vmap(run))(x)).view(np.uint8)
    with curta.disable_jit():
        want = np.asarray(curta.vmap(run)(x)).view(np.uint8)
    np.testing.assert_array_equal(got, want)
