"""Special functions where their cases meet: ends, poles, tiny and huge arguments."""

import cmath

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.scipy import special

INF = np.inf
# A function, its arguments, and the value by mpmath.
POINTS = [
    ("gammainc", (1e8, 1e8), 0.50001329807601412),
    ("gammaincc", (1e8, 1e8), 0.49998670192398588),
    ("gammainc", (1e12, 1e12 + 3), 0.500001329807601334),
    ("gammaincc", (1e-300, 0.5), 5.5977359477616081e-301),
    ("gammaincc", (1e-5, 0.9), 2.6018639772092959e-6),
    ("expi", (1e-300,), -690.19831223331214),
    ("exp1", (1e-300,), 690.19831223331214),
    ("boxcox1p", (-0.5, 5e-324), -0.69314718055994531),
    ("boxcox", (2.0, 1e-300), 0.69314718055994531),
    ("boxcox", (2.0, -1e-10), 0.69314718053592265),
    ("boxcox", (0.0, 0.0), -INF),
    ("betaln", (-1.0, 1.0), 0.0),
    ("beta", (-4.0, 2.0), 1 / 12),
    ("beta", (2.0, -4.0), 1 / 12),
    ("beta", (-4.0, 6.0), INF),
    ("betaln", (-3.0, 0.5), INF),
    ("betaln", (-7.2, 9.9), 4.8875537454850459),
    ("digamma", (0.0,), -INF),
    ("digamma", (-0.0,), INF),
    ("digamma", (-1.0,), np.nan),
    ("poch", (1e8, 2.5), 1.00000001875000005e20),
    ("poch", (1e15, -0.5), 3.1622776601683805e-8),
    ("poch", (-5.0, 3.0), -60.0),
    ("poch", (-5.0, 7.0), 0.0),
    ("poch", (-5.0, -2.0), 1 / 42),
    ("poch", (-1.5, -0.5), INF),
    ("poch", (0.0, 2.0), 0.0),
    ("owens_t", (25.0, 0.5), 1.5283483531912805e-138),
    ("owens_t", (25.0, 4.0), 1.5283483531912805e-138),
    ("owens_t", (0.0, INF), 0.25),
    ("owens_t", (INF, 2.0), 0.0),
    ("comb", (1e10, 4.0), 4.16666666416666667e38),
    ("log_ndtr", (-20.5,), -214.06672896326387),
    ("log_ndtr", (-37.1,), -692.73828071562331),
    ("betainc", (0.3, 1e-30, 0.9), 5.1547267552923034e-30),
    ("betainc", (1e-30, 1.0, 1e-8), 1.0),
    ("kl_div", (1.0, 1 + 2.0**-20), 4.547470617660916e-13),
    ("kl_div", (3.0, 0.0), INF),
    ("kl_div", (0.0, 3.0), 3.0),
    ("rel_entr", (1e300, 1e-300), 1.3815510557964274e303),
    ("hyp1f1", (20.0, 0.5, -30.0), 5.2484058692396589e-8),
    ("hyp1f1", (60.0, 1.0, -77.0), 4.9198872016202128e-19),
    ("hyp1f1", (-2.0, 0.5, 150.0), 29401.0),
    ("hyp1f1", (-20.5, 12.0, 30.0), 5.7050575068620642e-4),
    ("hyp1f1", (-20.5, 12.0, 150.0), -1.4502754037520595e23),
]


@pytest.mark.parametrize("name, args, want", POINTS)
def test_values(name, args, want):
    function = getattr(special, name)
    with curta.enable_x64(True):
        for f in function, curta.jit(function):
            np.testing.assert_allclose(f(*args), want, rtol=2e-13)
        mapped = curta.vmap(function)(*(np.full(2, x) for x in args))
        np.testing.assert_allclose(mapped, want, rtol=2e-13)
    tiny = float(np.finfo(np.float32).tiny)
    fits = all(not x or tiny < abs(x) <= 1e38 or np.isinf(x) for x in args)
    if fits and (want != want or abs(want) <= 1e38 or np.isinf(want)):
        single = function(*map(np.float32, args))
        np.testing.assert_allclose(single, want, rtol=1e-5, atol=1e-37)


