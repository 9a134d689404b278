"""Gradients given with the value, hoisted closures, calls with given transposes."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.custom_derivatives import linear_call


def test_custom_gradient_of_two_arguments():
    @curta.custom_gradient
    def f(x, y):
        return x * y, lambda ct: (10 * ct * y, ct * x)

    assert f(3.0, 4.0) == 12
    assert curta.grad(f, argnums=(0, 1))(3.0, 4.0) == (40, 3)
    assert curta.jit(curta.grad(f))(3.0, 4.0) == 40
    batched = curta.vmap(curta.grad(f))(jnp.arange(3.0), jnp.arange(3.0))
    assert batched.tolist() == [0, 10, 20]


def test_custom_gradient_of_trees():
    @curta.custom_gradient
    def f(x):
        return {"out": x["a"] ** 2}, lambda ct: ({"a": 5 * ct["out"]},)

    assert curta.grad(lambda x: f({"a": x})["out"])(2.0) == 5


def test_closure_convert_hoists_what_is_differentiated():
    def minimum(objective, x):
        fun, hoisted = curta.closure_convert(objective, x)
        return fun(x, *hoisted), len(hoisted)

    value, count = minimum(lambda x: x * 3.0, 2.0)
    assert value == 6 and count == 0
    w = jnp.arange(3.0)
    gradient, count = curta.grad(
        lambda w: minimum(lambda x: (x * w).sum(), 2.0), has_aux=True
    )(w)
    assert gradient.tolist() == [2, 2, 2] and count == 1


def test_closure_convert_checks_the_arguments():
    fun, _ = curta.closure_convert(lambda x: x, 1.0)
    with pytest.raises(TypeError, match="must have the same Pytree structure"):
        fun((1.0, 2.0))


def seven(x):
    """The identity, whose transpose is said to be 7."""
    return linear_call(lambda _, x: x, lambda _, t: 7.0 + 0 * t, (), x)


def test_linear_call():
    transpose = curta.linear_transpose
    assert seven(1.0) == 1
    assert transpose(seven, 1.0)(1.0)[0] == 7
    assert transpose(lambda t: transpose(seven, 1.0)(t)[0], 1.0)(1.0)[0] == 1
    assert curta.jvp(seven, (1.0,), (2.0,)) == (1, 2)
    assert curta.grad(seven)(3.0) == 7
    assert curta.jit(curta.grad(seven))(3.0) == 7


def test_linear_call_with_residuals():
    def f(x, r):
        return linear_call(lambda r, t: t / r, lambda r, t: t / r, r, x)

    r, x = jnp.array([2.0, 4.0]), jnp.array([1.0, 8.0])
    np.testing.assert_allclose(f(x, r), [0.5, 2])
    np.testing.assert_allclose(curta.vmap(f)(x, r), [0.5, 2])
    np.testing.assert_allclose(
        curta.vmap(curta.grad(f), in_axes=(0, None))(x, 2.0), [0.5, 0.5]
    )
    with pytest.raises(NotImplementedError, match="in its residuals"):
        curta.grad(lambda r: f(1.0, r))(2.0)


def test_linear_call_checks_the_transpose():
    def f(x):
        return linear_call(lambda _, x: x, lambda _, t: (t, t), (), x)

    with pytest.raises(TypeError, match="transpose output pytree structure"):
        curta.linear_transpose(f, 1.0)(1.0)
