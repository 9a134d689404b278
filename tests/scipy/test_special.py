"""Special functions against SciPy: values, special points, derivatives, messages."""

import numpy as np
import pytest
import scipy.special

import curta
import curta.numpy as jnp
from curta.scipy import special
from curta.test_util import check_grads

RNG = np.random.default_rng(0)
LOG2 = np.log(2)
LINE = np.concatenate([np.linspace(-12, 12, 97), [0.0, np.inf, -np.inf, np.nan]])
POSITIVE = np.concatenate([np.geomspace(1e-4, 80, 97), [np.inf, np.nan]])
UNIT = np.linspace(0.01, 0.99, 97)
A, B = RNG.uniform(0.5, 20, 97), RNG.uniform(0.5, 20, 97)

# A function, its arguments, and how many units of rounding it may be off, relative
# to 1 or to the value, whichever is larger.
CASES = [
    ("gamma", (np.linspace(-4.9, 8, 98),), 400),
    ("gammaln", (LINE[LINE > -np.inf],), 40),
    ("gammasgn", (LINE,), 0),
    ("loggamma", (POSITIVE,), 20),
    ("digamma", (np.linspace(-4.9, 8, 98),), 40),
    ("erf", (LINE,), 2),
    ("erfc", (LINE,), 2),
    ("erfcx", (np.linspace(-3, 40, 97),), 100),
    ("erfinv", (UNIT,), 10),
    ("dawsn", (LINE,), 4),
    ("ndtr", (LINE,), 4),
    ("ndtri", (UNIT,), 10),
    ("log_ndtr", (np.linspace(-9, 12, 97),), 20),
    ("logit", (UNIT,), 20),
    ("expit", (LINE,), 4),
    ("entr", (LINE,), 10),
    ("expi", (LINE,), 40),
    ("exp1", (POSITIVE,), 10),
    ("sici", (LINE,), 10),
    ("fresnel", (np.linspace(-9, 9, 97),), 100),
    ("spence", (POSITIVE,), 20),
    ("i0", (np.linspace(-9, 9, 97),), 10),
    ("i1", (np.linspace(-9, 9, 97),), 10),
    ("i0e", (LINE[:-4],), 10),
    ("i1e", (LINE[:-4],), 10),
    ("beta", (A / 4, B / 4), 50),
    ("betaln", (A, B), 20),
    ("betainc", (A, B, RNG.uniform(0, 1, 97)), 200),
    ("gammainc", (A, B), 200),
    ("gammaincc", (A, B), 200),
    ("xlogy", (A, B), 4),
    ("xlog1py", (A, B), 4),
    ("rel_entr", (A, B), 100),
    ("kl_div", (A, B), 100),
    ("boxcox", (A, B / 10), 40),
    ("boxcox1p", (A, B / 10), 40),
    ("poch", (A / 4, B / 4), 200),
    ("zeta", (A + 1, B), 20),
    ("comb", (np.floor(A), np.floor(B)), 200),
    ("owens_t", (RNG.normal(size=97) * 2, RNG.normal(size=97) * 3), 4),
    ("hyp1f1", (A / 5, B / 4, RNG.uniform(-9, 9, 97)), 2e4),
    ("hyp2f1", (A / 5, B / 5, A / 5 + B / 5 + 0.3, RNG.uniform(-3, 0.99, 97)), 2e4),
]


def compare(got, want, dtype, units):
    got, want = np.stack(got), np.stack(want)
    scale = np.maximum(np.abs(want), 1)
    tolerance = max(units, 1) * np.finfo(dtype).eps
    finite = np.isfinite(want) & (np.abs(want) < np.finfo(dtype).max)
    np.testing.assert_array_less(
        np.abs(got - want)[finite] / scale[finite], tolerance * 1.0001
    )
    np.testing.assert_array_equal(got[~finite], want[~finite])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name, args, units", CASES, ids=[c[0] for c in CASES])
