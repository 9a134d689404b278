"""Loops cut along the rows of what they carry."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.compiler.programs import assert_compiles, staged

from curta import lax
from curta.compiler.host_target import host
from curta.compiler.lower.loop_parts import parts_of
from curta.compiler.pipeline import compile_jaxpr
from curta.compiler.rewrite.prepare import prepare
from curta.compiler.support.threads import parallel_for_address
from curta.control.scan import Scan
from curta.core.jaxpr import ClosedJaxpr
from curta.primitives import elementwise as ops
from curta.primitives.cumulative import CumSum
from curta.primitives.dot import DotGeneral
from curta.primitives.joining import Concatenate
from curta.primitives.shape import Iota, Rev
from curta.primitives.slicing import Slice
from curta.primitives.structure import (
    BroadcastInDim,
    ReduceSum,
    Reshape,
    Transpose,
)

RNG = np.random.default_rng(0)
MATMUL = DotGeneral((((1,), (0,)), ((), ())))
B, D, T = 32, 8, 7


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.fixture(autouse=True)
def small_work(limits: Any) -> None:
    limits(part_work=0, part_bytes=0)


def looped(fun: Any, consts: list[Any], carry: list[Any], xs: list[Any], **kwargs: Any):
    rows = [x[0] for x in xs]
    body = staged(fun, *consts, *carry, *rows)
    reverse = kwargs.get("reverse", False)
    scan = Scan(body, T, reverse, len(consts), len(carry))
    return staged(lambda *a: list(scan(*a)), *consts, *carry, *xs)


def parts(closed: ClosedJaxpr) -> Any:
    (eqn,) = (e for e in prepare(closed, host()).eqns if isinstance(e.op, Scan))
    return parts_of(eqn, host().tuning)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrent_network(reverse: bool) -> None:
    w, bias, mask, h = normal(D, D) / 4, normal(D), normal(B, D), normal(B, D)
    count, xs = np.asarray(np.int32(3)), normal(T, B, D)

    def step(w, bias, mask, h, n, x):
        both = Concatenate(1)(h, ops.neg(x))
        left = Slice((0, 0), (B, D), (1, 1))(both)
        right = Slice((0, D), (B, 2 * D), None)(both)
        shift = BroadcastInDim((B, D), (1,))(bias)
        h = ops.tanh(ops.add(ops.add(MATMUL(left, w), right), shift))
        scale = ops.convert_element_type(n, np.dtype("float32"))
        h = ops.mul(h, ops.add(mask, BroadcastInDim((B, D), ())(scale)))
        return [h, ops.add(n, np.int32(1)), ReduceSum((1,))(h), h]

    closed = looped(step, [w, bias, mask], [h, count], [xs], reverse=reverse)
    found = parts(closed)
    assert found.count == B // 8
    assert found.arguments == (False, False, True, True, False, True)
    assert found.results == (True, False, True, True)
    assert found.body.in_avals[3].shape == (8, D)
    args = w, bias, mask, h, count, xs
    assert_compiles(closed, *args)
    threads = compile_jaxpr(closed, parallel_for=parallel_for_address)
    for a, b in zip(threads(*args), compile_jaxpr(closed)(*args), strict=True):
        np.testing.assert_array_equal(a, b)


def test_every_part_counts_for_itself() -> None:
    """A counter is the same for all parts: each has one of its own in memory."""
    h, count = normal(64, 256), np.asarray(np.int32(3))

    def step(h: Any, n: Any) -> list[Any]:
        scale = ops.convert_element_type(n, np.dtype("float32"))
        h = ops.sin(ops.add(h, BroadcastInDim((64, 256), ())(scale)))
        return [h, ops.add(n, np.int32(1))]

    scan = Scan(staged(step, h, count), 200, False, 0, 2)
    closed = staged(lambda *a: list(scan(*a)), h, count)
    assert parts(closed).results == (True, False)
    run = compile_jaxpr(closed, parallel_for=parallel_for_address)
    want = compile_jaxpr(closed)(h, count)
    for _ in range(20):
        for a, b in zip(run(h, count), want, strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_moves_rows_about() -> None:
    """Other dims may be turned, reversed, summed and split; rows stay in order."""
    h, xs = normal(B, 4, 2), normal(T, B, 4)

    def step(h, x):
        flat = Reshape((B, 8))(h)
        turned = Transpose((1, 0))(flat)
        turned = CumSum(0, False)(Rev((0,))(turned))
        counts = ops.convert_element_type(
            Iota(np.dtype("int32"), (8, B), 0)(), np.dtype("float32")
        )
        back = Transpose((1, 0))(ops.add(turned, counts))
        new = Reshape((B, 4, 2))(back)
        return [ops.tanh(ops.add(new, BroadcastInDim((B, 4, 2), (0, 1))(x)))]

    closed = looped(step, [], [h], [xs])
    assert parts(closed).count == B // 8
    assert_compiles(closed, h, xs)


def test_products_with_rows_on_the_right_or_among_the_batch() -> None:
    w, h, xs = normal(D, D) / 4, normal(B, D), normal(T, B, D, D)
    left = DotGeneral((((1,), (1,)), ((), ())))
    batched = DotGeneral((((1,), (1,)), ((0,), (0,))))

    def step(w, h, x):
        h = Transpose((1, 0))(left(w, h))
        return [ops.tanh(batched(h, x))]

    closed = looped(step, [w], [h], [xs])
    assert parts(closed).count == B // 8
    assert_compiles(closed, w, h, xs)


def test_rows_that_depend_on_one_another_stay_together() -> None:
    h, xs = normal(B, D), normal(T, B, D)
    square = normal(B, B)

    def sums(h, x):
        return [ops.add(h, BroadcastInDim((B, D), (1,))(ReduceSum((0,))(x)))]

    def total(h, x):
        norm = ReduceSum((0, 1))(h)
        return [ops.add(x, BroadcastInDim((B, D), ())(ops.tanh(norm)))]

    def reverses(h, x):
        return [ops.add(Rev((0,))(h), x)]

    def shows_sum(h, x):
        return [ops.add(h, x), ReduceSum((0,))(h)]

    def transposes(h, x):
        return [Reshape((B, D))(Transpose((1, 0))(h))]

    def shifts(h, x):
        low = Slice((0, 0), (B - 1, D), None)(h)
        return [Concatenate(0)(Slice((0, 0), (1, D), None)(x), low)]

    def shows_turned(h, x):
        return [ops.add(h, x), Transpose((1, 0))(h)]

    def multiplies(w, h, x):
        return [ops.tanh(MATMUL(w, h))]

    for step in (sums, total, reverses, shows_sum, transposes, shifts, shows_turned):
        closed = looped(step, [], [h], [xs])
        assert parts(closed) is None, step.__name__
        assert_compiles(closed, h, xs / 4)
    closed = looped(multiplies, [square], [h], [xs])
    assert parts(closed) is None
    # A square matrix has two dims of that extent; only one may be the rows'.
    both = looped(lambda h: [ops.add(h, Transpose((1, 0))(h))], [], [square], [])
    assert parts(both) is None
    assert_compiles(both, square)


def test_a_part_has_rows_enough(limits: Any) -> None:
    def count(rows: int, width: int) -> int:
        h = normal(rows, width)
        found = parts(looped(lambda h: [ops.sin(h)], [], [h], []))
        return 1 if found is None else found.count

    assert (count(8, 4), count(15, 4), count(16, 4), count(37, 4)) == (1, 1, 2, 1)
    limits(part_bytes=1 << 12)
    assert (count(64, 4), count(512, 4), count(64, 1024)) == (1, 2, 8)
    limits(part_work=1 << 30)
    assert count(64, 1024) == 1


def test_loops_in_a_part_and_memory_of_temporaries() -> None:
    """A part's temporaries do not fit the stack, and are its own."""
    w, h, xs = normal(300, 300) / 20, normal(16, 300), normal(T, 16, 300)

    def step(w, h, x):
        h = ops.tanh(ops.add(MATMUL(h, w), x))
        return [MATMUL(ops.sin(MATMUL(h, w)), w)]

    closed = looped(step, [w], [h], [xs])
    assert parts(closed).count == 2
    run = compile_jaxpr(closed, parallel_for=parallel_for_address)
    first = run(w, h, xs)
    for _ in range(20):
        np.testing.assert_array_equal(run(w, h, xs)[0], first[0])
    assert_compiles(closed, w, h, xs, rtol=1e-4)


