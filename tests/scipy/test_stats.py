"""Distributions and statistics against SciPy."""

import numpy as np
import pytest
import scipy.stats

import curta
import curta.numpy as jnp
from curta import random
from curta.scipy import stats
from curta.test_util import check_grads

RNG = np.random.default_rng(0)
X = np.concatenate([np.linspace(-6, 6, 61), [np.nan]])
POSITIVE = np.linspace(0.05, 9, 61)
UNIT = np.linspace(0.01, 0.99, 61)
SHAPE, OTHER = RNG.uniform(0.5, 6, 61), RNG.uniform(0.5, 6, 61)
K = np.arange(-2, 12)

CONTINUOUS = "logpdf pdf cdf logcdf sf logsf".split()
LOC_SCALE = (0.3, 1.7)
# Of each distribution: the functions, the points, the shape parameters, and whether it
# takes a location and a scale.
CASES = [
    ("norm", CONTINUOUS, X, (), LOC_SCALE),
    ("norm", ["ppf", "isf"], UNIT, (), LOC_SCALE),
    ("cauchy", CONTINUOUS, X, (), LOC_SCALE),
    ("cauchy", ["ppf", "isf"], UNIT, (), LOC_SCALE),
    ("chi2", CONTINUOUS, POSITIVE, (SHAPE,), (-0.5, 1.7)),
    ("expon", CONTINUOUS, POSITIVE, (), LOC_SCALE),
    ("expon", ["ppf"], UNIT, (), LOC_SCALE),
    ("gamma", CONTINUOUS, POSITIVE, (SHAPE,), (-0.5, 1.7)),
    ("beta", CONTINUOUS, UNIT, (SHAPE, OTHER), (-0.1, 1.5)),
    ("gennorm", ["logpdf", "pdf", "cdf"], X, (2.5,), ()),
    ("gumbel_l", CONTINUOUS, X, (), LOC_SCALE),
    ("gumbel_l", ["ppf"], UNIT, (), LOC_SCALE),
    ("gumbel_r", CONTINUOUS, X, (), LOC_SCALE),
    ("gumbel_r", ["ppf"], UNIT, (), LOC_SCALE),
    ("laplace", ["logpdf", "pdf", "cdf"], X, (), LOC_SCALE),
    ("logistic", ["logpdf", "pdf", "cdf", "sf"], X, (), LOC_SCALE),
    ("logistic", ["ppf", "isf"], UNIT, (), LOC_SCALE),
    ("pareto", CONTINUOUS, POSITIVE, (SHAPE,), (-0.5, 1.2)),
    ("pareto", ["ppf"], UNIT, (SHAPE,), (-0.5, 1.2)),
    ("t", ["logpdf", "pdf"], X[:61], (SHAPE,), LOC_SCALE),
    ("uniform", ["logpdf", "pdf", "cdf"], X[:61], (), LOC_SCALE),
    ("uniform", ["ppf"], UNIT, (), LOC_SCALE),
    ("vonmises", ["logpdf", "pdf"], np.linspace(-3, 3, 61), (SHAPE,), ()),
    ("wrapcauchy", ["logpdf", "pdf"], np.linspace(0, 6.2, 61), (0.4,), ()),
    ("truncnorm", CONTINUOUS, X[:61], (-1.2, 2.3), LOC_SCALE),
    ("truncnorm", CONTINUOUS, X[:61] + 4.03, (1.5, 3.0), LOC_SCALE),
    ("bernoulli", ["logpmf", "pmf"], K, (0.3,), (1,)),
    ("bernoulli", ["cdf"], K, (0.3,), ()),
    ("bernoulli", ["ppf"], UNIT, (0.3,), ()),
    ("betabinom", ["logpmf", "pmf"], K, (8, 2.5, 1.5), ()),
    ("binom", ["logpmf", "pmf"], K, (8, 0.3), (1,)),
    ("geom", ["logpmf", "pmf"], K, (0.3,), (1,)),
    ("nbinom", ["logpmf", "pmf"], K, (5, 0.3), (1,)),
    ("poisson", ["logpmf", "pmf", "cdf"], K, (3.3,), (1,)),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "name, functions, points, shape, place", CASES, ids=[c[0] for c in CASES]
)
def test_distribution(name, functions, points, shape, place, dtype):
    args = [
        x.astype(dtype) if np.asarray(x).dtype.kind == "f" else x
        for x in map(np.asarray, (points, *shape, *place))
    ]
    rtol, atol = (2e-4, 1e-5) if dtype == np.float32 else (1e-9, 1e-12)
    for function in functions:
        if not any(x.dtype.kind == "f" for x in args):
            continue
        mine = getattr(getattr(stats, name), function)
        with curta.enable_x64(dtype == np.float64), np.errstate(all="ignore"):
            want = getattr(getattr(scipy.stats, name), function)(
                *[x.astype(np.float64) if x.dtype.kind == "f" else x for x in args]
            )
            got, compiled = mine(*args), curta.jit(mine)(*args)
        assert got.dtype == dtype
        for value in got, compiled:
            np.testing.assert_allclose(value, want, rtol, atol, err_msg=function)