def test_values(name, args, units, dtype):
    args = [x.astype(dtype) for x in args]
    with curta.enable_x64(dtype == np.float64), np.errstate(all="ignore"):
        want = getattr(scipy.special, name)(*(x.astype(np.float64) for x in args))
        got = getattr(special, name)(*args)
        compiled = curta.jit(getattr(special, name))(*args)
    several = isinstance(got, tuple)
    for value in got, compiled:
        value = value if several else (value,)
        assert all(x.dtype == dtype for x in value)
        compare(value, want if several else (want,), dtype, units)


@pytest.mark.parametrize("n", [0, 1, 2, 7, 100, 6000])
def test_expn(n):
    x = np.geomspace(0.01, 60, 50)
    with curta.enable_x64(True):
        got = special.expn(n, x)
    np.testing.assert_allclose(got, scipy.special.expn(n, x), rtol=2e-14)


@pytest.mark.parametrize("name", ["wofz", "gamma", "loggamma", "erfcx"])
def test_complex(name):
    z = 3 * (RNG.normal(size=200) + 1j * RNG.normal(size=200))
    want = getattr(scipy.special, name)(z)
    with curta.enable_x64(True):
        np.testing.assert_allclose(getattr(special, name)(z), want, rtol=1e-11)
    z, finite = z.astype(np.complex64), np.abs(want) < 1e30
    got = np.asarray(getattr(special, name)(z))
    np.testing.assert_allclose(got[finite], want[finite], rtol=1e-3, atol=1e-6)


def test_integers_and_static_arguments():
    factorials = special.factorial(jnp.arange(6))
    np.testing.assert_allclose(factorials, [1, 1, 2, 6, 24, 120], rtol=1e-6)
    np.testing.assert_allclose(special.comb(5, 2, repetition=True), 15, rtol=1e-5)
    for n in 0, 1, 2, 9:
        want = scipy.special.bernoulli(n)
        np.testing.assert_allclose(special.bernoulli(n), want, atol=1e-6)
    want = scipy.special.multigammaln(5.5, 3)
    np.testing.assert_allclose(special.multigammaln(5.5, 3), want, rtol=1e-6)
    np.testing.assert_allclose(
        special.polygamma(2, A), scipy.special.polygamma(2, A), rtol=1e-5
    )


def test_bessel_jn():
    z = np.concatenate([[0.0], np.linspace(0.1, 30, 60)]).astype(np.float32)
    want = [scipy.special.jn(k, z) for k in range(5)]
    np.testing.assert_allclose(special.bessel_jn(z, v=4), want, atol=2e-6)


def test_spherical_harmonics():
    n = RNG.integers(0, 12, 200)
    m = np.array([RNG.integers(-k, k + 1) for k in n])
    theta, phi = RNG.uniform(-7, 7, 200), RNG.uniform(-7, 7, 200)
    with curta.enable_x64(True):
        got = special.sph_harm_y(n, m, theta, phi)
        traced = curta.jit(lambda *a: special.sph_harm_y(*a, n_max=12))
        again = traced(n, m, theta, phi)
    want = scipy.special.sph_harm_y(n, m, theta, phi)
    np.testing.assert_allclose(got, want, atol=1e-13)
    np.testing.assert_allclose(again, want, atol=1e-13)


SMOOTH = {
    "gamma": (2.2,),
    "gammaln": (2.2,),
    "betaln": (9.0, 11.0),
    "zeta": (2.5, 1.3),
    "poch": (2.0, 3.1),
    "logit": (0.3,),
    "entr": (0.4,),
    "rel_entr": (0.3, 0.4),
    "kl_div": (0.3, 0.4),
    "xlogy": (0.3, 0.4),
    "xlog1py": (0.3, 0.4),
    "boxcox": (2.0, 0.5),
    "boxcox1p": (2.0, 0.5),
    "erfcx": (1.3,),
    "dawsn": (0.7,),
    "ndtr": (0.7,),
    "ndtri": (0.3,),
    "log_ndtr": (-1.0,),
    "owens_t": (0.6, 2.0),
    "expi": (1.2,),
    "exp1": (0.7,),
    "sici": (2.5,),
    "fresnel": (1.4,),
    "spence": (0.4,),
}


