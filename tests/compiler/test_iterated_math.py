"""Special functions with loops, compiled, against SciPy and their `eval` rules."""

import numpy as np
import pytest
import scipy.special
from tests.compiler.programs import native, native_program

import curta
from curta import lax
from curta.primitives import elementwise as ops

RNG = np.random.default_rng(0)
SHAPE = np.exp(RNG.uniform(-3, 5, 203))
BOUND = SHAPE * np.exp(RNG.uniform(-1, 1, 203))
ORDER = RNG.integers(0, 6, 203).astype(float)
ANY = RNG.normal(size=203) * 10
CASES = {
    "igamma": (ops.igamma, scipy.special.gammainc, SHAPE, BOUND),
    "igammac": (ops.igammac, scipy.special.gammaincc, SHAPE, BOUND),
    "betainc": (
        ops.betainc, scipy.special.betainc, SHAPE, SHAPE[::-1], RNG.uniform(size=203)
    ),
    "zeta": (ops.zeta, scipy.special.zeta, 1.1 + SHAPE, BOUND),
    "polygamma": (
        ops.polygamma, lambda m, x: scipy.special.polygamma(m.astype(int), x),
        ORDER, BOUND,
    ),
    "bessel_i0e": (ops.bessel_i0e, scipy.special.i0e, ANY),
    "bessel_i1e": (ops.bessel_i1e, scipy.special.i1e, ANY),
    "igamma_grad_a": (ops.igamma_grad_a, ops.igamma_grad_a.eval, SHAPE, BOUND),
    "random_gamma_grad": (
        ops.random_gamma_grad, ops.random_gamma_grad.eval, SHAPE, BOUND
    ),
}  # fmt: skip
# Not -2.5, where terms of zeta cancel each other and only their errors are left.
SPECIAL = np.array(
    [0, -0.0, 1, -1, 2, 0.5, -0.5, np.inf, -np.inf, np.nan, 1e-300, 1e300, -2.25, 20]
)


@pytest.fixture(autouse=True)
def _wide():
    with curta.enable_x64(True):
        yield


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_close_to_the_exact_values(name, dtype):
    op, exact, *given = CASES[name]
    args = [x.astype(dtype) for x in given]
    found, expected = native(op, *args), exact(*[x.astype("float64") for x in args])
    assert found.dtype == dtype
    bound = 1.5e-7 if dtype == "float32" else 1e-12
    tiny = np.finfo(dtype).tiny
    np.testing.assert_allclose(found, expected, rtol=bound, atol=tiny)


@pytest.mark.parametrize("name", CASES)
def test_special_values_are_those_of_eval(name):
    op, _, *given = CASES[name]
    args = [x.ravel() for x in np.meshgrid(*[SPECIAL] * len(given))]
    with np.errstate(all="ignore"):
        expected = op.eval(*args)
    np.testing.assert_allclose(native(op, *args), expected, rtol=1e-9, atol=1e-290)


@pytest.mark.parametrize("name", CASES)
def test_a_lane_depends_on_no_other(name):
    op, _, *given = CASES[name]
    compiled = native_program(op, *given)
    whole = compiled(*given)
    for count in (1, 3, 17):
        np.testing.assert_array_equal(
            native(op, *[x[:count] for x in given]), whole[:count]
        )
    np.testing.assert_array_equal(compiled(*[x[::-1] for x in given]), whole[::-1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_and_empty_arrays(dtype):
    a, x = (curta.numpy.asarray(v[:5], dtype) for v in (SHAPE, BOUND))
    found = native(ops.igamma, a, x)
    assert found.dtype == a.dtype
    expected = ops.igamma.eval(np.asarray(a), np.asarray(x)).astype("float32")
    np.testing.assert_allclose(found.astype("float32"), expected, rtol=1e-2)
    assert native(ops.zeta, a[:0], x[:0]).shape == (0,)


@pytest.mark.parametrize("length", [1, 3, 6, 10, 17, 33])
def test_rows_that_are_not_whole_vectors(length, limits):
    """Functions that are called for a few lanes, by code in registers."""
    limits(apart_registers=1)
    rows = np.linspace(0.2, 9, 2 * length, dtype=np.float32).reshape(2, length)
    found = lax.scan(lambda c, x: (c, lax.lgamma(lax.digamma(x) + 3)), 0.0, rows)[1]
    inner = scipy.special.digamma(rows.astype(float))
    expected = scipy.special.gammaln(inner + 3)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


def test_inside_of_loops_and_derivatives():
    def total(a, x):
        def step(total, _):
            return total + lax.igamma(a, x + total).sum(), None

        return lax.scan(step, 0.0, None, length=3)[0]

    a, x = SHAPE[:5] + 1, BOUND[:5]
    slope = native(curta.grad(total), a, x)
    step = np.array([0, 1e-6, 0, 0, 0])
    difference = (total(a + step, x) - total(a - step, x)) / 2e-6
    np.testing.assert_allclose(slope[1], difference, rtol=1e-5)


def test_zeta_of_large_powers_and_far_from_zero():
    """Against mpmath; the powers of terms lost two digits in their logarithms."""
    s, q = np.array([78.60519698060405, 2.0]), np.array([1022.4423475992788, -500.5])
    exact = [3.6548978692549225e-236, 9.867608393768008]
    np.testing.assert_allclose(native(ops.zeta, s, q), exact, rtol=2e-15)
    m, x = np.array([53.0]), np.array([390.9324523197896])
    np.testing.assert_allclose(
        native(ops.polygamma, m, x), [3.58406239372705e-70], rtol=2e-15
    )