def test_float32_stays_beside_x64():
    x = np.linspace(0.1, 0.9, 5, dtype=np.float32)
    with curta.enable_x64(True):
        for name, functions, _, shape, _ in CASES:
            parameters = [np.float32(p if np.ndim(p) == 0 else p[:5]) for p in shape]
            for function in functions:
                value = getattr(getattr(stats, name), function)(x, *parameters)
                assert value.dtype == np.float32, (name, function)


def test_entropy_of_poisson():
    mu = np.array([0.0, 0.5, 3.0, 30.0, 99.9, 100.1, 1e4])
    got = stats.poisson.entropy(mu)
    np.testing.assert_allclose(got, scipy.stats.poisson.entropy(mu), rtol=1e-3)
    np.testing.assert_allclose(got[4], got[5], rtol=1e-3)


def test_dirichlet():
    alpha = np.array([1.5, 2.0, 0.7])
    x = RNG.dirichlet(alpha, 7).T
    want = scipy.stats.dirichlet.logpdf(x, alpha)
    np.testing.assert_allclose(stats.dirichlet.logpdf(x, alpha), want, rtol=1e-4)
    np.testing.assert_allclose(stats.dirichlet.pdf(x[:-1], alpha), np.exp(want), 1e-3)
    assert stats.dirichlet.logpdf(np.array([0.5, 0.6, 0.1]), alpha) == -np.inf
    with pytest.raises(ValueError, match="must be one-dimensional"):
        stats.dirichlet.logpdf(x, alpha[None])
    with pytest.raises(ValueError, match="same number of entries as `alpha`"):
        stats.dirichlet.logpdf(x[:1], alpha)


def test_multinomial():
    p = np.array([0.2, 0.3, 0.5])
    x = RNG.multinomial(9, p, 6)
    want = scipy.stats.multinomial.logpmf(x, 9, p)
    np.testing.assert_allclose(stats.multinomial.logpmf(x, 9, p), want, rtol=1e-5)
    assert stats.multinomial.pmf(np.array([1, 2, 3]), 9, p) == 0
    with pytest.raises(ValueError, match="must be of integer type"):
        stats.multinomial.logpmf(x * 1.0, 9, p)


@pytest.mark.parametrize("cov", ["matrix", "scalar", "batch"])
def test_multivariate_normal(cov):
    x, mean = RNG.normal(size=(5, 3)), RNG.normal(size=3)
    root = RNG.normal(size=(3, 3))
    matrix = root @ root.T + np.eye(3)
    given = {"matrix": matrix, "scalar": 2.0, "batch": np.stack([matrix] * 5)}[cov]
    whole = 2.0 * np.eye(3) if cov == "scalar" else matrix
    want = scipy.stats.multivariate_normal.logpdf(x, mean, whole)
    got = stats.multivariate_normal.logpdf(x, mean, given)
    np.testing.assert_allclose(got, want, rtol=1e-4)


def test_multivariate_normal_in_one_dimension():
    got = stats.multivariate_normal.logpdf(0.3, 0.1, 2.0)
    np.testing.assert_allclose(got, stats.norm.logpdf(0.3, 0.1, np.sqrt(2)), rtol=1e-6)
    with pytest.raises(ValueError, match="incompatible shapes"):
        stats.multivariate_normal.logpdf(np.zeros(2), np.zeros(2), np.eye(3))


@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_rankdata(method, axis):
    a = RNG.integers(0, 5, (6, 7))
    want = scipy.stats.rankdata(a, method, axis=axis)
    np.testing.assert_array_equal(stats.rankdata(a, method, axis=axis), want)


def test_rankdata_of_nan():
    assert np.isnan(stats.rankdata(np.array([1.0, np.nan]))).all()
    with pytest.raises(ValueError, match="unknown method 'best'"):
        stats.rankdata(np.arange(3), "best")


