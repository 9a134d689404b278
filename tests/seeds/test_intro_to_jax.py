"""The examples of "Intro to Jax" (2025-01-12)."""

from functools import partial

import numpy as np
import pytest

import curta as jax
from curta import grad, jit, numpy as jnp, random, vmap
from curta.lax import while_loop


def test_update_of_a_slice():
    """Intro to Jax, "Numpy operations": set and add from the second element on."""
    x = jnp.array([1, 2, 3])
    y = x.at[1:].set(0)
    assert str(y) == "[1 0 0]"
    z = x.at[1:].add(1)
    assert str(z) == "[1 3 4]"


def test_abstract_and_concrete():
    """Intro to Jax, "Numpy operations": `ShapedArray` has no values, `Array` has."""
    abstract = jax.eval_shape(lambda x: x * 2, jnp.ones((2, 3)))
    assert abstract.shape == (2, 3) and abstract.dtype == jnp.float32
    assert isinstance(jnp.ones(3), jax.Array)


def test_keys():
    """Intro to Jax, "Random numbers": splitting a key and drawing from a part."""
    k = random.key(42)
    k, k1 = random.split(k)
    out1 = random.normal(k1, (3,))
    np.testing.assert_allclose(out1, [0.60576403, 0.7990441, -0.908927], rtol=2e-6)


def test_vectorised_sampler():
    """Intro to Jax, "Random numbers": one key, an array of degrees of freedom."""
    k, _ = random.split(random.key(42))
    k, k2 = random.split(k)
    dfs = jnp.array([1, 2])
    out2 = vmap(random.t, in_axes=(None, 0))(k2, dfs)
    np.testing.assert_allclose(out2, [-1.8834321, -0.83157206], rtol=2e-6)


def test_list_is_no_batch():
    """Intro to Jax, "Random numbers": a list is a tree of scalars, not an array."""
    with pytest.raises(ValueError, match="vmap was requested to map its argument"):
        vmap(lambda x: x)([1, 2])


def test_in_axes_and_out_axes():
    """Intro to Jax, "`vmap`": the results are stacked along the columns."""

    def f(x, y):
        return x + y

    xs = jnp.array([0, 1, 2, 3])
    y = jnp.array([4, 5])
    out = vmap(f, in_axes=(0, None), out_axes=1)(xs, y)
    assert str(out) == "[[4 5 6 7]\n [5 6 7 8]]"


def test_branch_on_a_value():
    """Intro to Jax, "`jit` if you can": the first function that does not compile."""

    @jit
    def f(x):
        if x > 0:
            return x
        else:
            return jnp.stack([x, x])

    message = r"Attempted boolean conversion of traced array with shape bool\[\]"
    with pytest.raises(jax.errors.TracerBoolConversionError, match=message):
        f(3)


def test_static_loop():
    """Intro to Jax, "`jit` if you can": a loop unrolled while tracing."""

    @partial(jit, static_argnums=1)
    def g(x, n):
        i = 0
        while i < n:
            i += 1
        return x + i

    assert str(g(1, 5)) == "6"


def test_dynamic_loop():
    """Intro to Jax, "`jit` if you can": a loop whose count is a traced value."""

    def cond_fun(val):
        i, n = val
        return i < n

    def body_fun(val):
        i, n = val
        return i + 1, n

    @jit
    def g(x, n):
        end, _ = while_loop(cond_fun, body_fun, (0, n))
        return x + end

    assert str(g(1, 5)) == "6"


def test_hessian_by_composition():
    """Intro to Jax, "`grad` `grad`!": the Jacobian of a gradient is the Hessian."""

    def f(x):
        return x[0] ** 2 * x[1] + jnp.sum(x**3)

    x = jnp.array([1.0, 2.0])
    hessian = jit(jax.jacobian(grad(f)))
    np.testing.assert_allclose(hessian(x), [[10.0, 2.0], [2.0, 12.0]], rtol=1e-6)
    np.testing.assert_allclose(jax.hessian(f)(x), hessian(x), rtol=1e-6)


def test_caveats_of_grad():
    """Intro to Jax, "`grad` `grad`!": scalar outputs and continuous inputs only."""
    with pytest.raises(TypeError, match="Gradient only defined for scalar-output"):
        grad(lambda x: x * 2)(jnp.ones(3))
    with pytest.raises(TypeError, match="grad requires real- or complex-valued inputs"):
        grad(lambda x: x * 2)(3)


def test_waiting_and_comparing():
    """Intro to Jax, "Simple profiling/testing"."""
    out = jit(lambda x: x + 1)(jnp.zeros(2)).block_until_ready()
    np.testing.assert_allclose(out, np.ones(2))


def test_type_hints():
    """Intro to Jax, "Type hints": `ArrayLike` comes in, `Array` goes out."""

    def double(x: jax.typing.ArrayLike) -> jax.Array:
        return jnp.multiply(x, 2)

    assert isinstance(double(3.0), jax.Array)
