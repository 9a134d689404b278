"""`custom_root` and `custom_linear_solve`: values, all derivatives, batches, errors."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.test_util import check_grads

A = jnp.array([[3.0, 1.0, 0.5], [-1.0, 4.0, 0.0], [0.25, 0.5, 2.0]])
B = jnp.array([1.0, -2.0, 3.0])


def by_inverse(matvec, b):
    """Solve for one vector, the matrix read off a linear function."""
    return jnp.linalg.inv(curta.jacobian(matvec)(b)) @ b


def solve(a, b):
    return lax.custom_linear_solve(lambda x: a @ x, b, by_inverse, by_inverse)


def test_linear_solve_and_its_derivatives():
    np.testing.assert_allclose(solve(A, B), np.linalg.solve(A, B), rtol=1e-5)
    np.testing.assert_allclose(curta.jit(solve)(A, B), solve(A, B), rtol=1e-6)
    check_grads(solve, (A, B), 2, rtol=1e-2)
    check_grads(curta.jit(solve), (A, B), 1, rtol=1e-2)


def test_derivatives_do_not_go_through_the_solver():
    def opaque(matvec, b):
        return curta.pure_callback(
            lambda m, v: np.linalg.solve(m, v), b, curta.jacobian(matvec)(b), b
        )

    def fun(a, b):
        return lax.custom_linear_solve(lambda x: a @ x, b, opaque, opaque).sum()

    got = curta.grad(fun, (0, 1))(A, B)
    wanted = curta.grad(lambda a, b: jnp.linalg.solve(a, b).sum(), (0, 1))(A, B)
    for x, y in zip(got, wanted, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-4)


@pytest.mark.parametrize("in_axes", [(0, 0), (None, 0), (0, None), (None, 1)])
def test_batches_of_systems(in_axes):
    matrices = A if in_axes[0] is None else A + jnp.arange(2.0)[:, None, None]
    vectors = B if in_axes[1] is None else jnp.stack([B, 2 * B], in_axes[1])
    got = curta.vmap(solve, in_axes)(matrices, vectors)
    for i in range(2):
        a = A if in_axes[0] is None else matrices[i]
        b = B if in_axes[1] is None else jnp.take(vectors, i, in_axes[1])
        np.testing.assert_allclose(got[i], solve(a, b), rtol=1e-5)
    grads = curta.grad(lambda b: curta.vmap(solve, in_axes)(matrices, b).sum())
    assert grads(vectors).shape == vectors.shape


def test_transposed_system():
    (got,) = curta.linear_transpose(lambda b: solve(A, b), B)(B)
    np.testing.assert_allclose(got, np.linalg.solve(A.T, B), rtol=1e-5)


def test_transposed_after_ops_that_compute_known_results_too():
    def fun(b):
        known, b = lax.scan(lambda c, x: (jnp.sin(c), x * c), A[0], b)
        _, b = curta.jit(lambda k, x: (k * k, x + x))(known, b)
        return solve(A + known, b.sum(0)) * known

    b = jnp.stack([B, B])
    matrix = curta.jacfwd(fun)(b)
    (got,) = curta.linear_transpose(fun, b)(B)
    np.testing.assert_allclose(got, jnp.tensordot(B, matrix, 1), rtol=1e-4)


def test_symmetric_systems_solve_their_transpose():
    symmetric = A + A.T

    def fun(b):
        return lax.custom_linear_solve(
            lambda x: symmetric @ x, b, by_inverse, symmetric=True
        )

    check_grads(fun, (B,), 2)
    np.testing.assert_allclose(fun(B), np.linalg.solve(symmetric, B), rtol=1e-5)


def test_trees_and_auxiliary_results():
    def solver(matvec, b):
        return {k: v / 2 for k, v in b.items()}, {"calls": 7}

    def fun(b):
        return lax.custom_linear_solve(
            lambda x: {k: 2 * v for k, v in x.items()},
            b,
            solver,
            symmetric=True,
            has_aux=True,
        )

    b = {"u": jnp.arange(3.0), "v": 1.0}
    x, aux = curta.jit(fun)(b)
    assert x["u"].tolist() == [0.0, 0.5, 1.0] and aux["calls"] == 7
    grads = curta.grad(lambda b: fun(b)[0]["u"].sum())(b)
    assert grads["u"].tolist() == [0.5] * 3 and grads["v"] == 0.0
    _, batched = curta.vmap(fun)({"u": jnp.ones((2, 3)), "v": jnp.ones(2)})
    assert batched["calls"].tolist() == [7, 7]


def test_reverse_mode_needs_the_transposed_solver():
    def fun(b):
        return lax.custom_linear_solve(lambda x: A @ x, b, by_inverse).sum()

    assert np.isfinite(curta.jvp(fun, (B,), (B,))[1])
    with pytest.raises(TypeError, match="transpose_solve required for backwards mode"):
        curta.grad(fun)(B)


@pytest.mark.parametrize(
    ("matvec", "solver", "settings", "kind", "message"),
    [
        (lambda x: [x], by_inverse, {}, TypeError, r"matvec\(\) output pytree struct"),
        (lambda x: x, lambda mv, b: [b], {}, TypeError, r"solve\(\) output pytree"),
        (lambda x: jnp.ones(2), by_inverse, {}, ValueError, r"matvec\(\) output shape"),
        (lambda x: x, lambda m, b: b[:2], {}, ValueError, r"solve\(\) output shapes"),
        (
            lambda x: x,
            lambda m, b: (b, b, b),
            {"has_aux": True},
            ValueError,
            "auxiliary output was expected because has_aux",
        ),
    ],
)
def test_functions_of_another_structure(matvec, solver, settings, kind, message):
    with pytest.raises(kind, match=message):
        lax.custom_linear_solve(matvec, B, solver, **settings)


# ---- roots


def newton(f, x):
    def step(x):
        return x - f(x) / curta.grad(lambda y: f(y).sum())(x)

    return lax.fori_loop(0, 30, lambda _, x: step(x), x)


def root(a):
    """The cube root of a."""
    return lax.custom_root(
        lambda x: x**3 - a, 1.0 + 0 * a, newton, lambda g, y: y / g(1.0)
    )


def test_root_and_its_derivatives():
    np.testing.assert_allclose(root(8.0), 2.0, rtol=1e-6)
    np.testing.assert_allclose(curta.grad(root)(8.0), 1 / 12, rtol=1e-5)
    check_grads(root, (5.0,), 2, rtol=1e-2)
    check_grads(curta.jit(root), (5.0,), 1, rtol=1e-2)
    cubes = jnp.array([1.0, 8.0, 27.0])
    np.testing.assert_allclose(curta.vmap(root)(cubes), [1, 2, 3], rtol=1e-5)
    slopes = curta.vmap(curta.grad(root))(cubes)
    np.testing.assert_allclose(slopes, 1 / (3 * np.array([1, 4, 9])), rtol=1e-4)


def test_roots_of_systems_with_auxiliary_results():
    def fun(a, b):
        return lax.custom_root(
            lambda x: a @ x - b,
            jnp.zeros(3),
            lambda f, x: (jnp.linalg.solve(a, b), {"steps": 1}),
            lambda g, y: jnp.linalg.solve(curta.jacobian(g)(y), y),
            has_aux=True,
        )

    x, aux = fun(A, B)
    np.testing.assert_allclose(x, np.linalg.solve(A, B), rtol=1e-5)
    assert aux == {"steps": 1}
    check_grads(lambda a, b: fun(a, b)[0], (A, B), 2, rtol=1e-2)


def test_root_functions_of_another_structure():
    def scalar(g, y):
        return y / g(1.0)

    with pytest.raises(TypeError, match=r"f\(\) output pytree structure must match"):
        lax.custom_root(lambda x: (x, x), 1.0, lambda f, x: x, scalar)
    with pytest.raises(TypeError, match=r"solve\(\) output pytree structure"):
        lax.custom_root(lambda x: x, 1.0, lambda f, x: (x, x), scalar)
    with pytest.raises(TypeError, match=r"tangent_solve\(\) output pytree structure"):
        lax.custom_root(lambda x: x, 1.0, lambda f, x: x, lambda g, y: (y, y))