@pytest.mark.parametrize("axis", [None, 0, 1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_mode(axis, keepdims):
    a = RNG.integers(0, 4, (6, 7))
    want = scipy.stats.mode(a, axis=axis, keepdims=keepdims)
    got = stats.mode(a, axis, keepdims=keepdims)
    np.testing.assert_array_equal(got.mode, want.mode)
    np.testing.assert_array_equal(got.count, want.count)
    with pytest.raises(NotImplementedError, match="In order to best JIT compile"):
        stats.mode(a, nan_policy="raise")


def test_sem():
    a = RNG.normal(size=(4, 5)).astype(np.float32)
    a[0, 0] = np.nan
    for policy in "propagate", "omit":
        want = scipy.stats.sem(a, axis=1, nan_policy=policy)
        np.testing.assert_allclose(stats.sem(a, 1, nan_policy=policy), want, rtol=1e-5)


@pytest.mark.parametrize("bandwidth", ["scott", "silverman", 0.4, lambda kde: 0.7])
@pytest.mark.parametrize("d", [1, 2])
def test_kernel_density(bandwidth, d):
    data, weights = RNG.normal(size=(d, 30)), RNG.uniform(0.5, 1, 30)
    points = RNG.normal(size=(d, 8))
    want = scipy.stats.gaussian_kde(data, bandwidth, weights)
    reference = scipy.stats.gaussian_kde(data[:, :9] + 1)
    with curta.enable_x64(True):
        kde = stats.gaussian_kde(data, bandwidth, weights)
        other = stats.gaussian_kde(data[:, :9] + 1)
        close = np.testing.assert_allclose
        close(kde(points), want(points))
        close(curta.jit(lambda k, x: k.logpdf(x))(kde, points), want.logpdf(points))
        close(kde.integrate_kde(other), want.integrate_kde(reference))
        mean, cov = np.ones(d), np.eye(d)
        close(kde.integrate_gaussian(mean, cov), want.integrate_gaussian(mean, cov))
        if d == 1:
            close(kde.integrate_box_1d(-1, 0.5), want.integrate_box_1d(-1, 0.5))
        assert kde.resample(random.key(0), (11,)).shape == (d, 11)


def test_kernel_density_mistakes():
    with pytest.raises(ValueError, match="should have multiple elements"):
        stats.gaussian_kde(np.ones(1))
    with pytest.raises(ValueError, match="should be of length n"):
        stats.gaussian_kde(np.arange(3.0), weights=np.ones(2))
    with pytest.raises(ValueError, match="points have dimension 3"):
        stats.gaussian_kde(np.arange(3.0))(np.ones((3, 4)))


DENSITIES = {
    "norm": (0.3, 0.1, 1.7),
    "truncnorm": (0.3, -1.0, 2.0),
    "gamma": (0.7, 2.3),
    "beta": (0.4, 2.3, 1.2),
    "t": (0.4, 2.3),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_derivatives(name):
    with curta.enable_x64(True):
        check_grads(curta.jit(getattr(stats, name).logpdf), DENSITIES[name], 1)


def test_derivative_outside_the_support():
    assert jnp.isfinite(curta.grad(stats.gamma.logpdf)(-1.0, 2.0))


def test_derivatives_outside_the_support():
    for function in stats.truncnorm.cdf, stats.truncnorm.sf, stats.truncnorm.logsf:
        for x in -3.0, 3.0:
            assert curta.grad(function)(x, -1.0, 2.0) == 0
        assert np.isfinite(curta.grad(function)(0.5, -1.0, np.inf))
    assert curta.grad(stats.pareto.logcdf)(0.5, 2.0) == 0
    assert curta.grad(stats.pareto.cdf)(0.5, 2.0) == 0


CUT = stats.truncnorm


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (CUT.cdf, (0.0, -1.0, 1.0)),  # one of the two intervals ends at 0
        (CUT.cdf, (0.5, 0.0, 1.0)),
        (CUT.sf, (1.0, 0.0, 2.0)),
        (CUT.logcdf, (-1.0, -2.0, 0.0)),
        (CUT.logpdf, (-1.0, -1.5, 0.0)),
    ],
)
def test_derivatives_at_zero(function, args):
    with curta.enable_x64(True):
        check_grads(function, args, 1)


def test_the_derivative_of_a_distribution_is_its_density_at_a_kink():
    assert curta.grad(stats.laplace.cdf)(0.0) == stats.laplace.pdf(0.0) == 0.5


def test_derivatives_at_the_ends_of_the_support():
    """They are those of the inside, and beyond the end 0 whatever is there."""
    second = curta.hessian(stats.expon.cdf)
    assert second(0.0) == -1 and second(-1.0) == 0
    assert curta.hessian(stats.pareto.logsf)(1.0, 2.0) == 2
    for function, args in [
        *((f, (-1.0, 1.0)) for f in (stats.gamma.cdf, stats.gamma.sf)),
        *((f, (-1.0, 2.0)) for f in (stats.chi2.cdf, stats.chi2.sf)),
        *((f, (2.0, 1.0, 0.5)) for f in (stats.beta.cdf, stats.beta.sf)),
    ]:
        assert curta.grad(function)(*args) == 0


@pytest.mark.parametrize("mu", [0.3, 2.5, 40.0, 130.0])
def test_the_derivative_of_the_entropy(mu):
    with curta.enable_x64(True):
        check_grads(stats.poisson.entropy, (mu,), 2)


@pytest.mark.parametrize("name", ["t", "chi2", "gennorm", "gamma"])
def test_parameters_are_numbers_of_the_dtype(name):
    """A parameter that is a Python number does not widen bfloat16."""
    x = jnp.ones(3, jnp.bfloat16)
    assert getattr(stats, name).logpdf(x, 2.0).dtype == jnp.bfloat16