def test_slopes_of_ndtri():
    """From its value; 0 at the ends, as JAX has them."""
    p = jnp.array([0, 0.1, 0.5, 1, 2], jnp.float32)
    slopes = curta.vmap(curta.grad(special.ndtri))(p)
    np.testing.assert_allclose(slopes, [0, 5.6980597, 2.5066283, 0, np.nan], rtol=1e-6)
    curved = curta.vmap(curta.grad(curta.grad(special.ndtri)))(p)
    np.testing.assert_allclose(curved, [0, -41.60929, 0, 0, np.nan], rtol=1e-6)


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name):
    with curta.enable_x64(True):
        check_grads(curta.jit(getattr(special, name)), SMOOTH[name], 1)


def test_second_derivatives():
    with curta.enable_x64(True):
        check_grads(curta.jit(special.exp1), (0.7,), 2)
        check_grads(curta.jit(special.log_ndtr), (-1.0,), 2)


def test_derivatives_of_hypergeometric_functions():
    with curta.enable_x64(True):
        check_grads(special.hyp1f1, (1.2, 2.3, 0.4), 1)
        check_grads(special.hyp2f1, (1.2, 0.7, 2.3, 0.4), 1)


@pytest.mark.parametrize(
    "dtype, tolerance", [("complex64", 1e-5), ("complex128", 1e-12)]
)
def test_gamma_in_the_complex_plane(dtype, tolerance):
    x = np.array([-1e10, -30.7, -5.25, -0.5, 0.25, 0.5, 1.0, 2.5, 28.0])
    y = np.array([-20.0, -3.0, -1e-6, -0.0, 0.0, 1e-6, 0.7, 30.0])
    z = np.empty((x.size, y.size), dtype)
    z.real, z.imag = x[:, None], y
    with curta.enable_x64(dtype == "complex128"):
        for f in special.loggamma, curta.jit(special.loggamma):
            wanted = scipy.special.loggamma(z.astype("complex128"))
            # A step of the real part turns the imaginary one by pi.
            scale = np.abs(wanted) + np.pi * np.abs(z.real)
            assert (np.abs(f(z) - wanted) <= tolerance * scale)[1:].all()
            assert np.isfinite(f(z[1:])).all()
        near = np.abs(z) < 10
        wanted = scipy.special.gamma(z[near].astype("complex128"))
        np.testing.assert_allclose(special.gamma(z[near]), wanted, 20 * tolerance)
        slope = curta.vmap(curta.grad(special.loggamma, holomorphic=True))(z[near])
        wanted = scipy.special.digamma(z[near].astype("complex128"))
        np.testing.assert_allclose(slope, wanted, 50 * tolerance, 50 * tolerance)
        # No loop over the whole numbers passed on the way to the right half plane.
        assert curta.jit(special.loggamma)(np.asarray(-np.inf - 7j, dtype)).shape == ()


