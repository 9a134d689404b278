"""Results of kernels lie where values were that nothing reads after them."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import jit
from curta.compiler.host_target import host
from curta.compiler.loops.nodes import Buffer
from curta.compiler.memory.arena import live_ranges, plan_arena

F32 = np.dtype(np.float32)


def temporaries(fun, *args):
    return jit(fun).lower(*args).compile().memory_analysis().temp_size_in_bytes


def uniform(*shape):
    rng = np.random.default_rng(sum(shape))
    return jnp.asarray(rng.uniform(-1, 1, shape), jnp.float32)


def softmax(s):
    return curta.nn.softmax(s, axis=-1)


@pytest.mark.parametrize(
    "between",
    [
        softmax,
        lambda s: jnp.tanh(s) * 2 + s,
        lambda s: s - s.mean(axis=-1, keepdims=True),
        lambda s: (s - s.min()) / 3,
        lambda s: jnp.where(s > 0, s, 0),
    ],
)
@pytest.mark.parametrize("rows, width", [(300, 300), (301, 67), (1003, 10), (999, 3)])
def test_between_two_products_there_is_one_array(between, rows, width):
    x, w = uniform(rows, 8), uniform(8, width)

    def run(x, w):
        return between(x @ w) @ uniform(width, 4)

    assert temporaries(run, x, w) <= 1.3 * 4 * rows * width + 20_000
    s = np.asarray(x) @ np.asarray(w)
    expected = np.asarray(between(jnp.asarray(s))) @ np.asarray(uniform(width, 4))
    np.testing.assert_allclose(jit(run)(x, w), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "between",
    [
        lambda s: s[::-1] + s,  # other rows are read after a row is stored
        lambda s: s + s.T,
        lambda s: jnp.roll(s, 1, axis=0) * s,
        lambda s: jnp.cumsum(s, axis=0) - s,
        lambda s: jnp.pad(s[1:], ((1, 0), (0, 0))) + s,
        lambda s: s.astype(jnp.int32).astype(jnp.float32) - s,
        lambda s: softmax(s) + s,
        lambda s: jnp.sort(s, axis=0)[::-1] - s,
        lambda s: s * (s.sum(axis=0) + s.sum(axis=1, keepdims=True)),
        lambda s: s.at[3].set(s[4]) + s[0],
    ],
)
def test_what_is_read_elsewhere_stays(between):
    x, w = uniform(131, 8), uniform(8, 131)
    s = jnp.asarray(np.asarray(x) @ np.asarray(w))
    expected = np.asarray(between(s)) @ np.ones((131, 4), np.float32)
    found = jit(lambda x, w: between(x @ w) @ jnp.ones((131, 4)))(x, w)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_two_results_do_not_share_one_array():
    x, w = uniform(200, 8), uniform(8, 200)

    def run(x, w):
        s = x @ w
        return jnp.sin(s) @ w.T, jnp.cos(s) @ w.T

    s = np.asarray(x) @ np.asarray(w)
    for found, f in zip(jit(run)(x, w), (np.sin, np.cos), strict=True):
        np.testing.assert_allclose(found, f(s) @ np.asarray(w).T, rtol=1e-3, atol=1e-4)


def planned(steps, outside=(), reused=None):
    return plan_arena(live_ranges(steps, outside), reused or {}, host().tuning)


def test_an_arena_gives_memory_on():
    a, b, c, d = (Buffer(name, F32, 64) for name in "abcd")
    steps = [[a], [a, b], [b, c], [c, d]]
    chain = planned(steps, {d}, {b: a, c: b, d: c})
    assert chain.size == 256 and len(set(chain.offsets.values())) == 1
    # It is there until the step in which the other one begins, and in the arena.
    late = planned([[a], [a], [b]], reused={b: a})
    assert late.size == 256
    alive = planned([[a], [a, b], [a, b]], reused={b: a})
    assert alive.offsets[a] != alive.offsets[b]
    outside = planned([[a], [a, b]], {a}, {b: a})
    assert outside.size == 256
    made_there = planned([[a, b]], reused={b: a})
    assert made_there.offsets[a] != made_there.offsets[b]
