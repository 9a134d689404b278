"""Nested checkpoints whose functions close over references."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import checkpoint, lax

ONES = jnp.ones(3)


def scaled(r):
    return lambda x: jnp.sin(x) * r[...]


def thrice(r):
    return checkpoint(checkpoint(checkpoint(scaled(r))))


def outer_reads_too(r):
    return checkpoint(lambda x: checkpoint(scaled(r))(x) * r[...])


def in_a_branch(r):
    inner = checkpoint(scaled(r))
    return checkpoint(lambda x: lax.cond(x[0] > 0, inner, lambda x: x, x))


def with_policies(r):
    policies = curta.checkpoint_policies
    inner = checkpoint(scaled(r), policy=policies.everything_saveable)
    return checkpoint(lambda x: inner(x), policy=policies.nothing_saveable)


@pytest.mark.parametrize("make", [thrice, outer_reads_too, in_a_branch, with_policies])
def test_read_within(make):
    f = make(curta.new_ref(ONES))
    slope = curta.grad(lambda x: f(x).sum())
    for run in slope, curta.jit(slope):
        np.testing.assert_allclose(run(ONES), np.cos(ONES), rtol=1e-6)
    batched = curta.vmap(slope)(jnp.ones((2, 3)))
    np.testing.assert_allclose(batched, np.cos(jnp.ones((2, 3))), rtol=1e-6)


def test_written_within():
    r = curta.new_ref(jnp.zeros(3))

    def inner(x):
        r[...] += 1.0
        return jnp.sin(x)

    f = checkpoint(
        lambda x: lax.scan(lambda c, _: (checkpoint(inner)(c), None), x, length=3)[0]
    )
    slope = curta.grad(lambda x: f(x).sum())(ONES)
    inside = np.sin(np.sin(1.0)), np.sin(1.0), 1.0
    np.testing.assert_allclose(slope, np.prod(np.cos(inside)) * ONES, rtol=1e-6)
    assert r[...].tolist() == [3, 3, 3]  # once, though inner is computed again


def test_reference_to_what_is_differentiated():
    def f(x):
        return checkpoint(checkpoint(scaled(curta.new_ref(x))))(x).sum()

    for run in curta.grad(f), curta.jit(curta.grad(f)):
        expected = np.cos(ONES) + np.sin(ONES)
        np.testing.assert_allclose(run(ONES), expected, rtol=1e-6)
