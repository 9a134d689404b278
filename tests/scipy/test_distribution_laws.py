"""Which arguments of distributions are legal: NaN where SciPy has NaN, numbers else."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.stats

import curta
import curta.numpy as jnp
from curta.scipy import stats

NUMBERS = [-np.inf, -2.0, -0.0, 0.0, 0.3, 1.0, 2.0, 2.5, 7.0, np.inf, np.nan]
SHARES = [-0.1, 0.0, 1e-300, 0.3, 1.0, 1.1, np.nan]
POSITIVE = [-1.0, 0.0, 0.7, 3.0, np.nan]
COUNTS = [-1.0, 0.0, 3.0, 2.5, np.nan]
PLACES = [0.0, 1.5, np.nan]
SCALES = [1.0, -1.0, 0.0, 2.0, np.nan]
LINE, DENSITY = "logpdf pdf cdf logcdf sf logsf", "logpdf pdf"

# A distribution, its shape parameters, whether it has a scale, and functions.
LAWS = [
    ("norm", [], True, LINE, "ppf isf"),
    ("cauchy", [], True, LINE, "ppf isf"),
    ("chi2", [POSITIVE], True, LINE, ""),
    ("expon", [], True, LINE, "ppf"),
    ("gamma", [POSITIVE], True, LINE, ""),
    ("beta", [POSITIVE, POSITIVE], True, LINE, ""),
    ("gennorm", [POSITIVE], False, "logpdf pdf cdf", ""),
    ("gumbel_l", [], True, LINE, "ppf"),
    ("gumbel_r", [], True, LINE, "ppf"),
    ("laplace", [], True, "logpdf pdf cdf", ""),
    ("logistic", [], True, "logpdf pdf cdf sf", "ppf isf"),
    ("pareto", [POSITIVE], True, LINE, "ppf"),
    ("t", [POSITIVE], True, DENSITY, ""),
    ("uniform", [], True, "logpdf pdf cdf", "ppf"),
    ("vonmises", [POSITIVE], False, DENSITY, ""),
    ("wrapcauchy", [SHARES], False, DENSITY, ""),
    ("truncnorm", [[-1.0, 0.5, np.nan], [2.0, -1.0, np.nan]], True, LINE, ""),
    ("bernoulli", [SHARES], None, "logpmf pmf", ""),
    ("betabinom", [COUNTS, POSITIVE, POSITIVE], None, "logpmf pmf", ""),
    ("binom", [COUNTS, SHARES], None, "logpmf pmf", ""),
    ("geom", [SHARES], None, "logpmf pmf", ""),
    ("nbinom", [POSITIVE, SHARES], None, "logpmf pmf", ""),
    ("poisson", [POSITIVE], None, "logpmf pmf cdf", ""),
]
CASES = [
    (name, function, numbers, shape, scaled)
    for name, shape, scaled, of_numbers, of_shares in LAWS
    for functions, numbers in ((of_numbers, NUMBERS), (of_shares, SHARES))
    for function in functions.split()
]


# One function of each kind: those of one distribution share their arguments.
STEEP_ONES = ("logpdf", "cdf", "ppf", "logpmf")
STEEP = [c for c in CASES if c[1] in STEEP_ONES]


def arguments(numbers, shape, scaled):
    """All combinations of what may be wrong, in columns."""
    places = {True: [PLACES, SCALES], False: [], None: [PLACES]}[scaled]
    return [np.array(x) for x in zip(*itertools.product(numbers, *shape, *places))]


def settled(name, function, x, *rest):
    """Where SciPy 1.17 has a value: of densities at infinities it often has none."""
    if name in ("vonmises", "wrapcauchy") and "pdf" in function:
        return ~np.isinf(x) & (rest[0] != 0)
    if name in DISCRETE or "pdf" in function:
        return ~np.isinf(x)
    return np.ones(x.shape, bool)


DISCRETE = {name for name, _, scaled, *_ in LAWS if scaled is None}


def each(cases):
    names = "name, function, numbers, shape, scaled"
    return pytest.mark.parametrize(names, cases, ids=["-".join(c[:2]) for c in cases])


@each(CASES)
def test_values_at_all_kinds_of_arguments(name, function, numbers, shape, scaled):
    columns = arguments(numbers, shape, scaled)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = getattr(getattr(scipy.stats, name), function)(*columns)
    keep = settled(name, function, *columns)
    mine = getattr(getattr(stats, name), function)
    with curta.enable_x64(True):
        got = mine(*columns)
        compiled = curta.jit(mine)(*columns) if function in STEEP_ONES else got
    for value in got, compiled:
        np.testing.assert_allclose(value[keep], want[keep], 1e-12, err_msg=function)


@each(STEEP)
def test_derivatives_are_nan_where_values_are(name, function, numbers, shape, scaled):
    columns = arguments(numbers, shape, scaled)
    mine = getattr(getattr(stats, name), function)
    columns = [x[::3] for x in columns]
    whole = name in DISCRETE  # whose number and location have no derivative
    spread = [i for i in range(len(columns)) if (name, i) not in WITHOUT_SLOPE]
    spread = spread[1:-1] if whole else spread
    with curta.enable_x64(True):
        values = np.asarray(mine(*columns))
        slopes = curta.jit(curta.vmap(curta.grad(mine, spread)))(*columns)
    illegal = np.isnan(values) & np.isfinite(columns[0])
    for slope in slopes:
        assert np.isnan(np.asarray(slope)[illegal]).all()


# I_x(a, b) has no derivative by a and b.
WITHOUT_SLOPE = {("beta", 1), ("beta", 2)}


@pytest.mark.parametrize(
    "call, want",
    [
        (lambda: stats.chi2.pdf(0.0, 2.0), 0.5),
        (lambda: stats.uniform.pdf(np.nan), np.nan),
        (lambda: stats.truncnorm.cdf(np.nan, -1.0, 2.0), np.nan),
        (lambda: stats.cauchy.ppf(1.1), np.nan),
        (lambda: stats.cauchy.ppf(1e-300), -3.183098861837907e299),
        (lambda: stats.expon.logcdf(1e-300), -690.7755278982137),
        (lambda: stats.cauchy.logcdf(1e4), -3.1831495128941375e-05),
        (lambda: stats.binom.pmf(1.5, 3, 0.5), 0.0),
        (lambda: stats.geom.pmf(1.5, 0.5), 0.0),
        (lambda: stats.norm.pdf(0.0, 0.0, -1.0), np.nan),
        (lambda: stats.dirichlet.pdf(jnp.ones(2) / 2, jnp.array([1.0, -1.0])), np.nan),
        (lambda: stats.multinomial.pmf(jnp.ones(2, int), 2, jnp.array([1.5, -0.5])),
         np.nan),
    ],
)  # fmt: skip
def test_reported_values(call, want):
    with curta.enable_x64(True):
        np.testing.assert_allclose(call(), want, rtol=1e-12)


def test_values_near_one_in_single_precision():
    logcdf = stats.cauchy.logcdf(jnp.float32(1e4))
    np.testing.assert_allclose(logcdf, -3.1831495128941375e-05, rtol=1e-6)


@pytest.mark.parametrize(
    "function, x, want",
    [
        (lambda x: stats.gamma.pdf(x, 1.0), 0.0, -1.0),
        (lambda x: stats.chi2.pdf(x, 2.0), 0.0, -0.25),
        (lambda x: stats.gennorm.cdf(x, 1.5), 0.0, 0.5538660),
        (lambda x: stats.expon.pdf(x), 0.0, -1.0),
        (lambda x: stats.beta.pdf(x, 1.0, 2.0), 0.0, -2.0),
        (lambda x: stats.beta.pdf(x, 2.0, 1.0), 1.0, 2.0),
        (lambda p: stats.binom.pmf(0.0, 3.0, p), 0.0, -3.0),
        (lambda p: stats.binom.pmf(3.0, 3.0, p), 1.0, 3.0),
        (lambda p: stats.poisson.pmf(0.0, p), 0.0, -1.0),
    ],
)
def test_slopes_at_the_ends(function, x, want):
    np.testing.assert_allclose(curta.grad(function)(x), want, rtol=1e-6)
    np.testing.assert_allclose(curta.jit(curta.grad(function))(x), want, rtol=1e-6)


# By mpmath.
LARGE = [
    (stats.gamma.logpdf, (1e6 + 300, 1e6), -7.8719848525536552),
    (stats.poisson.logpmf, (1e8, 1e8), -10.129278906014189),
    (stats.binom.logpmf, (5e7, 1e8, 0.5), -9.4361317271209102),
    (stats.beta.logpdf, (0.5, 1e6, 1e6), 7.0285373916173823),
]


@pytest.mark.parametrize("function, args, want", LARGE)
def test_densities_of_large_parameters(function, args, want):
    with curta.enable_x64(True):
        np.testing.assert_allclose(function(*args), want, rtol=1e-14)
    np.testing.assert_allclose(function(*map(np.float32, args)), want, rtol=1e-6)
