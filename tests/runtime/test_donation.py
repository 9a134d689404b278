"""Donated arguments: results reuse their memory if it has no other references."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta._base.once import has_gil
from curta.core import buffers
from curta.errors import JaxRuntimeError

SIZES = [5, 3000, 300_000, 6_000_000]  # the last is left to the queue


# Without the GIL donated memory is not used in place.
def place(x):
    return x.unsafe_buffer_pointer()


def numbers(n):
    return jnp.copy(jnp.arange(n, dtype=jnp.float32))


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x + 1,
        lambda x: x.at[2].set(7.0),
        lambda x: x.at[1:3].add(3.0),
        lambda x: jnp.sin(x) / (1 + x * x),
        lambda x: x,
    ],
)
def test_the_result_lies_where_the_argument_lay(fun, n):
    x = numbers(n)
    wanted = np.asarray(curta.jit(fun)(x))
    at = place(x)
    y = curta.jit(fun, donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(y, wanted)
    assert place(y) == at or not has_gil()


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: x[::-1] + x,
        lambda x: jnp.cumsum(x),
        lambda x: jnp.roll(x, 1) - x,
        lambda x: x.at[::2].add(x[0]) + x,
        lambda x: (x + 1, x[::-1]),
        lambda x: (x.sum() + x, x.max()),
        lambda x: x - x.mean(),
        lambda x: lax.fori_loop(0, 5, lambda i, y: y[::-1] + i, x),
        lambda x: x.reshape(3, -1).T.reshape(-1),
    ],
)
@pytest.mark.parametrize("n", SIZES[:3])
def test_what_is_read_out_of_order_is_right_wherever_it_lies(fun, n):
    n *= 3
    wanted = curta.tree.map(np.asarray, curta.jit(fun)(numbers(n)))
    x = numbers(n)
    found = curta.jit(fun, donate_argnums=0)(x)
    assert x.is_deleted()
    curta.tree.map(np.testing.assert_array_equal, found, wanted)


@pytest.mark.parametrize("reduce", [jnp.argmax, jnp.max, jnp.sum])
def test_what_is_folded_is_read_before_its_turn_stores(reduce):
    def fun(x):
        sums = jnp.cumsum(x, 0)
        return reduce(x, 1), jnp.minimum(sums, 0), sums

    x = np.random.default_rng(0).normal(size=(12, 9)).astype(np.float32)
    wanted = curta.tree.map(np.asarray, curta.jit(fun)(x))
    found = curta.jit(fun, donate_argnums=0)(jnp.array(x))
    curta.tree.map(np.testing.assert_array_equal, found, wanted)


@pytest.mark.parametrize("n", SIZES[1:])
def test_an_optimiser_works_in_place(n):
    def step(p, m, v, g):
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        return p - 0.1 * m / (jnp.sqrt(v) + 1e-8), m, v

    plain, donating = curta.jit(step), curta.jit(step, donate_argnums=(0, 1, 2))
    g = jnp.linspace(-1, 1, n)
    first = [jnp.ones(n), jnp.zeros(n), jnp.zeros(n)]
    state = [jnp.copy(x) for x in first]
    places = [place(x) for x in state]
    for _ in range(4):
        first, state = plain(*first, g), donating(*state, g)
    curta.tree.map(np.testing.assert_array_equal, state, first)
    assert [place(x) for x in state] == places or not has_gil()


def test_results_may_trade_places():
    def fun(a, b):
        return b + 1, a + 1

    a, b = numbers(1000), jnp.full(1000, 5.0)
    c, d = curta.jit(fun, donate_argnums=(0, 1))(a, b)
    assert (np.asarray(c) == 6).all()
    np.testing.assert_array_equal(d, np.arange(1000) + 1)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(
    "see",
    [
        np.asarray,
        lambda x: np.asarray(x)[1:],
        lambda x: np.from_dlpack(x),
        lambda x: curta.device_put(x, curta.devices()[0]),
        lambda x: x[1:],
    ],
)
def test_memory_that_somebody_sees_is_left_alone(see, n):
    x = numbers(n)
    seen = see(x)
    before = np.array(seen)
    y = curta.jit(lambda x: 2 * x, donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(y, 2 * np.arange(n, dtype=np.float32))
    np.testing.assert_array_equal(seen, before)


@pytest.mark.parametrize("n", SIZES)
def test_a_part_of_another_array_is_not_overwritten(n):
    x = numbers(2 * n)
    part = x[n:]
    curta.jit(lambda x: 2 * x, donate_argnums=0)(part).block_until_ready()
    np.testing.assert_array_equal(x, np.arange(2 * n))


def test_constants_and_numpy_arrays_are_not_overwritten():
    x, given = numbers(1000), np.ones(1000, np.float32)
    reader = curta.jit(lambda: x + 0)
    reader()
    f = curta.jit(lambda x: 2 * x, donate_argnums=0)
    f(x)
    f(given)
    assert (given == 1).all()
    np.testing.assert_array_equal(reader(), np.arange(1000))


def test_what_is_queued_reads_what_was_there():
    n = SIZES[-1]
    x = numbers(n)
    f = curta.jit(lambda x: 2 * x, donate_argnums=0)
    y = curta.jit(jnp.sum)(x), curta.jit(lambda x: x + 1)(x)
    z = f(f(f(x)))
    np.testing.assert_array_equal(y[1], np.arange(n, dtype=np.float32) + 1)
    np.testing.assert_array_equal(z, 8 * np.arange(n, dtype=np.float32))


def test_updates_in_place_need_no_memory():
    f = curta.jit(lambda x: 1.5 * x - 1, donate_argnums=0)
    x = f(numbers(4_000_000)).block_until_ready()
    buffers.trim()
    before = buffers._pool._bytes
    for _ in range(20):
        x = f(x)
    x.block_until_ready()
    assert buffers._pool._bytes == before


def test_donation_by_name_and_of_trees():
    f = curta.jit(lambda x, *, state: x + state["a"], donate_argnames="state")
    state = {"a": numbers(100)}
    at = place(state["a"])
    y = f(jnp.ones(100), state=state)
    assert state["a"].is_deleted()
    assert place(y) == at or not has_gil()


def test_pmap_donates():
    x = numbers(4)[None]
    y = curta.pmap(lambda x: x + 1, donate_argnums=0)(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(y[0], np.arange(4) + 1)


def test_arguments_of_no_use_are_warned_of_and_kept():
    x = numbers(10)
    f = curta.jit(jnp.sum, donate_argnums=0)
    with pytest.warns(UserWarning, match=r"not usable: ShapedArray\(float32\[10\]\)"):
        f(x)
    assert not x.is_deleted()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f(x)


def test_one_array_cannot_be_donated_twice_or_be_used_besides():
    x = numbers(10)
    with pytest.raises(JaxRuntimeError, match="donate the same buffer twice"):
        curta.jit(lambda x, y: (x + 1, y + 2), donate_argnums=(0, 1))(x, x)
    with pytest.raises(JaxRuntimeError, match="which is also used by the same call"):
        curta.jit(lambda x, y: x + y, donate_argnums=0)(x, x)
    assert not x.is_deleted()


def test_donated_arrays_are_gone():
    x = numbers(10)
    f = curta.jit(lambda x: x + 1, donate_argnums=0)
    f(x)
    with pytest.raises(RuntimeError, match="Array has been deleted with shape=float32"):
        f(x)
    with pytest.raises(RuntimeError, match="deleted or donated"):
        x.block_until_ready()


@pytest.mark.parametrize("seen", [lambda x: +x, jnp.real, np.asarray])
@pytest.mark.parametrize("n", SIZES[:3])
def test_what_shares_the_memory_of_an_argument_is_never_overwritten(seen, n):
    """Not as a workspace either: the result of its type is another one."""

    def both(a, b):
        first = lax.dynamic_update_slice(a, b[:2], (3,))
        return first, lax.dynamic_update_slice(b, a[2:4], (0,))

    f = curta.jit(both, donate_argnums=1)
    for _ in range(3):
        x, other = numbers(n), numbers(n) + 50
        wanted = [np.asarray(y) for y in curta.jit(both)(other, x)]
        y = seen(x)
        results = f(other, x if seen is np.asarray else +x)
        np.testing.assert_array_equal(y, np.arange(n, dtype=np.float32))
        curta.tree.map(np.testing.assert_array_equal, list(results), wanted)
