"""Loops over small values, whose state fits the registers of the machine."""

from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Case, Thunk

STEPS = 10_000


def scalar_loop(lib: Any) -> Thunk:
    lax = lib.lax
    f = lib.jit(lambda x: lax.fori_loop(0, 10**6, lambda i, x: 0.999 * x + 1, x))
    x = lib.numpy.float32(2.0)
    return lambda: f(x)


def collatz(lib: Any) -> Thunk:
    """The steps to 1 from every number up to 1000: while loops in a loop."""
    jnp, lax = lib.numpy, lib.lax

    def step(state: Any) -> tuple[Any, Any]:
        n, count = state
        return jnp.where(n % 2 == 0, n // 2, 3 * n + 1), count + 1

    def add(i: Any, total: Any) -> Any:
        return total + lax.while_loop(lambda s: s[0] > 1, step, (i, 0))[1]

    f = lib.jit(lambda total: lax.fori_loop(1, 1001, add, total))
    zero = jnp.int32(0)
    return lambda: f(zero)


def lorenz_step(lib: Any, state: Any, _: Any) -> tuple[Any, Any]:
    """A Runge-Kutta step of Lorenz's three equations."""

    def slope(s: Any) -> Any:
        x, y, z = s
        return lib.numpy.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z])

    h = 0.01
    k1 = slope(state)
    k2 = slope(state + h / 2 * k1)
    k3 = slope(state + h / 2 * k2)
    k4 = slope(state + h * k3)
    state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return state, state


def lorenz(lib: Any) -> Thunk:
    """The first 1000 steps: further on, rounding decides where the path goes."""
    step = partial(lorenz_step, lib)
    f = lib.jit(lambda s: lib.lax.scan(step, s, None, length=1000))
    s = lib.numpy.ones(3)
    return lambda: f(s)


def lorenz_gradient(lib: Any) -> Thunk:
    step = partial(lorenz_step, lib)
    f = lib.jit(lib.grad(lambda s: lib.lax.scan(step, s, None, length=200)[0].sum()))
    s = lib.numpy.ones(3)
    return lambda: f(s)


def many_lorenz(lib: Any) -> Thunk:
    def path(s: Any) -> Any:
        step = partial(lorenz_step, lib)
        return lib.lax.fori_loop(0, 200, lambda _, s: step(s, None)[0], s)

    f = lib.jit(lib.vmap(path))
    s = np.random.default_rng(0).uniform(-5, 5, (1000, 3)).astype(np.float32)
    s = lib.numpy.asarray(s)
    return lambda: f(s)


def hmc(lib: Any) -> Thunk:
    """Hamiltonian Monte Carlo on a correlated normal distribution in eight dims."""
    jnp, random, lax = lib.numpy, lib.random, lib.lax
    precision = jnp.eye(8) + 0.2 * jnp.ones((8, 8))

    def energy(q: Any, p: Any) -> Any:
        return 0.5 * (q @ precision @ q + p @ p)

    def leapfrog(state: Any, _: Any) -> tuple[Any, None]:
        q, p = state
        p = p - 0.05 * precision @ q
        q = q + 0.1 * p
        return (q, p - 0.05 * precision @ q), None

    def sample(q: Any, key: Any) -> tuple[Any, Any]:
        first, second = random.split(key)
        p = random.normal(first, (8,))
        (new, final), _ = lax.scan(leapfrog, (q, p), None, length=10)
        gain = energy(q, p) - energy(new, final)
        q = jnp.where(jnp.log(random.uniform(second)) < gain, new, q)
        return q, q

    f = lib.jit(lambda q, keys: lax.scan(sample, q, keys)[1])
    q, keys = jnp.zeros(8), random.split(random.key(0), 1000)
    return lambda: f(q, keys)


def leapfrog(lib: Any) -> Thunk:
    """A particle in a quartic potential of eight dims."""

    def step(state: Any, _: Any) -> tuple[Any, Any]:
        q, p = state
        p = p - 0.05 * (q + 0.1 * q**3)
        q = q + 0.1 * p
        return (q, p - 0.05 * (q + 0.1 * q**3)), q

    f = lib.jit(lambda q, p: lib.lax.scan(step, (q, p), None, length=STEPS))
    q, p = lib.numpy.linspace(0, 1, 8), lib.numpy.ones(8)
    return lambda: f(q, p)


def kalman(lib: Any) -> Thunk:
    """A Kalman filter of four states and two measurements."""
    jnp = lib.numpy
    move = jnp.eye(4) + 0.1 * jnp.eye(4, k=1)
    look, noise = jnp.eye(2, 4), 0.1 * jnp.eye(2)

    def step(state: Any, y: Any) -> tuple[Any, Any]:
        mean, cov = state
        mean, cov = move @ mean, move @ cov @ move.T + 0.01 * jnp.eye(4)
        innovation = look @ cov @ look.T + noise
        gain = jnp.linalg.solve(innovation, look @ cov).T
        mean = mean + gain @ (y - look @ mean)
        return (mean, cov - gain @ look @ cov), mean

    f = lib.jit(lambda ys: lib.lax.scan(step, (jnp.zeros(4), jnp.eye(4)), ys))
    ys = np.random.default_rng(0).standard_normal((1000, 2)).astype(np.float32)
    ys = jnp.asarray(ys)
    return lambda: f(ys)


def roots(count: int, lib: Any) -> Thunk:
    """Newton's method for square roots, mapped over numbers."""

    def root(x: Any) -> Any:
        def goes_on(s: Any) -> Any:
            return lib.numpy.abs(s[0] * s[0] - x) > 1e-3 * x

        def step(s: Any) -> tuple[Any, Any]:
            return 0.5 * (s[0] + x / s[0]), s[1] + 1

        return lib.lax.while_loop(goes_on, step, (x, 0))[0]

    f, x = lib.jit(lib.vmap(root)), lib.numpy.linspace(1, 1000, count)
    return lambda: f(x)


LOOPS = [
    Case("fori_loop, 1e6 scalar steps", scalar_loop, 0.8),
    Case("while_loop in fori_loop, Collatz", collatz, 0.8),
    Case("scan, Lorenz RK4", lorenz, 0.8, rtol=1e-2, atol=1e-2),
    Case("grad of scan, Lorenz RK4", lorenz_gradient, 0.8, rtol=1e-2, atol=1e-2),
    Case("scan, leapfrog", leapfrog, 0.5, rtol=1e-2, atol=1e-2),
    Case("scan, HMC", hmc, 0.5, rtol=1e-2, atol=1e-2),
    Case("scan, Kalman filter", kalman, 0.5, rtol=1e-3, atol=1e-4),
    Case("vmap of while_loop, 1000", partial(roots, 1000), 0.7, rtol=2e-3),
    Case("vmap of while_loop, 1e5", partial(roots, 10**5), 0.7, rtol=2e-3),
    Case("vmap of fori_loop, Lorenz, 1000", many_lorenz, 0.5, rtol=1e-2, atol=1e-2),
]
