"""Maps over rolled, joined and padded arrays, cut where their expression changes."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.compiler.host_target import host
from curta.compiler.lower.item_lowering import lower_to_items
from curta.compiler.rewrite.inline import inline_calls

RNG = np.random.default_rng(0)
U = RNG.normal(size=(200, 130)).astype(np.float32)


def heat(lib, u):
    around = lib.roll(u, 1, 0) + lib.roll(u, -1, 0)
    return u + 0.1 * (around + lib.roll(u, 1, 1) + lib.roll(u, -1, 1) - 4 * u)


def life(lib, u):
    alive = (u > 0.5).astype(np.int32)
    places = [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
    around = sum(lib.roll(alive, place, (0, 1)) for place in places)
    return lib.where((around == 3) | ((alive == 1) & (around == 2)), 1, 0)


def filtered(lib, u):
    return sum((k + 1) * lib.roll(u, k, 1) for k in range(9))


def zero_boundary(lib, u):
    p = lib.pad(u, ((1, 1), (2, 1)))
    return p[:-2, 1:-2] + p[2:, 1:-2] * 2 + p[1:-1, :-3] - p[1:-1, 3:]


def joined(lib, u):
    return lib.abs(lib.concatenate([u, 2 * u, u[:7]])) + 1


def returned_twice(lib, u):
    rolled = lib.roll(u, (3, -5), (0, 1))
    return rolled, heat(lib, u), heat(lib, u).sum(0), rolled.max(1)


@pytest.mark.parametrize(
    "function", [heat, life, filtered, zero_boundary, joined, returned_twice]
)
def test_agrees_with_numpy(function):
    found = curta.jit(lambda u: function(jnp, u))(U)
    wanted = function(np, U)
    if not isinstance(wanted, tuple):
        found, wanted = (found,), (wanted,)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, 1e-4, 1e-4)


def test_joined_parts_of_joined_arrays_are_cut_as_well():
    """As `fftshift` has them: no element is looked for in both halves."""
    closed = inline_calls(curta.make_jaxpr(jnp.fft.fftshift)(U))
    program = lower_to_items(closed.jaxpr, host())
    assert {s.buffer for i in program.items for s in i.stores} == {*program.outputs}
    assert len(program.items) == 4
    assert all(load.where is None for i in program.items for load in i.loads)
    np.testing.assert_array_equal(curta.jit(jnp.fft.fftshift)(U), np.fft.fftshift(U))


def test_gradient_of_a_stencil():
    def loss(u):
        return (heat(jnp, u) ** 2).sum()

    plain = curta.grad(loss)(jnp.asarray(U))
    np.testing.assert_allclose(curta.jit(curta.grad(loss))(U), plain, 1e-4, 1e-4)


def torus(u):
    i, j = (jnp.arange(n) for n in u.shape)
    around = u[(i - 1) % len(i)] + u[(i + 1) % len(i)]
    return around + u[:, (j - 2) % len(j)] * 2 + u[:, (j + 3) % len(j)] * 3


def test_periodic_indices_are_cut():
    program = lower_to_items(inline_calls(curta.make_jaxpr(torus)(U)).jaxpr, host())
    assert len(program.items) == 9
    middle = max(program.items, key=lambda i: i.work)
    assert middle.work == 198 * 125
    assert all(load.where is None for load in middle.loads)
    rolled = np.roll(U, 1, 0) + np.roll(U, -1, 0)
    rolled += 2 * np.roll(U, 2, 1) + 3 * np.roll(U, -3, 1)
    np.testing.assert_allclose(curta.jit(torus)(U), rolled, 1e-4, 1e-4)


def test_updates_at_one_of_two_sums_are_cut():
    """Each part writes to its neighbors; where two meet, the last one counts."""

    def put(x):
        i = jnp.arange(20_000)
        return jnp.zeros_like(x).at[jnp.where(i < 9000, i, i - 8000)].set(x)

    x = jnp.arange(20_000.0)
    program = lower_to_items(inline_calls(curta.make_jaxpr(put)(x)).jaxpr, host())
    updates = [i for i in program.items if i.ordered]
    assert [i.work for i in updates] == [9000, 11_000]
    (first, second) = (i.stores[0].offset for i in updates)
    assert first.const == 0 and second.const == 1000
    wanted = np.zeros(20_000)
    wanted[:9000], wanted[1000:12_000] = x[:9000], x[9000:]
    np.testing.assert_array_equal(curta.jit(put)(x), wanted)


def test_a_stencil_makes_no_copies():
    closed = inline_calls(curta.make_jaxpr(lambda u: heat(jnp, u))(U))
    program = lower_to_items(closed.jaxpr, host())
    assert {s.buffer for i in program.items for s in i.stores} == {*program.outputs}
    assert len(program.items) == 9
    middle = max(program.items, key=lambda i: i.work)
    assert middle.work == 198 * 128
    assert all(load.where is None for load in middle.loads)
