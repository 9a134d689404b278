"""The examples of "JAX: Compiles the Future of Deep Learning to Present" (12/1/2022).

Its programs for PyTorch appear here as what they are compared with.
"""

import math
from typing import NamedTuple

import numpy as np

import curta as jax
import curta.numpy as jnp
from curta import grad, jit, vmap


def test_faster_numpy():
    """JAX: Compiles the Future, "JAX as a faster NumPy": normalizing a matrix."""
    x_np = np.random.default_rng(0).random((500, 500))
    x = jnp.array(x_np)
    result = (x - x.mean(1)) / x.std(1)
    expected = (x_np - x_np.mean(1)) / x_np.std(1)
    np.testing.assert_allclose(result, expected, atol=2e-5)


def test_even_faster_numpy():
    """JAX: Compiles the Future, "JAX as an even faster NumPy": the same, compiled."""

    def norm(x):
        return (x - x.mean(1)) / x.std(1)

    x = jnp.array(np.random.default_rng(0).random((500, 500)))
    norm_compiled = jit(norm)
    np.testing.assert_allclose(norm_compiled(x), norm(x), atol=1e-5)


def test_autograd():
    """JAX: Compiles the Future, "Autograd in JAX": plain and compiled."""

    def f(x):
        return x**2

    g = jax.grad(f)
    assert str(g(3.0)) == "6.0"
    g_compiled = jax.jit(g)
    assert str(g_compiled(3.0)) == "6.0"


def test_batched_gradient():
    """JAX: Compiles the Future, "Define more complex computation"."""

    def f(w, x):
        return jax.nn.sigmoid(w * x)

    def g(w, x, y):
        return (f(w, x) - y) ** 2

    grad_batched = jax.vmap(jax.grad(g), in_axes=(None, 0, 0))
    xs, ys = np.array([-1.0, 0.0, 2.0]), np.array([0.0, 1.0, 1.0])
    result = grad_batched(0.5, jnp.array(xs), jnp.array(ys))
    s = 1 / (1 + np.exp(-0.5 * xs))
    np.testing.assert_allclose(result, 2 * (s - ys) * s * (1 - s) * xs, rtol=1e-5)


def test_pure_update():
    """JAX: Compiles the Future, "Pure functions": a new array instead of mutation."""
    x = jnp.zeros((2, 3))
    updated_x = x.at[1, :].set(1.0)
    assert str(updated_x) == "[[0. 0. 0.]\n [1. 1. 1.]]"
    assert str(x) == "[[0. 0. 0.]\n [0. 0. 0.]]"


def test_pure_state():
    """JAX: Compiles the Future, "Pure functions": state goes in and comes out."""

    class Params(NamedTuple):
        w_x: float
        w_h: float
        w_o: float

    def rnn(params, x, h):
        h = jnp.tanh(params.w_x * x + params.w_h * h)
        y = jnp.tanh(params.w_o * h)
        return y, h

    h = y = jnp.zeros(())
    expected = 0.0
    for x in (1.0, -0.5):
        y, h = jit(rnn)(Params(0.5, 0.25, 2.0), x, h)
        expected = math.tanh(0.5 * x + 0.25 * expected)
    np.testing.assert_allclose(h, expected, rtol=1e-5)
    np.testing.assert_allclose(y, math.tanh(2.0 * expected), rtol=1e-5)


def test_auxiliary_output():
    """JAX: Compiles the Future, "Pure functions": extra results are returned."""

    def attention(q, k, v):
        score = jax.nn.softmax(q @ k.T)
        y = score @ v
        return y, score

    q = k = jnp.eye(2)
    y, score = jit(attention)(q, k, jnp.array([[1.0], [3.0]]))
    share = math.e / (math.e + 1)
    shares = [[share, 1 - share], [1 - share, share]]
    np.testing.assert_allclose(score, shares, rtol=1e-6)
    np.testing.assert_allclose(y, [[3 - 2 * share], [1 + 2 * share]], rtol=1e-6)


def test_pure_randomness():
    """JAX: Compiles the Future, "Pure functions": the key is split, not changed."""

    def normal(key):
        key, subkey = jax.random.split(key)
        return jax.random.normal(subkey)

    key = jax.random.PRNGKey(0)
    assert float(normal(key)) == float(normal(key))
    assert str(key) == "[0 0]"


def test_transformations_apply_repeatedly():
    """JAX: Compiles the Future, "Function transformations": in any combination."""

    def f(x):
        return x**3

    xs = jnp.array([1.0, 2.0])
    np.testing.assert_allclose(vmap(grad(f))(xs), [3.0, 12.0])
    np.testing.assert_allclose(jit(vmap(grad(grad(f))))(xs), [6.0, 12.0])


def test_derivatives_of_sine():
    """JAX: Compiles the Future, "Improve your own code": cos, then -sin."""
    cos_f = grad(jnp.sin)
    neg_sin_f = grad(grad(jnp.sin))
    np.testing.assert_allclose(cos_f(0.7), math.cos(0.7), rtol=1e-6)
    np.testing.assert_allclose(neg_sin_f(0.7), -math.sin(0.7), rtol=1e-6)


def test_model_over_examples():
    """JAX: Compiles the Future, "Improve your own code": `vmap` of a linear model."""
    w = jnp.array([1.0, -2.0, 0.5])

    def model(feature_vec):
        return jax.nn.relu(feature_vec.dot(w))

    examples = jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [2.0, 0.0, 2.0]])
    assert str(vmap(model)(examples)) == "[1. 0. 3.]"
