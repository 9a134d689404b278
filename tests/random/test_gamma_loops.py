"""Many gamma draws are native loops, and the draws of `eval`."""

import numpy as np
import pytest
from tests.compiler.programs import native

import curta
from curta import random
from curta.primitives.random_bits.gamma import RandomGamma

KEY = random.key(7)
SHAPES = np.linspace(0.05, 30, 1200).astype(np.float32)


@pytest.mark.parametrize("log_space", [False, True])
def test_draws_are_those_of_eval(log_space):
    keys = random.split(KEY, 2)
    many = np.stack([SHAPES, SHAPES[::-1]])
    many[1, 5] = np.nan
    op = RandomGamma(log_space)
    found = native(lambda keys, a: op(keys, a), keys, many)
    expected = op.eval(np.asarray(keys._storage()), many)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
    assert np.isnan(np.asarray(found)[1, 5])


def test_gradients_and_batches():
    def total(a):
        return random.gamma(KEY, a, (1500,)).sum()

    slope = curta.jit(curta.grad(total))(2.0)
    np.testing.assert_allclose(slope, curta.grad(total)(2.0), rtol=1e-4)
    draws = curta.vmap(curta.jit(lambda k: random.gamma(k, 2.0, (1500,))))
    rows = draws(random.split(KEY, 2))
    np.testing.assert_allclose(
        rows[1], random.gamma(random.split(KEY, 2)[1], 2.0, (1500,)), rtol=2e-5
    )
