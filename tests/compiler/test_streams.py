"""Large results go past the caches: the same numbers, wherever the memory begins."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.compiler.program import works
from curta.compiler.schedule.kernels import kernel_schedule

SIZES = [1 << 14, (1 << 14) + 5, 1 << 16, 70_003]


@pytest.fixture(autouse=True)
def streamed(monkeypatch, limits):
    """Small results count as large; a list of the stores that are streamed."""
    found = []

    def record(*args):
        plan = kernel_schedule(*args)
        found.extend(i for nest in plan.nests for i in nest.streamed)
        return plan

    limits(streamed_bytes=1 << 10)
    monkeypatch.setattr(works, "kernel_schedule", record)
    return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "bfloat16", "complex64"])
def test_maps(size, dtype):
    x = jnp.arange(size).astype(dtype)
    found = curta.jit(lambda x: (x == x[::-1], jnp.where(x == 3, x, -x)))
    if dtype == "bool":
        found = curta.jit(lambda x: (x == x[::-1], ~x))
    same, other = found(x)
    host = np.asarray(x)
    np.testing.assert_array_equal(same, host == host[::-1])
    expected = ~host if dtype == "bool" else np.where(host == 3, host, -host)
    np.testing.assert_array_equal(other, expected)


@pytest.mark.parametrize("shape", [(64, 1024), (64, 1000), (3, 5, 4096), (7, 7001)])
def test_rows_and_shifts(shape):
    host = np.random.default_rng(0).normal(size=shape).astype("float32")
    x = jnp.asarray(host)
    shifted = curta.jit(lambda x: 2 * jnp.roll(x, 1, -1) + x)(x)
    np.testing.assert_allclose(shifted, 2 * np.roll(host, 1, -1) + host, rtol=1e-6)
    scaled = curta.jit(curta.nn.softmax)(x)
    np.testing.assert_allclose(np.asarray(scaled).sum(-1), 1, rtol=1e-5)
    padded = curta.jit(lambda x: jnp.concatenate([x, x + 1], -1))(x)
    np.testing.assert_array_equal(padded, np.concatenate([host, host + 1], -1))


def test_memory_that_begins_anywhere():
    """The memory of an argument, or a row of an array: it need not be aligned."""
    host = np.zeros(1 << 16, "float32")[3:-13]
    x = jnp.asarray(host, copy=False)
    step = curta.jit(lambda x: jnp.flip(x) + 1, donate_argnums=0)
    np.testing.assert_array_equal(step(x), np.ones_like(host))
    rows = curta.jit(
        lambda x: curta.lax.scan(lambda c, _: (c + 1, jnp.flip(c)), x, None, length=4)
    )
    last, seen = rows(jnp.arange(20_001.0))
    np.testing.assert_array_equal(last, np.arange(20_001) + 4)
    expected = np.arange(20_000, -1, -1) + np.arange(4)[:, None]
    np.testing.assert_array_equal(seen, expected)


def test_what_is_written_is_seen_by_the_next_loop():
    x = jnp.arange(float(1 << 18)).reshape(512, 512)
    found = curta.jit(lambda x: jnp.flip(jnp.cumsum(jnp.flip(x * 2).T, 1) + 1))
    for _ in range(20):
        expected = np.flip(np.cumsum(np.flip(np.asarray(x) * 2).T, 1) + 1)
        np.testing.assert_allclose(found(x), expected, rtol=1e-4)


def test_which_stores_are_streamed(streamed):
    x = jnp.arange(float(1 << 16)).reshape(64, 1024)
    curta.jit(lambda x: x + 1)(x)
    assert streamed
    y = x + 1
    streamed.clear()
    curta.jit(lambda x: x.sum(0))(x)
    curta.jit(lambda y: y.at[3, 5].add(1.0), donate_argnums=0)(y)
    assert not streamed
