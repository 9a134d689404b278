"""Minimization, against known minima and SciPy."""

import numpy as np
import pytest
import scipy.optimize

import curta
import curta.numpy as jnp
from curta.scipy.optimize import minimize

LBFGS = "l-bfgs-experimental-do-not-rely-on-this"


def rosenbrock(x):
    return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(x):
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


@pytest.mark.parametrize("method", ["BFGS", LBFGS])
@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("compiled", [False, True])
def test_rosenbrock(method, n, compiled):
    options = {"gtol": 1e-7} if method == "BFGS" else {"gtol": 1e-7, "ftol": 0}

    def solve(x0):
        return minimize(rosenbrock, x0, method=method, options=options)

    with curta.enable_x64(True):
        found = (curta.jit(solve) if compiled else solve)(np.full(n, -0.5))
    assert found.success and found.status == 0
    np.testing.assert_allclose(found.x, np.ones(n), atol=1e-5)
    np.testing.assert_allclose(found.jac, np.zeros(n), atol=1e-7)
    assert found.nfev == found.njev >= found.nit > 5


def test_the_same_minimum_as_scipy():
    value = curta.jit(himmelblau)
    slope = curta.jit(curta.grad(himmelblau))
    with curta.enable_x64(True):
        for x0 in ([0.0, 0.0], [92, 0.001], [-3.0, -1.0]):
            found = minimize(himmelblau, np.array(x0), method="BFGS")
            want = scipy.optimize.minimize(value, x0, jac=slope)
            np.testing.assert_allclose(found.x, want.x, atol=1e-4)
            assert found.hess_inv.shape == (2, 2)


def test_badly_scaled():
    found = minimize(lambda x: jnp.mean((1e4 * x) ** 2), jnp.ones(2), method="BFGS")
    np.testing.assert_allclose(found.x, [0, 0], atol=1e-6)


def test_complex():
    goal = np.array([1.0, 2 - 3j, 4, -5j])

    def distance(z):
        return jnp.real(jnp.dot(jnp.conj(z - goal), z - goal))

    found = minimize(distance, np.zeros(4, complex), method=LBFGS)
    np.testing.assert_allclose(found.x, goal, atol=1e-3)


def test_limits():
    one = minimize(rosenbrock, jnp.zeros(3), method="BFGS", options={"maxiter": 1})
    assert not one.success and one.status == 1 and one.nit == 1
    few = minimize(rosenbrock, jnp.zeros(3), method=LBFGS, options={"maxfun": 5})
    assert not few.success and few.status == 2
    endless = minimize(lambda x: jnp.sum(x), jnp.zeros(2), method="BFGS")
    assert not endless.success and endless.status == 5


def test_args_and_tol():
    found = minimize(
        lambda x, a, b: jnp.sum((x - a) ** 2) + b,
        jnp.zeros(2),
        (jnp.array([1.0, 2.0]), 3.0),
        method="bfgs",
        tol=1e-6,
    )
    np.testing.assert_allclose(found.x, [1, 2], atol=1e-5)
    assert found.fun == 3


def test_under_vmap():
    starts = jnp.array([[0.0, 0.0], [-3.0, -1.0], [3.0, -1.5]])
    solve = curta.vmap(lambda x: minimize(himmelblau, x, method="BFGS").x)
    for x, start in zip(solve(starts), starts):
        alone = minimize(himmelblau, start, method="BFGS").x
        np.testing.assert_allclose(x, alone, atol=1e-3)


def test_mistakes():
    with pytest.raises(TypeError, match="must be a tuple, got 45"):
        minimize(rosenbrock, jnp.zeros(2), 45, method="BFGS")
    with pytest.raises(ValueError, match="Method Newton not recognized"):
        minimize(rosenbrock, jnp.zeros(2), method="Newton")
