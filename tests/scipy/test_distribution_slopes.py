"""Derivatives of distributions at the ends of their support, at 0, and far out."""

import numpy as np
import pytest

import curta
from curta.scipy import stats

LINE = "logpdf pdf cdf logcdf sf logsf"
# A distribution, the shape parameters, the ends of its support, its functions.
LAWS = [
    ("norm", (), (-np.inf, np.inf), LINE),
    ("cauchy", (), (-np.inf, np.inf), LINE),
    *(("chi2", (k,), (0, np.inf), LINE) for k in (2.0, 3.0)),
    ("expon", (), (0, np.inf), LINE),
    *(("gamma", (a,), (0, np.inf), LINE) for a in (0.5, 1.0, 40.0)),
    *(("beta", ab, (0, 1), LINE) for ab in ((0.5, 0.5), (1.0, 20.0), (2.0, 0.5))),
    ("gumbel_l", (), (-np.inf, np.inf), LINE),
    ("gumbel_r", (), (-np.inf, np.inf), LINE),
    ("laplace", (), (-np.inf, np.inf), "logpdf pdf cdf"),
    ("logistic", (), (-np.inf, np.inf), "logpdf pdf cdf sf"),
    ("gennorm", (2.0,), (-np.inf, np.inf), "logpdf pdf cdf"),
    ("pareto", (2.5,), (1, np.inf), LINE),
    ("truncnorm", (-1.0, 2.0), (-1, 2), LINE),
]  # fmt: skip
POINTS = [0.0, 0.5, 1.0, -1.0, 2.0, -8.0, 8.0, 40.0, 1e-300, 1e30, -1e30]


def slopes(function, points, shape, places):
    """The derivatives by some arguments, compiled."""
    slope = curta.vmap(curta.grad(function, places), (0, *(None for _ in shape)))
    with curta.enable_x64(True):
        return [*map(np.asarray, curta.jit(slope)(points, *shape))]


def points_of(ends):
    """Points of the line with the ends of a support, and beyond them."""
    more = [x for end in ends for x in (end - 1, end, end + 1) if np.isfinite(x)]
    return np.unique([*POINTS, *more])


@pytest.mark.parametrize("name, shape, ends, functions", LAWS)
def test_slopes_are_densities_and_defined(name, shape, ends, functions):
    law, x = getattr(stats, name), points_of(ends)
    inside = (x >= ends[0]) & (x <= ends[1])
    places = (0,) if name in ("beta", "truncnorm") else (*range(1 + len(shape)),)
    with curta.enable_x64(True):
        density, log_density = (np.asarray(f(x, *shape)) for f in (law.pdf, law.logpdf))
    for function in functions.split():
        f = getattr(law, function)
        got, *others = slopes(f, x, shape, places)
        for slope in (got, *others):
            assert not np.isnan(slope).any(), (function, x[np.isnan(slope)])
        if "pdf" in function:
            continue
        want, keep = np.where(inside, density, 0), inside | True
        if function.startswith("log"):
            with curta.enable_x64(True), np.errstate(all="ignore"):
                log = np.asarray(f(x, *shape))
                want = np.exp(log_density - log)
            keep = inside & np.isfinite(want) & ~(abs(log) > 1e5)
        want = -want if "sf" in function else want
        np.testing.assert_allclose(got[keep], want[keep], 1e-10, err_msg=function)


def test_slopes_of_densities_at_ends():
    with curta.enable_x64(True):
        slope = curta.grad(stats.gamma.pdf, (0, 1))
        assert slope(0.0, 2.0) == (1.0, 0.0)
        assert curta.grad(stats.gamma.cdf)(0.0, 1.0) == 1.0
        assert curta.grad(stats.chi2.pdf)(0.0, 4.0) == 0.25
        np.testing.assert_allclose(curta.grad(stats.beta.pdf)(0.0, 2.0, 20.0), 420)
        np.testing.assert_allclose(curta.grad(stats.beta.pdf)(1.0, 20.0, 2.0), -420)
        np.testing.assert_allclose(curta.grad(stats.norm.logcdf)(-1e30), 1e30)
