"""grad, vmap, jit and jacobians in each other, against NumPy and differences."""

import itertools

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import grad, hessian, jacfwd, jacrev, jit, vmap

X = jnp.linspace(-1.5, 1.5, 7)


def f(x):
    """A scalar function with the third derivative in reach."""
    return jnp.sin(x) * jnp.exp(-(x**2)) + jnp.tanh(x)


def numeric_derivative(fun, x, order):
    """Central differences in float64."""
    if order == 0:
        return fun(x)
    h = 1e-3
    up, down = (numeric_derivative(fun, x + s * h, order - 1) for s in (1, -1))
    return (up - down) / (2 * h)


def numpy_f(x):
    return np.sin(x) * np.exp(-(x**2)) + np.tanh(x)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("where", ["nowhere", "inside", "outside", "everywhere"])
def test_nested_grad(order, where):
    fun = f
    for _ in range(order):
        fun = grad(jit(fun) if where in ("inside", "everywhere") else fun)
        fun = jit(fun) if where in ("outside", "everywhere") else fun
    found = [float(fun(float(x))) for x in X]
    expected = numeric_derivative(numpy_f, np.asarray(X, np.float64), order)
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


def test_grad_of_jit_of_grad_of_jit_of_grad():
    nested = grad(jit(grad(jit(grad(f)))))
    expected = numeric_derivative(numpy_f, 0.3, 3)
    np.testing.assert_allclose(nested(0.3), expected, rtol=1e-3)


