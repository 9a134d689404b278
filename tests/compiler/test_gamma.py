"""Gamma draws compiled as loops, against their `eval` rule."""

import numpy as np
import pytest
from tests.compiler.programs import native

import curta
import curta.numpy as jnp
from curta import lax, random

KEY = random.key(3)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("draw", [random.gamma, random.loggamma])
def test_compiled_draws_are_those_of_numpy(draw, dtype):
    with curta.enable_x64(True):
        a = np.array([0.01, 0.3, 1, 2.5, 40, np.nan], dtype)

        def fun(key, a):
            return draw(key, a, (7, 6), dtype)

        found, expected = native(fun, KEY, a), fun(KEY, a)
    assert found.dtype == dtype
    bound = 2e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(found, expected, rtol=bound, atol=bound)
    assert np.isnan(found[:, 5]).all() and np.isfinite(found[:, 1:5]).all()


HALVES = {  # of key 3, by JAX 0.10.2
    "float16": (
        [0.032257080078125, 0.260986328125, 2.19140625, 44.21875],
        [-3.435546875, -1.3427734375, 0.78466796875, 3.7890625],
    ),
    "bfloat16": (
        [0.000865936279296875, 0.5078125, 2.78125, 32.75],
        [-7.0625, -0.6796875, 1.0234375, 3.5],
    ),
}


@pytest.mark.parametrize("dtype", HALVES)
def test_draws_of_halves_are_those_of_jax(dtype):
    a = jnp.array([0.3, 1, 2.5, 40], dtype)
    for draw, expected in zip(
        (random.gamma, random.loggamma), HALVES[dtype], strict=True
    ):

        def fun(key, draw=draw):
            return draw(key, a, (4,), dtype)

        assert fun(KEY).astype("float32").tolist() == expected
        assert native(fun, KEY).astype("float32").tolist() == expected


def test_few_draws_in_a_loop():
    def chain(key):
        def step(x, key):
            x = random.beta(key, 1 + x, 2.0, (3,))
            return x, x

        return lax.scan(step, jnp.zeros(3), random.split(key, 5))[1]

    found = native(chain, KEY)
    x, expected = np.zeros(3, "float32"), []
    for key in random.split(KEY, 5):
        x = np.asarray(random.beta(key, 1 + x, 2.0, (3,)))
        expected.append(x)
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-4)