def test_ops_that_work_along_other_dims(limits: Any) -> None:
    """Tables, sorts, updates and windows of rows of their own.

    Sorts tell values apart that differ in a rounding, so that this is compared with
    what rows that are not parted give.
    """
    h, xs = normal(B, D), normal(T, B, D)
    places = RNG.integers(0, D, (B, D)).astype(np.int32)

    def step(places, h, x):
        read = lax.gather(
            h,
            places[..., None],
            lax.GatherDimensionNumbers((), (1,), (1,), (0,), (0,)),
            (1, 1),
        )
        values, order = lax.sort((read, places), dimension=1, num_keys=1)
        best, at = lax.top_k(values, 3)
        wide = lax.pad(best, np.float32(1), ((0, 0, 0), (1, D - 4, 0)))
        start = np.int32(2)
        part = lax.dynamic_slice(h, (np.int32(0), start), (B, 4))
        new = lax.dynamic_update_slice(wide + order, part, (np.int32(0), start))
        left, right = lax.split(new, (3, D - 3), axis=1)
        new = lax.concatenate((right, left + at), 1)
        return [ops.tanh(ops.add(new, lax.cumsum(x, axis=1)))]

    closed = looped(step, [places], [h], [xs])
    assert parts(closed).count == B // 8
    found = compile_jaxpr(closed)(places, h, xs)
    limits(part_work=1 << 60)
    assert parts(closed) is None
    wanted = compile_jaxpr(closed)(places, h, xs)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_numbers_of_rows_are_not_cut() -> None:
    h = normal(B, D)

    def step(h):
        return [ops.tanh(ops.add(h, Iota(np.dtype("float32"), (B, D), 0)()))]

    assert parts(looped(step, [], [h], [])) is None