@pytest.mark.parametrize("order", list(itertools.permutations(["grad", "vmap", "jit"])))
def test_vmap_grad_jit_in_every_order(order):
    wrappers = {
        "grad": lambda g, batched: (
            grad(lambda x: jnp.sum(g(x))) if batched else grad(g)
        ),
        "vmap": lambda g, batched: vmap(g),
        "jit": lambda g, batched: jit(g),
    }
    fun, batched = f, False
    for name in order:
        fun = wrappers[name](fun, batched)
        batched = batched or name == "vmap"
    expected = numeric_derivative(numpy_f, np.asarray(X, np.float64), 1)
    np.testing.assert_allclose(fun(X), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("outer", [jacfwd, jacrev])
@pytest.mark.parametrize("inner", [jacfwd, jacrev])
@pytest.mark.parametrize("compiled", [False, True])
def test_second_derivatives(outer, inner, compiled):
    def g(x):
        return jnp.sum(x[:-1] ** 3 * x[1:]) + jnp.prod(jnp.sin(x))

    fun = outer(inner(g))
    fun = jit(fun) if compiled else fun
    x = jnp.array([0.3, -0.7, 1.1])
    expected = hessian(g)(x)
    np.testing.assert_allclose(fun(x), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(expected, expected.T, rtol=1e-4, atol=1e-5)
    e = np.eye(3, dtype=np.float32) * 1e-2
    rows = [(grad(g)(x + d) - grad(g)(x - d)) / 2e-2 for d in e]
    np.testing.assert_allclose(expected, np.stack(rows), rtol=2e-2, atol=2e-2)


def test_jacobians_of_trees():
    def g(params):
        return {"a": params["w"] @ params["x"], "b": jnp.sum(params["x"])}

    params = {"w": jnp.arange(6.0).reshape(2, 3), "x": jnp.array([1.0, 2.0, 3.0])}
    forward, reverse = jacfwd(g)(params), jacrev(g)(params)
    assert forward["a"]["w"].shape == (2, 2, 3)
    assert forward["b"]["x"].shape == (3,)
    for a, b in zip(
        curta.tree.leaves(forward), curta.tree.leaves(reverse), strict=True
    ):
        np.testing.assert_allclose(a, b)


def test_vmap_of_vmap():
    x, y = jnp.arange(6.0).reshape(2, 3), jnp.arange(4.0)
    outer = vmap(vmap(lambda a, b: a * b + a, (None, 0)), (0, None))
    table = vmap(outer, (0, None))(x, y)
    expected = np.asarray(x)[:, :, None] * np.asarray(y) + np.asarray(x)[:, :, None]
    np.testing.assert_allclose(table, expected)
    np.testing.assert_allclose(jit(vmap(outer, (0, None)))(x, y), expected)


def test_vmap_axes():
    x = jnp.arange(24.0).reshape(2, 3, 4)
    for axis in range(-3, 3):
        found = vmap(lambda row: row * 2, in_axes=axis, out_axes=axis)(x)
        np.testing.assert_allclose(found, 2 * np.asarray(x))
    moved = vmap(lambda row: row, in_axes=1, out_axes=-1)(x)
    np.testing.assert_allclose(moved, np.moveaxis(np.asarray(x), 1, -1))


def test_vmap_trees_and_none():
    batch = {"x": jnp.arange(3.0), "scale": 2.0}
    found = vmap(lambda b: b["x"] * b["scale"], in_axes=({"x": 0, "scale": None},))(
        batch
    )
    np.testing.assert_allclose(found, [0, 2, 4])
    out = vmap(lambda x: (x, 1.0), out_axes=(0, None))(jnp.arange(3.0))
    assert out[1] == 1.0
    assert vmap(lambda: jnp.ones(2), axis_size=3)().shape == (3, 2)


def test_jvp_and_vjp_agree():
    def g(x, y):
        return jnp.sin(x) @ y, jnp.sum(x * y)

    x, y = jnp.array([0.1, 0.2]), jnp.array([3.0, -1.0])
    dots = (jnp.array([1.0, 2.0]), jnp.array([-0.5, 0.25]))
    _, out_dots = curta.jvp(g, (x, y), dots)
    _, pull = curta.vjp(g, x, y)
    cts = (jnp.float32(0.7), jnp.float32(-1.3))
    found = pull(cts)
    left = sum(float(a * b) for a, b in zip(out_dots, cts, strict=True))
    right = sum(float(a @ b) for a, b in zip(dots, found, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-5)


def test_linearize_and_transpose():
    out, push = curta.linearize(f, 0.5)
    np.testing.assert_allclose(out, numpy_f(0.5), rtol=1e-6)
    np.testing.assert_allclose(push(2.0), 2 * grad(f)(0.5), rtol=1e-6)
    np.testing.assert_allclose(vmap(push)(X), X * grad(f)(0.5), rtol=1e-5)
    transposed = curta.linear_transpose(lambda x: 3 * x[::2], jnp.ones(4))
    np.testing.assert_allclose(transposed(jnp.array([1.0, 2.0]))[0], [3, 0, 6, 0])


def test_value_and_grad_with_aux_and_argnums():
    def loss(w, x, name):
        return jnp.sum(w * x), {"prediction": w * x, "name": name}

    fun = curta.value_and_grad(loss, argnums=(0, 1), has_aux=True)
    (value, aux), (dw, dx) = fun(jnp.ones(2), jnp.array([2.0, 3.0]), "run")
    assert value == 5.0
    assert aux["name"] == "run"
    np.testing.assert_allclose(aux["prediction"], [2, 3])
    np.testing.assert_allclose(dw, [2, 3])
    np.testing.assert_allclose(dx, [1, 1])


def test_holomorphic_and_integer_grad():
    z = jnp.array(1.0 + 2.0j)
    found = grad(lambda z: z**2, holomorphic=True)(z)
    np.testing.assert_allclose(found, 2 * (1 + 2j), rtol=1e-6)
    integer = grad(lambda n, x: n * x, argnums=(0, 1), allow_int=True)(3, 2.0)
    assert integer[0].dtype == curta.float0
    assert integer[1] == 3.0


def test_grad_through_python_control_flow():
    def g(x):
        return x**2 if x > 0 else -x

    assert grad(g)(3.0) == 6.0
    assert grad(g)(-3.0) == -1.0


def test_closing_over_outer_values():
    def outer(x):
        return grad(lambda y: x * y**2)(3.0)

    assert grad(outer)(2.0) == 6.0
    np.testing.assert_allclose(vmap(outer)(jnp.arange(3.0)), [0, 6, 12])
    assert jit(outer)(2.0) == 12.0
    assert grad(jit(lambda x: jit(lambda y: x * y)(x)))(4.0) == 8.0
