"""Programs of several functions against finite differences: both modes, two orders.

Functions one by one are in tests/functions.
"""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.scipy import linalg as sla, special
from curta.test_util import check_grads

RNG = np.random.default_rng(0)
REAL = RNG.uniform(-2.0, 2.0, (2, 3))
SQUARE = RNG.uniform(-1.0, 1.0, (3, 3)) + 3 * np.eye(3)
IDS = np.array([1, 0])
PROGRAMS = {
    "where": (lambda x: jnp.where(x > 0, jnp.sin(x), x * x), REAL),
    "take": (lambda x: jnp.take(x * x, np.array([2, 0, 2]), axis=1), REAL),
    "gather": (lambda x: (x * x)[IDS, np.array([2, 2])], REAL),
    "update": (lambda x: jnp.square(x).at[0].set(x[1] ** 3), REAL),
    "scatter add": (lambda x: jnp.square(x).at[np.array([0, 0])].add(x), REAL),
    "scatter multiply": (
        lambda x: jnp.sin(x).at[0].mul(x[1], unique_indices=True),
        REAL,
    ),
    "scatter max": (lambda x: jnp.sin(x).at[0].max(x[1] ** 3), REAL),
    "max pooling": (
        lambda x: lax.reduce_window(x * x, -np.inf, lax.max, (1, 2), (1, 1), "VALID"),
        REAL,
    ),
    "scan": (lambda x: lax.scan(lambda c, y: (c * y, c + y), x[0], x), REAL),
    "rfft": (lambda x: jnp.fft.irfft(jnp.fft.rfft(x * x), 3), REAL),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_of_programs(name):
    f, x = PROGRAMS[name]
    with curta.enable_x64(True):
        check_grads(f, (x,), 2, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize("reverse", [False, True])
def test_of_log_sums_of_equal_numbers(reverse):
    x = jnp.array([1.0, 1.0, 1.0])
    hessian = curta.hessian(lambda x: lax.cumlogsumexp(x, reverse=reverse)[1])(x)
    inside = np.array([0.0, 1.0, 1.0] if reverse else [1.0, 1.0, 0.0])
    wanted = np.diag(inside) / 2 - np.outer(inside, inside) / 4
    np.testing.assert_allclose(hessian, wanted, atol=1e-6)


def test_first_order_of_what_takes_long():
    with curta.enable_x64(True):
        check_grads(sla.expm, (SQUARE[:2, :2],), 1, atol=1e-3, rtol=1e-3)
        check_grads(lambda x: special.hyp1f1(1.0, 2.5, x), (REAL,), 1, atol=1e-4)
