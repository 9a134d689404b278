"""Incomplete gamma and beta functions, Bessel functions: against SciPy and mpmath."""

import mpmath
import numpy as np
import pytest
import scipy.special

import curta
from curta import lax
from curta.primitives.elementwise import bessel_values, incomplete_values


def powers(low, high, seed, count=200):
    return 10 ** np.random.default_rng(seed).uniform(low, high, count)


@pytest.mark.parametrize(
    ("name", "scipy_name"), [("igamma", "gammainc"), ("igammac", "gammaincc")]
)
def test_incomplete_gamma(name, scipy_name):
    a = powers(-3, 3, seed=0)
    x = a * powers(-1.5, 1, seed=1)
    with np.errstate(all="ignore"):
        got = getattr(incomplete_values, name)(a, x)
    wanted = getattr(scipy.special, scipy_name)(a, x)
    np.testing.assert_allclose(got, wanted, rtol=3e-12, atol=1e-300)


def test_incomplete_beta():
    a, b = powers(-2, 2, seed=0), powers(-2, 2, seed=1)
    x = np.random.default_rng(2).uniform(0, 1, 200)
    with np.errstate(all="ignore"):
        got = incomplete_values.betainc(a, b, x)
    np.testing.assert_allclose(got, scipy.special.betainc(a, b, x), rtol=3e-12)


@pytest.mark.parametrize(
    ("a", "x"), [(0.5, 0.3), (2.0, 5.0), (10.0, 9.0), (10.0, 30.0), (100.0, 101.0)]
)
def test_slopes_in_the_shape_of_gamma(a, x):
    slope = mpmath.diff(lambda s: mpmath.gammainc(s, 0, x, regularized=True), a)
    density = mpmath.mpf(x) ** (a - 1) * mpmath.exp(-x) / mpmath.gamma(a)
    got = incomplete_values.igamma_grad_a(np.float64(a), np.float64(x))
    np.testing.assert_allclose(got, float(slope), rtol=1e-10)
    got = incomplete_values.random_gamma_grad(np.float64(a), np.float64(x))
    np.testing.assert_allclose(got, float(-slope / density), rtol=1e-10)


def test_edges_of_incomplete_functions():
    a = np.array([1, 0, 0, -1, np.inf, 2, np.nan])
    x = np.array([0, 1, 0, 1, 1, np.inf, 1])
    with np.errstate(all="ignore"):
        p, q = incomplete_values.igamma(a, x), incomplete_values.igammac(a, x)
        beta = incomplete_values.betainc(
            np.array([1.0, 1, 0, 1, -1]),
            np.array([1.0, 1, 1, 0, 1]),
            np.array([0.0, 1, 0.5, 0.5, 0.5]),
        )
    np.testing.assert_array_equal(p, [0, 1, np.nan, np.nan, 0, 1, np.nan])
    np.testing.assert_array_equal(q, [1, 0, np.nan, np.nan, 1, 0, np.nan])
    np.testing.assert_array_equal(beta, [0, 1, 1, 0, np.nan])


@pytest.mark.parametrize(
    ("name", "scipy_name"), [("bessel_i0e", "i0e"), ("bessel_i1e", "i1e")]
)
def test_bessel_functions(name, scipy_name):
    x = np.concatenate([powers(-8, 5, seed=0), np.linspace(-9, 9, 100)])
    with np.errstate(all="ignore"):
        got = getattr(bessel_values, name)(x)
    np.testing.assert_allclose(got, getattr(scipy.special, scipy_name)(x), rtol=3e-15)


def test_incomplete_beta_of_large_parameters():
    rng = np.random.default_rng(1)
    a, b = 10.0 ** rng.uniform(6, 9, (2, 60))
    share = a / (a + b)
    x = share + rng.normal(size=60) * np.sqrt(share * (1 - share) / (a + b))
    # Half a unit of x itself is worth a twelfth of this.
    tolerance = 12 * np.finfo(float).eps * np.sqrt(np.maximum(a, b)).max()
    expected = scipy.special.betainc(a, b, x)
    with curta.enable_x64(True):
        with np.errstate(all="ignore"):
            by_numpy = incomplete_values.betainc(a, b, x)
        for got in by_numpy, curta.jit(lax.betainc)(a, b, x):
            np.testing.assert_allclose(got, expected, rtol=tolerance)
        few = scipy.special.betainc(1e12, 2.0, 1 - 1e-12)
        np.testing.assert_allclose(lax.betainc(1e12, 2.0, 1 - 1e-12), few, rtol=1e-13)
