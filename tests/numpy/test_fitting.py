"""Roots of polynomials, fits, Kaiser's window, against NumPy."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.test_util import check_grads

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "p", [[1.0, -3, 2], [0, 0, 2, -3, 1], [1, 0, 0], [3.0], [0.0, 0.0], [1j, 2, 3, 4]]
)
def test_roots(p):
    p = np.array(p)
    got, want = jnp.roots(p), np.roots(p)
    assert got.shape == want.shape and got.dtype == np.complex64
    order = np.argsort(want.round(3))
    np.testing.assert_allclose(np.sort(got.round(3)), want[order].round(3), atol=2e-3)
    traced = curta.jit(lambda p: jnp.roots(p, strip_zeros=False))(p)
    known = np.asarray(traced)[~np.isnan(traced)]
    np.testing.assert_allclose(
        np.sort(known.round(3)), np.sort(want.round(3)), atol=2e-3
    )


def test_roots_under_jit_need_strip_zeros():
    with pytest.raises(curta.errors.ConcretizationTypeError, match="strip_zeros=False"):
        curta.jit(jnp.roots)(np.ones(3))
    with pytest.raises(ValueError, match="rank-1 array"):
        jnp.roots(np.ones((2, 2)))


@pytest.mark.parametrize("deg", [0, 1, 3])
@pytest.mark.parametrize("columns", [None, 2])
@pytest.mark.parametrize("weighted", [False, True])
def test_polyfit(deg, columns, weighted):
    x = RNG.normal(size=12)
    y = RNG.normal(size=(12,) if columns is None else (12, columns))
    w = RNG.uniform(0.5, 2, 12) if weighted else None
    with curta.enable_x64(True):
        got = jnp.polyfit(x, y, deg, w=w)
        np.testing.assert_allclose(got, np.polyfit(x, y, deg, w=w))
        for cov in True, "unscaled":
            mine = jnp.polyfit(x, y, deg, w=w, cov=cov)
            theirs = np.polyfit(x, y, deg, w=w, cov=cov)
            for a, b in zip(mine, theirs):
                np.testing.assert_allclose(a, b)
        full = jnp.polyfit(x, y, deg, w=w, full=True)
        want = np.polyfit(x, y, deg, w=w, full=True)
        assert full[2] == want[2]
        np.testing.assert_allclose(full[3], want[3])
        np.testing.assert_allclose(full[1].ravel(), want[1].ravel())


@pytest.mark.parametrize(
    "args, error, message",
    [
        ((np.ones(2), np.ones(2), -1), ValueError, "expected deg >= 0"),
        ((np.ones((2, 2)), np.ones(2), 1), TypeError, "expected 1D vector for x"),
        ((np.ones(0), np.ones(0), 1), TypeError, "expected non-empty vector for x"),
        (
            (np.ones(2), np.ones((2, 1, 1)), 1),
            TypeError,
            "expected 1D or 2D array for y",
        ),
        ((np.ones(2), np.ones(3), 1), TypeError, "x and y to have same length"),
    ],
)
def test_mistakes(args, error, message):
    with pytest.raises(error, match=message):
        jnp.polyfit(*args)


def test_kaiser_and_i0():
    x = np.linspace(-9, 9, 40).astype(np.float32)
    np.testing.assert_allclose(jnp.i0(x), np.i0(x), rtol=1e-5)
    check_grads(jnp.i0, (np.float32(0.7),), 1)
    with pytest.raises(ValueError, match="Unsupported input type to jax.numpy.i0"):
        jnp.i0(1j)
    for m in 0, 1, 5, 8:
        np.testing.assert_allclose(jnp.kaiser(m, 4.5), np.kaiser(m, 4.5), atol=1e-6)
