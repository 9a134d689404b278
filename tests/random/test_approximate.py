"""Draws with `method="approximate"`: their distributions, and the bits of JAX 0.12."""

import numpy as np
import pytest
import scipy.stats as ss

import curta
import curta.numpy as jnp
from curta import random

KEY = random.key(3)
COUNTS = [0, 2, 7, 14, 46, 100066]  # of JAX 0.12, for the rates below


@pytest.mark.parametrize("a", [0.05, 0.7, 3.0, 80.0])
def test_gamma_is_distributed_as_it_should_be(a):
    draws = np.asarray(random.gamma(KEY, a, (20_000,), method="approximate"), "f8")
    assert ss.kstest(draws, ss.gamma(a).cdf).pvalue > 1e-3
    logs = np.asarray(random.loggamma(KEY, a, (20_000,), method="approximate"), "f8")
    np.testing.assert_allclose(np.exp(logs), draws, rtol=1e-4, atol=1e-30)


@pytest.mark.parametrize("lam", [0.3, 4.0, 6.9, 7.1, 40.0, 2000.0])
def test_poisson_is_distributed_as_it_should_be(lam):
    draws = np.asarray(random.poisson(KEY, lam, (20_000,), method="approximate"))
    assert draws.dtype == np.int32
    values, counts = np.unique(draws, return_counts=True)
    wanted = ss.poisson(lam)
    furthest = np.abs(np.cumsum(counts) / draws.size - wanted.cdf(values)).max()
    assert furthest < 1.95 / np.sqrt(draws.size)  # Kolmogorov: 0.1 % exceed it


def test_beta_and_chi_square_are_made_of_gamma_draws():
    draws = np.asarray(random.beta(KEY, 0.5, 2.0, (20_000,), method="approximate"))
    assert ss.kstest(draws, ss.beta(0.5, 2).cdf).pvalue > 1e-3
    draws = np.asarray(random.chisquare(KEY, 3.0, (20_000,), method="approximate"))
    assert ss.kstest(draws, ss.chi2(3).cdf).pvalue > 1e-3


def test_draws_are_those_of_jax():
    gamma = random.gamma(KEY, jnp.array([0.1, 1, 5, 100]), method="approximate")
    np.testing.assert_allclose(
        gamma, [0.043856014, 0.40390635, 5.8089743, 91.382042], rtol=1e-5
    )
    lam = jnp.array([0.0, 0.5, 6.0, 8.0, 50.0, 1e5])
    counts = random.poisson(KEY, lam, method="approximate")
    assert counts.tolist() == COUNTS


def test_narrow_and_wide_floats():
    half = random.gamma(KEY, 2.0, (3,), "float16", method="approximate")
    assert half.dtype == np.float16
    with curta.enable_x64(True):
        wide = random.gamma(KEY, 2.0, (3,), "float64", method="approximate")
        assert wide.dtype == np.float64
        great = random.poisson(KEY, 1e12, (3,), "int64", method="approximate")
        assert great.dtype == np.int64 and (abs(great - 10**12) < 10**7).all()


def test_gradients_follow_the_draw():
    def draw(a):
        return random.gamma(KEY, a, method="approximate")

    step = (draw(2.01) - draw(1.99)) / 0.02
    np.testing.assert_allclose(curta.grad(draw)(2.0), step, rtol=1e-2)


def test_poisson_takes_keys_of_other_generators():
    key = random.key(0, impl="rbg")
    assert random.poisson(key, 3.0, (5,), method="approximate").shape == (5,)
    with pytest.raises(NotImplementedError, match="method='exact' is only"):
        random.poisson(key, 3.0, (5,))


@pytest.mark.parametrize(
    "draw", [random.gamma, random.loggamma, random.chisquare, random.poisson]
)
def test_an_unknown_method(draw):
    with pytest.raises(ValueError, match="must be one of {'exact', 'approximate'}"):
        draw(KEY, 1.0, method="best")
