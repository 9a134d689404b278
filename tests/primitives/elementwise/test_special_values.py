"""The special functions against mpmath, in units in the last place."""

import mpmath
import numpy as np
import pytest

from curta.primitives.elementwise import special_values

mpmath.mp.dps = 40


def uniform(low, high, count=60):
    return np.random.default_rng(0).uniform(low, high, count)


def log_gamma(x):
    return mpmath.log(abs(mpmath.gamma(x)))


@pytest.mark.parametrize(
    ("fun", "exact", "points", "ulps"),
    [
        ("erf", mpmath.erf, [uniform(-1, 1), uniform(-6, 6), uniform(-1e-5, 1e-5)], 3),
        ("erfc", mpmath.erfc, [uniform(-2, 2), uniform(0, 26)], 6),
        ("erf_inv", mpmath.erfinv, [uniform(-1, 1), 1 - 10 ** uniform(-15, -2)], 10),
        ("lgamma", log_gamma, [uniform(0, 3), uniform(0.99, 1.01), uniform(3, 99)], 6),
        ("digamma", mpmath.digamma, [uniform(0, 3), uniform(1.45, 1.47)], 8),
    ],
)
def test_errors_are_small(fun, exact, points, ulps):
    x = np.concatenate(points)
    with np.errstate(all="ignore"):
        got = getattr(special_values, fun)(x)
    for point, value in zip(x, got, strict=True):
        wanted = exact(mpmath.mpf(float(point)))
        unit = float(np.spacing(abs(float(wanted))))
        assert abs(mpmath.mpf(float(value)) - wanted) <= ulps * unit, (point, value)


@pytest.mark.parametrize(
    ("fun", "points", "wanted"),
    [
        ("erf", [0, -0.0, np.inf, -np.inf], [0, -0.0, 1, -1]),
        ("erfc", [0, np.inf, -np.inf], [1, 0, 2]),
        ("erf_inv", [0, 1, -1, 2, np.nan], [0, np.inf, -np.inf, np.nan, np.nan]),
        ("lgamma", [0, -1, np.inf, -np.inf, 1, 2], [np.inf] * 4 + [0, 0]),
        ("digamma", [0, -1, np.inf, -np.inf], [-np.inf, np.nan, np.inf, np.nan]),
    ],
)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_edges(fun, points, wanted, dtype):
    with np.errstate(all="ignore"):
        got = getattr(special_values, fun)(np.array(points, dtype))
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, np.array(wanted, dtype))


def test_polygamma_and_zeta_at_negative_arguments():
    with np.errstate(all="ignore"):
        got = special_values.polygamma(
            np.array([1.0, 2, 3]), np.array([-7.3, -7.3, -1.4])
        )
        wanted = [mpmath.polygamma(n, x) for n, x in ((1, -7.3), (2, -7.3), (3, -1.4))]
        np.testing.assert_allclose(got, np.array(wanted, float), rtol=1e-12)
        got = special_values.zeta(np.array([1.0, 0.5, 2.5]), np.array([2.0, 2.0, 3.0]))
    np.testing.assert_allclose(got[2], float(mpmath.zeta(2.5, 3)), rtol=1e-14)
    assert np.isinf(got[0]) and np.isnan(got[1])