def test_the_smallest_parameter():
    with curta.enable_x64(True):
        for f in special.gammaincc, curta.jit(special.gammaincc):
            assert 0 <= f(5e-324, 0.5) <= 5e-324
            assert special.gammainc(5e-324, 0.5) == 1


@pytest.mark.parametrize(
    "function, x, want",
    [
        (lambda z: special.poch(z, 3.0), -5.0, 47.0),
        (lambda a: special.gammainc(a, 1e8), 1e8, -3.9893e-5),
        (lambda k: special.boxcox(2.0, k), 1e-30, np.log(2) ** 2 / 2),
        (lambda x: special.xlogy(0.0, x), 0.0, 0.0),
        (lambda x: special.xlog1py(0.0, x), -1.0, 0.0),
        (jnp.sinc, np.inf, 0.0),
    ],
)
def test_slopes(function, x, want):
    with curta.enable_x64(True):
        for slope in curta.grad(function), curta.jit(curta.grad(function)):
            np.testing.assert_allclose(slope(x), want, rtol=1e-4)


@pytest.mark.parametrize("function", [special.xlogy, special.xlog1py])
@pytest.mark.parametrize("x", [0.0, 0.5])
def test_mixed_second_derivatives(function, x):
    """The derivative by y is 0 at x = 0; its derivative by x is not."""
    want = 1 / 3.0 if function is special.xlogy else 1 / 4.0
    hessian = curta.hessian(function, (0, 1))(x, 3.0)
    np.testing.assert_allclose([hessian[0][1], hessian[1][0]], want, rtol=1e-6)


def test_sinc_at_infinity():
    np.testing.assert_array_equal(jnp.sinc(np.array([INF, -INF, 0])), [0, 0, 1])
    assert np.isnan(jnp.sinc(np.nan))


def test_exponential_integrals_round_once():
    x = np.array([0.9, 1.1, 25.0], np.float32)
    np.testing.assert_allclose(special.exp1(x), [0.26018395, 0.1859909, 5.3488998e-13],
                               rtol=1.2e-7)  # fmt: skip


def gradients(function, *args):
    """The derivative with respect to the last argument, eager and compiled."""
    slope = curta.grad(function, len(args) - 1)
    with curta.enable_x64(True):
        return [float(f(*map(float, args))) for f in (slope, curta.jit(slope))]


@pytest.mark.parametrize("name, args, want", [
    ("gammainc", (1, 0), 1), ("gammaincc", (1, 0), -1), ("gammainc", (2, 0), 0),
    ("gammainc", (0.5, 0), INF), ("gammainc", (1e6, 1e6 + 100), 3.9691295540969705e-4),
    ("betainc", (1, 7, 0), 7), ("betainc", (7, 1, 1), 7), ("betainc", (2, 2, 0), 0),
    ("betainc", (0.5, 2, 0), INF), ("betainc", (1e6, 1e6, 0.4999), 1084.1346940861127),
])  # fmt: skip
def test_derivatives_of_integrals_are_densities(name, args, want):
    got = gradients(getattr(special, name), *args)
    np.testing.assert_allclose(got, want, rtol=1e-13)


# A function, its arguments, by which it is differentiated, and the derivative.
SLOPES = [
    ("digamma", (INF,), 0, 0),
    ("erfcx", (INF,), 0, 0),
    ("dawsn", (1e30,), 0, -5e-61),
    ("dawsn", (INF,), 0, 0),
    ("expi", (INF,), 0, INF),
    ("spence", (1.0,), 0, -1),
    ("spence", (1e-300,), 0, -690.77552789821371),
    ("factorial", (-2.0,), 0, 0),
    ("gammainc", (0.0, 2.0), 1, 0),
    ("rel_entr", (1e-300, 1e-300), 1, -1),
    ("kl_div", (1e-300, 1e-300), 0, 0),
    ("boxcox", (0.0, 1.0), 0, 1),
    ("boxcox", (0.0, 0.5), 0, INF),
    ("boxcox", (0.0, 0.5), 1, 4),
    ("boxcox1p", (-1.0, 2.0), 1, 0.25),
    ("poch", (0.0, 3.0), 0, 2),
    ("poch", (-5.0, 7.0), 0, -120),
    ("hyp1f1", (0.0, 1.0, 0.5), 0, 0.57015142052158604),
    ("hyp1f1", (-1.0, 2.0, 1.0), 1, 0.25),
    ("hyp2f1", (0.0, 0.5, 0.5, 0.5), 0, 0.69314718055994531),
    ("hyp2f1", (0.0, 0.5, 1.0, 1.0), 3, 0),
]