def test_xlogx_at_zero():
    assert curta.grad(special.xlogy)(0.0, 2.0) == np.log(np.float32(2))
    assert special.rel_entr(0.0, 1.0) == 0
    assert special.entr(-1.0) == -np.inf


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: special.zeta(2.0), NotImplementedError, "Riemann zeta function not"),
        (lambda: special.factorial(3, exact=True), NotImplementedError, "exact=True"),
        (lambda: special.entr(1j), ValueError, "does not support complex-valued"),
        (lambda: special.ndtri(np.float16(0.5)), TypeError, "float16 is not supported"),
        (lambda: special.bernoulli(-1), ValueError, "n must be a non-negative integer"),
        (lambda: special.log_ndtr(1.0, 31), ValueError, "series_order must be <= 30"),
        (lambda: special.polygamma(1.0, 1.0), ValueError, "must be of integer type"),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    ("fun", "at", "first", "second"),
    [
        (special.i0, 0.0, 0.0, 0.5),
        (special.i1, 0.0, 0.5, 0.0),
        (special.spence, 1.0, -1.0, 0.5),
        (lambda x: special.boxcox(2.0, x), 0.0, LOG2**2 / 2, LOG2**3 / 3),
        (lambda x: special.boxcox1p(1.0, x), 0.0, LOG2**2 / 2, LOG2**3 / 3),
        (lambda a: special.betaln(a, 1.0), 1.0, -1.0, 1.0),  # -log(a)
        (lambda a: special.betaln(a, 2.0), 8.0, -1 / 8 - 1 / 9, 1 / 64 + 1 / 81),
    ],
)
def test_derivatives_where_cases_of_a_formula_meet(fun, at, first, second):
    """Of series: JAX has others there."""
    derivative = curta.grad(fun)
    np.testing.assert_allclose(derivative(at), first, rtol=1e-5)
    np.testing.assert_allclose(curta.grad(derivative)(at), second, rtol=1e-5)


def test_which_results_of_python_numbers_are_weakly_typed():
    for fun in special.ndtr, special.log_ndtr, special.ndtri, special.spence:
        assert not fun(0.3).weak_type
    assert special.betaln(0.3, 2.0).weak_type and special.betaln(30.0, 20.0).weak_type
    half = special.betaln(jnp.ones(2, "bfloat16"), 9.0)
    assert half.dtype == "bfloat16" and not half.weak_type


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["sici", "fresnel"])
def test_integrals_of_half_floats(name, dtype):
    x = jnp.array([-6.0, -0.5, 0.25, 2.0, 5.0], dtype)
    found = getattr(special, name)(x)
    expected = getattr(special, name)(x.astype("float32"))
    for part, exact in zip(found, expected, strict=True):
        assert part.dtype == dtype
        np.testing.assert_array_equal(part, exact.astype(dtype))


@pytest.mark.parametrize("x", [0.0, 1e-9, 1e-4, 0.2, 0.3, 600.0])
def test_higher_derivatives_of_bessel_functions(x):
    third = curta.grad(curta.grad(curta.grad(special.i1)))
    with curta.enable_x64(True):
        # I1' is (I0 + I2) / 2, and so on.
        i0, i2, i4 = (scipy.special.iv(n, x) for n in (0, 2, 4))
        expected = (3 * i0 + 4 * i2 + i4) / 8
        np.testing.assert_allclose(third(x), expected, rtol=2e-12)


def test_harmonics_of_orders_beyond_the_degree_are_zero():
    degrees, one, angle = jnp.arange(3), jnp.array([1]), jnp.array([0.5])
    found = special.sph_harm_y(degrees, one, angle, angle, n_max=2)
    assert found[0] == 0 and (found[1:] != 0).all()


def test_bernoulli_numbers_to_the_last_digits():
    with curta.enable_x64(True):
        found = special.bernoulli(14)[4::2]
    exact = [-1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6]
    np.testing.assert_allclose(found, exact, rtol=1e-14)


def test_owens_t_of_half_floats_is_single():
    half = jnp.float16(0.5)
    assert special.owens_t(half, half) == special.owens_t(0.5, 0.5)
    assert curta.grad(lambda h: special.owens_t(h, 1.0))(half).dtype == "float16"


def test_lists_of_arguments():
    np.testing.assert_allclose(special.hyp1f1([1.0, 2.0], 2.0, 0.5)[1], np.exp(0.5))
    np.testing.assert_allclose(special.bessel_jn([1.0], v=1)[1], 0.44005057, rtol=1e-6)
    assert special.bessel_jn(1.0, v=-1).shape == (0,)
