"""Least squares and minimization by Optimistix and JAXopt."""

import jax
import jax.numpy as jnp
import jaxopt
import numpy as np
import optimistix

from benchmarks.programs import Program

_RANDOM = np.random.default_rng(0)


def levenberg_marquardt() -> Program:
    """Curves of five parameters through 500 points, for a hundred data sets."""
    t = jnp.linspace(0.0, 3.0, 500)

    def curve(p):
        return p[0] * jnp.exp(-p[1] * t) * jnp.sin(p[2] * t + p[3]) + p[4]

    true = jnp.asarray(_RANDOM.uniform(0.8, 1.2, (100, 5)).astype(np.float32))
    data = jax.vmap(curve)(true * jnp.array([2.0, 0.5, 3.0, 0.2, 0.1]))
    solver = optimistix.LevenbergMarquardt(rtol=1e-4, atol=1e-4)

    @jax.jit
    @jax.vmap
    def fit(data, start):
        solution = optimistix.least_squares(
            lambda p, _: curve(p) - data, solver, start, max_steps=64, throw=False
        )
        return solution.value

    start = jnp.tile(jnp.array([1.8, 0.6, 2.9, 0.1, 0.0]), (100, 1))
    return Program(
        (data, None),
        lambda state: (state[0], fit(state[0], start)),
        lambda state: jax.vmap(curve)(state[1]),
        rtol=1e-2,
    )


def _rosenbrock(x, _=None):
    return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()


def bfgs() -> Program:
    solver = optimistix.BFGS(rtol=1e-4, atol=1e-4)

    @jax.jit
    def minimise(start):
        solution = optimistix.minimise(
            _rosenbrock, solver, start, max_steps=500, throw=False
        )
        return solution.value

    start = jnp.full(10, 0.8)
    return Program(
        (start, None),
        lambda state: (state[0], minimise(state[0])),
        lambda state: state[1],
        rtol=1e-2,
    )


def lbfgs() -> Program:
    """Logistic regression of 1,000 examples."""
    x = jnp.asarray(_RANDOM.normal(size=(1000, 50)).astype(np.float32))
    y = jnp.asarray((_RANDOM.uniform(size=1000) < 0.5).astype(np.float32))

    def loss(w):
        logits = x @ w
        return (jnp.logaddexp(0.0, logits) - y * logits).mean() + 1e-3 * w @ w

    solver = jaxopt.LBFGS(loss, maxiter=50, tol=1e-5)
    run = jax.jit(lambda w: solver.run(w).params)
    start = jnp.zeros(50)
    return Program(
        (start, None),
        lambda state: (state[0], run(state[0])),
        lambda state: state[1],
        rtol=1e-2,
    )