@pytest.mark.parametrize("name, args, place, want", SLOPES)
def test_slopes_at_ends_and_poles(name, args, place, want):
    slope = curta.jit(curta.grad(getattr(special, name), place))
    with curta.enable_x64(True):
        np.testing.assert_allclose(slope(*map(jnp.float64, args)), want, 1e-13)


# ---- complex functions at infinities, zeros and NaN (C99, annex G)

PARTS = [0.0, -0.0, 1.0, -1.0, 2.5, INF, -INF, np.nan, 1e30, -710.0]
PLANE = np.array([complex(x, y) for x in PARTS for y in PARTS])
CURVES = (
    "acos acosh asin asinh atan atanh cos cosh exp log sin sinh sqrt tan tanh".split()
)


def modes(function, *args):
    with np.errstate(all="ignore"):
        yield np.asarray(function(*args))
    yield np.asarray(curta.jit(lambda *z: function(*z))(*args))
    yield np.asarray(curta.jit(curta.vmap(lambda *z: function(*z)))(*args))


def assert_same(got, want):
    """Equal parts; the signs of zeros and infinities next to NaN are not specified."""
    for z, w in zip(got, want, strict=True):
        if cmath.isnan(w) or cmath.isnan(z):
            z, w = (complex(abs(v.real), abs(v.imag)) for v in (z, w))
        size = abs(w) if cmath.isfinite(w) else 0
        np.testing.assert_allclose(
            [z.real, z.imag], [w.real, w.imag], 2e-12, 2e-12 * size, err_msg=f"{z} {w}"
        )


@pytest.mark.parametrize("name", CURVES)
def test_complex_functions_are_those_of_annex_g(name):
    """Python's are, where they do not raise; ours agree with each other elsewhere."""
    with curta.enable_x64(True):
        first, *others = modes(getattr(lax, name), PLANE)
    for other in others:
        assert_same(other, first)
    known = []
    for i, z in enumerate(PLANE):
        # Of tangents at 0 + NaN i, and acosh, newer editions know more.
        if name in ("tan", "tanh", "acosh") and cmath.isnan(z):
            continue
        try:
            known.append((i, getattr(cmath, name)(z)))
        except (ValueError, OverflowError):
            continue
    assert_same([first[i] for i, _ in known], [w for _, w in known])


@pytest.mark.parametrize("name", ["sign", "log1p", "expm1", "logistic", "square"])
def test_other_complex_functions_agree(name):
    with curta.enable_x64(True):
        first, *others = modes(getattr(lax, name), PLANE)
    for other in others:
        assert_same(other, first)


@pytest.mark.parametrize("name", ["pow", "div", "mul"])
def test_complex_functions_of_two_agree(name):
    z, w = (x.ravel() for x in np.meshgrid(PLANE[::3], PLANE))
    moderate = (np.abs(w) < 1e3) | ~np.isfinite(w)  # or the angle is lost
    moderate &= (np.abs(z) < 1e3) | ~np.isfinite(z)
    z, w = z[moderate], w[moderate]
    with curta.enable_x64(True):
        first, *others = modes(getattr(lax, name), z, w)
    for other in others:
        both = np.isinf(other) & np.isinf(first)  # in directions that rounding decides
        assert_same(np.where(both, first, other), first)


def test_directions_and_powers_of_infinities():
    z = np.array([complex(INF, 0), complex(0, -INF), complex(INF, INF), 0], "complex64")
    root = np.sqrt(0.5)
    for got in modes(lax.sign, z):
        np.testing.assert_allclose(got, [1, -1j, root + root * 1j, 0], rtol=1e-6)
    far = np.full(3, complex(INF, 0))
    for got in modes(lax.pow, far, np.array([2.0, -1.0, 0.5], complex)):
        np.testing.assert_array_equal(got, [INF, 0, INF])
