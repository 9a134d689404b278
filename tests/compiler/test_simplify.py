"""Every rewrite: that it applies, and that special values survive it bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.compiler.programs import staged

import curta
from curta.compiler.host_target import host
from curta.compiler.rewrite.simplify import simplify
from curta.compiler.rewrite.sorting import OrderOfRows
from curta.core.evaluate import evaluate
from curta.core.jaxpr import Jaxpr
from curta.primitives import elementwise as ops
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.indexing.dynamic import DynamicUpdateSlice
from curta.primitives.indexing.gather import Gather, ScatterAdd
from curta.primitives.indexing.numbers import (
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
)
from curta.primitives.indexing.scatter import Scatter
from curta.primitives.joining import Concatenate, Split, Stack, Unstack
from curta.primitives.shape import Iota, Squeeze, Tile
from curta.primitives.slicing import Slice
from curta.primitives.structure import BroadcastInDim, ReduceSum, Reshape, Transpose
from curta.transforms.dce import dce_jaxpr

SPECIAL = np.array(
    [[0.0, -0.0, 1.0, -1.5], [np.inf, -np.inf, np.nan, 3e38], [1e-45, -2e-39, 7, 1e-3]],
    np.float32,
)
ONE, ZERO = np.float32(1), np.float32(0)
MATMUL = DotGeneral((((1,), (0,)), ((), ())))
INT = np.dtype(np.int32)
TAKEN = Gather(GatherDimensionNumbers((), (1,), (1,), (0,), (0,)), (1, 1))
WRITTEN = Scatter(ScatterDimensionNumbers((0, 1), (), ()))
ADDED = ScatterAdd(ScatterDimensionNumbers((), (1,), (1,), (0,), (0,)))


def names(jaxpr: Jaxpr) -> list[str]:
    return [e.op.name for e in jaxpr.eqns]


def splat(number: Any) -> Any:
    dtype = np.float32 if isinstance(number, float) else None
    return BroadcastInDim((3, 4), ())(np.asarray(number, dtype)[()])


CASES: dict[str, tuple[Callable[[Any], list[Any]], list[str]]] = {
    "identity": (
        lambda x: [ops.neg(Reshape((3, 4))(ConvertElementType(np.dtype("f4"))(x)))],
        ["neg"],
    ),
    "fold_scalars": (lambda x: [ops.mul(x, ops.add(ONE, ONE))], ["mul"]),
    "fold_splats": (
        lambda x: [ops.mul(x, ops.add(splat(2.0), ops.neg(splat(np.inf))))],
        ["broadcast_in_dim", "mul"],
    ),
    "select_known": (
        lambda x: [
            ops.select_n(ops.lt(splat(2.0), splat(3.0)), ops.sin(x), ops.neg(x)),
            ops.select_n(splat(np.int32(9)), ops.sin(x), ops.cos(x), ops.neg(x)),
        ],
        ["neg"],
    ),
    "reshaped_twice": (
        lambda x: [Transpose((0, 1))(Reshape((2, 6))(Reshape((12,))(x)))],
        ["reshape"],
    ),
    "transposed_twice": (
        lambda x: [Transpose((1, 0))(Transpose((1, 0))(x))],
        ["transpose"],
    ),
    "broadcast_twice": (
        lambda x: [
            BroadcastInDim((2, 5, 3, 4), (1, 2, 3))(
                BroadcastInDim((5, 3, 4), (1, 2))(x)
            )
        ],
        ["broadcast_in_dim"],
    ),
    "times_one": (lambda x: [ops.mul(ONE, ops.mul(x, ONE))], []),
    "over_one": (lambda x: [ops.div(x, ONE)], []),
    "less_zero": (lambda x: [ops.sub(x, ZERO)], []),
    "negated_twice": (lambda x: [ops.neg(ops.neg(x))], []),
    "divided_by_power_of_two": (lambda x: [ops.div(x, np.float32(8))], ["mul"]),
    "power_of_a_half": (
        lambda x: [ops.pow_(x, np.float32(0.5)), ops.pow_(x, np.float32(-0.5))],
        ["sqrt", "add", "eq", "broadcast_in_dim", "select_n", "div"],
    ),
    "power_of_two": (lambda x: [ops.pow_(x, np.float32(2))], ["mul"]),
    "tile_into_broadcast": (
        lambda x: [Tile((1, 2))(x), Tile((2, 1))(x)],
        ["broadcast_in_dim", "reshape"] * 2,
    ),
    "joined_twice": (
        lambda x: [Concatenate(1)(Concatenate(1)(x, x), Concatenate(1)(x))],
        ["concatenate"],
    ),
    "rows_into_columns": (
        lambda x: [
            Transpose((1, 0))(Concatenate(0)(Slice((0, 0), (1, 4), None)(x), x[1:2]))
        ],
        ["slice", "slice", "transpose", "transpose", "concatenate"],
    ),
    "slice_of_a_part": (
        lambda x: [
            Slice((0, 5), (2, 7), None)(Concatenate(1)(x, ops.neg(x))),
            Slice((0, 4), (3, 8), None)(Concatenate(1)(ops.neg(x), x)),
            Slice((0, 0), (3, 3), (1, 2))(Concatenate(1)(x, x)),
        ],
        ["neg", "slice", "slice"],
    ),
    "split_into_slices": (lambda x: Split((1, 3), 1)(x), ["slice", "slice"]),
    "unstack_into_slices": (
        lambda x: Unstack(0)(x),
        ["slice", "reshape"] * 3,
    ),
    "stack_into_concatenate": (
        lambda x: [Stack(1)(x, ops.neg(x))],
        ["neg", "reshape", "reshape", "concatenate"],
    ),
    "transpose_into_dot": (
        lambda x: [MATMUL(Transpose((1, 0))(x), x)],
        ["dot_general"],
    ),
    "transpose_of_dot": (
        lambda x: [Transpose((1, 0))(MATMUL(x, Reshape((4, 3))(x)))],
        ["reshape", "dot_general"],
    ),
    "is_reshape": (
        lambda x: [
            Squeeze((1,))(BroadcastInDim((2, 1, 6), (0, 2))(Reshape((2, 6))(x))),
            BroadcastInDim((2, 6, 1), (0, 1))(Squeeze((0,))(Reshape((1, 2, 6))(x))),
        ],
        ["reshape", "reshape"],
    ),
    "sum_of_one": (lambda x: [ReduceSum((1,))(Reshape((2, 1, 6))(x))], ["reshape"]),
    "order_of_iota": (
        lambda x: [TAKEN(Iota(INT, (3, 4), 1)(), Reshape((3, 4, 1))(OrderOfRows()(x)))],
        ["order_of_rows"],
    ),
    "add_one_to_each_row": (
        lambda x: [
            ADDED(splat(1.0), Iota(INT, (3, 1), 0)(), Slice((2,), (5,))(x.reshape(12)))
        ],
        "broadcast_in_dim iota reshape slice reshape iota broadcast_in_dim"
        " eq reshape broadcast_in_dim add select_n".split(),
    ),
    "scatter_of_all": (lambda x: [WRITTEN(-x, np.zeros(0, INT), ops.neg(x))], ["neg"]),
    "update_of_all": (
        lambda x: [DynamicUpdateSlice()(x, ops.neg(x), np.int32(1), np.int32(2))],
        ["neg"],
    ),
    "no_iterations": (
        lambda x: [*curta.lax.scan(lambda c, _: (c * 2, c), x, None, length=0)],
        ["broadcast_in_dim"],
    ),
}


@pytest.mark.parametrize("name", [r.name for r in simplify.rewrites])
def test_rewrite(name: str) -> None:
    """Each row of the table has a case here; adding one means adding the other."""
    fun, left = CASES[name]
    x = SPECIAL
    if "dot" in name:
        x = np.arange(12, dtype=np.float32).reshape(3, 4)
    closed = staged(fun, x)
    rewritten = dce_jaxpr(simplify(closed.jaxpr, host()))
    assert names(rewritten) == left
    with np.errstate(all="ignore"):
        want = evaluate(closed.jaxpr, closed.consts, [x])
        got = evaluate(rewritten, closed.consts, [x])
    for a, b in zip(got, want, strict=True):
        assert a.shape == b.shape
        if name.startswith("power_of"):
            np.testing.assert_allclose(a, b, 3e-7)  # NumPy rounds powers otherwise
        else:
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))


def test_roots_of_special_values() -> None:
    """As powers: no sign of zero, and no NaN of -inf; so are single operations."""
    x = np.array([0.0, -0.0, np.inf, -np.inf, 4.0], np.float32)
    for y, want in (0.5, [0, 0, np.inf, np.inf, 2]), (-0.5, [np.inf] * 2 + [0, 0, 0.5]):
        for power in curta.lax.pow, curta.jit(lambda x, y=y: curta.lax.pow(x, y)):
            found = power(x, np.float32(y)) if power is curta.lax.pow else power(x)
            np.testing.assert_array_equal(found, want)
            assert not np.signbit(found).any()
        for shape in (), (1,), (2, 1):
            y = np.full(shape[-1:], 0.5, np.float32)
            base = np.full(shape, -np.inf, np.float32)
            assert np.all(curta.lax.pow(base, np.broadcast_to(y, shape)) == np.inf)
            assert np.all(curta.jit(lambda x=base, y=y: curta.numpy.power(x, y))() > 0)


def test_what_cannot_run_does_not_where_there_are_no_iterations() -> None:
    @curta.custom_vjp
    def f(x: Any) -> Any:
        return x * 2

    f.defvjp(lambda x: (x * 2, None), lambda _, t: (t * 2,))

    def loop(x: Any) -> Any:
        return curta.lax.scan(lambda c, _: (c + f(x), f(c)), x, None, length=0)

    x = np.ones(5, np.float32)
    (out, rows), (tangent, _) = curta.jit(lambda x: curta.jvp(loop, (x,), (x,)))(x)
    assert np.array_equal(out, x) and np.array_equal(tangent, x)
    assert rows.shape == (0, 5)


def test_what_is_not_rewritten() -> None:
    """x + 0 is not x for -0.0, x - (-0.0) is not x, x / 3 is not x * (1/3)."""
    minus_zero, three = np.float32(-0.0), np.float32(3)
    closed = staged(
        lambda x: [ops.add(x, ZERO), ops.sub(x, minus_zero), ops.div(x, three)], SPECIAL
    )
    assert names(simplify(closed.jaxpr, host())) == ["add", "sub", "div"]


def test_transposes_of_batched_dots() -> None:
    batched = DotGeneral((((1,), (1,)), ((0,), (0,))))
    x, y = np.ones((2, 3, 4), np.float32), np.arange(30.0).reshape(2, 3, 5)

    def turned(x: Any, y: Any) -> list[Any]:
        product = batched(x, y)
        return [Transpose((0, 2, 1))(product), Transpose((2, 0, 1))(product)]

    args = x, y.astype(np.float32)
    closed = staged(turned, *args)
    rewritten = dce_jaxpr(simplify(closed.jaxpr, host()))
    assert names(rewritten) == ["dot_general", "dot_general", "transpose"]
    for a, b in zip(
        evaluate(rewritten, (), args), evaluate(closed.jaxpr, (), args), strict=True
    ):
        np.testing.assert_array_equal(a, b)


def test_broadcasts_of_broadcasts() -> None:
    closed = staged(
        lambda x: [
            BroadcastInDim((5, 3, 2, 4), (1, 3))(BroadcastInDim((3, 4), (0, 1))(x))
        ],
        SPECIAL,
    )
    (eqn,) = dce_jaxpr(simplify(closed.jaxpr, host())).eqns
    assert eqn.op == BroadcastInDim((5, 3, 2, 4), (1, 3))


def test_equal_eqns_are_one() -> None:
    closed = staged(lambda x: [ops.add(ops.exp(x), ops.exp(x))], SPECIAL)
    assert names(simplify(closed.jaxpr, host())) == ["exp", "add"]


def test_literals_of_other_sign_are_not_equal() -> None:
    closed = staged(lambda x: [ops.add(x, ZERO), ops.add(x, np.float32(-0.0))], SPECIAL)
    assert names(simplify(closed.jaxpr, host())) == ["add", "add"]
