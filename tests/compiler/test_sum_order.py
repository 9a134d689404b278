"""Reductions add up in one order, whatever is around them (loops/summation.py)."""

from __future__ import annotations

import numpy as np
import pytest
from tests.stress.reductions import case, differing
from tests.stress.sum_accuracy import BOUND, KINDS, WAYS, error

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.host_target import host
from curta.compiler.loops.summation import SumOrder, sum_kind, sum_order


def summed(x: np.ndarray, axis: int) -> np.ndarray:
    """The sum along an axis in the documented order, in NumPy."""
    columns = int(np.prod(x.shape[axis + 1 :]))
    order = sum_order(host(), sum_kind(columns, host().tuning))
    x = np.moveaxis(x, axis, -1)
    rest = -x.shape[-1] % order.block
    x = np.concatenate([x, np.zeros((*x.shape[:-1], rest), x.dtype)], -1)
    parts = -1, order.groups, order.steps, order.lanes
    x = one_by_one(np.moveaxis(x.reshape(*x.shape[:-1], *parts), -2, -1))
    x = one_by_one(np.moveaxis(x, -2, -1))
    while x.shape[-1] > order.register:
        x = x[..., : x.shape[-1] // 2] + x[..., x.shape[-1] // 2 :]
    while x.shape[-1] > 1:
        x = x[..., ::2] + x[..., 1::2]
    return one_by_one(x[..., 0].astype(np.float64)).astype(x.dtype)


def one_by_one(x: np.ndarray) -> np.ndarray:
    return np.cumsum(x, -1)[..., -1]


SHAPES = [
    ((5,), 0), ((40,), 0), ((1000,), 0), ((5000,), 0), ((300_001,), 0), ((300, 9), 1),
    ((300, 65), 1), ((50, 3000), 1), ((3, 100), 0), ((20, 100), 0), ((100, 77), 0),
    ((1100, 70), 0), ((5000, 700), 0), ((4096, 9), 0), ((20_000, 3), 0), ((300, 50), 0),
    ((16_384, 5), 0), ((8200, 5), 0), ((8300, 5), 0), ((700, 65), 0), ((9, 20_001), 1),
    ((20, 5), 0), ((64, 7), 0), ((512, 3), 0), ((513, 33), 0), ((2, 8704, 2), 1),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "axis"), SHAPES, ids=str)
def test_order_is_that_of_the_page(shape, axis):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    want = summed(x, axis)
    plain = curta.jit(lambda x: x.sum(axis))(x)
    np.testing.assert_array_equal(plain, want)
    heavy = curta.jit(lambda x: (jnp.arctan(jnp.sin(x)) * 0 + x).sum(axis))(x)
    np.testing.assert_array_equal(heavy, want)
    zero = np.zeros(x.shape[-1], x.dtype)  # what rows share
    shared = curta.jit(lambda x, y: (x - jnp.sin(y)).sum(axis))(x, zero)
    np.testing.assert_array_equal(shared, want)
    other = curta.jit(lambda x: jnp.swapaxes(x, 0, -1).sum(x.ndim - 1 - axis))(x)
    np.testing.assert_array_equal(
        other, summed(np.swapaxes(x, 0, -1), x.ndim - 1 - axis)
    )


def test_products_of_complex_numbers_have_no_fused_steps():
    """LLVM moves a sign from a factor to a product, which gets the flags of the sum."""
    wrong, _ = differing(case(601857))  # prod(-x) of three complex numbers, in a branch
    assert wrong == []


@pytest.mark.parametrize("seed", [2, 3, 11, 14, 23, 26])
def test_contexts_do_not_show(seed):
    curta.config.update("jax_enable_x64", True)
    try:
        wrong, _ = differing(case(seed, 3000))
    finally:
        curta.config.update("jax_enable_x64", False)
    assert not wrong


@pytest.mark.parametrize("way", WAYS)
def test_long_sums_are_accurate(way):
    x = KINDS["100.1"](np.random.default_rng(0), 40_000).astype(np.float32)
    assert error(way, x) <= (BOUND if way == "matrix @ matrix" else BOUND / 2)


def test_parts_of_long_products_follow_the_order():
    """Blocks of 256 steps are added in float32, sixteen of them a part."""
    k, each = 9000, 250
    x = np.random.default_rng(0).random((2, k)).astype(np.float32)
    x = np.round(x * 64) / 64  # sums of a block are exact
    blocks = np.einsum("itk,jtk->tij", *[x.reshape(2, -1, each)] * 2)
    parts = [one_by_one(np.moveaxis(blocks[i : i + 16], 0, -1)) for i in (0, 16, 32)]
    want = one_by_one(np.stack(parts, -1))
    np.testing.assert_array_equal(curta.jit(lambda x: x @ x.T)(x), want)


@pytest.mark.parametrize("count", [3, 122, 5000])
def test_running_maxima_beside_sums(count):
    x = np.random.default_rng(0).standard_normal(count).astype(np.float32)
    run = curta.jit(lambda x: (lax.cummax(x), jnp.cos(x).sum()))
    maxima, total = run(x)
    np.testing.assert_array_equal(maxima, np.maximum.accumulate(x))
    np.testing.assert_allclose(total, np.cos(x).sum(), rtol=1e-4)


def test_small_eager_sums_are_accurate():
    x = np.full((16_000, 2), 100.1, np.float32)
    want = x.astype(np.float64)
    for got, right in (
        (jnp.asarray(x).sum(0), want.sum(0)),
        (jnp.cumsum(jnp.asarray(x[:, 0])), np.cumsum(want[:, 0])),
        (jnp.dot(x[:, 0], x[:, 1]), want[:, 0] @ want[:, 1]),
    ):
        np.testing.assert_allclose(got, right, rtol=3e-7)


def test_terms_written_out_follow_the_order():
    order = SumOrder(lanes=8, register=4, steps=2, groups=2, most_staged=64)
    text = order.total(list("abcdefghij"), "0", lambda x, y: f"({x}{y})")
    assert text == "(0((((ai)e)((bj)f))((cg)(dh))))"
