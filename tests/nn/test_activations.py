"""Activations where they have a corner: the derivative there is the one JAX chose."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import nn


@pytest.mark.parametrize(
    ("fun", "corners", "slopes"),
    [
        (nn.relu, [0.0], [0.0]),
        (nn.relu6, [0.0, 3.0, 6.0, 7.0], [0.0, 1.0, 0.0, 0.0]),
        (nn.hard_sigmoid, [-3.0, 0.0, 3.0], [0.0, 1 / 6, 0.0]),
    ],
)
def test_slopes_at_corners(fun, corners, slopes):
    got = curta.vmap(curta.grad(fun))(jnp.array(corners))
    assert got.tolist() == pytest.approx(slopes)


def test_clipped_activations():
    x = jnp.array([-4.0, -1.0, 0.0, 5.0, 8.0])
    assert nn.relu6(x).tolist() == [0.0, 0.0, 0.0, 5.0, 6.0]
    assert nn.hard_sigmoid(x).tolist() == pytest.approx([0, 1 / 3, 0.5, 1, 1])


def test_names_of_silu_and_hard_silu():
    x = np.linspace(-5, 5, 11).astype(np.float32)
    np.testing.assert_allclose(nn.swish(x), x / (1 + np.exp(-x)), rtol=1e-5)
    hard = x * np.clip(x + 3, 0, 6) / 6
    np.testing.assert_allclose(nn.hard_swish(x), hard, rtol=1e-5, atol=1e-6)


def test_one_hot_of_floats_and_in_wide_floats_warns():
    with pytest.warns(DeprecationWarning, match="should be integer-typed"):
        assert nn.one_hot(jnp.array([1.0]), 2).tolist() == [[0, 1]]
    with pytest.warns(UserWarning, match="float64"):
        assert nn.one_hot(jnp.array([1]), 2, dtype="float64").dtype == np.float32
