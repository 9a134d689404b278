"""Vector math function by function, on NumPy values: no code is made.

`test_vector_math.py` has bounds for the compiled functions; here a wrong coefficient,
branch or special value shows with the function's own module.
"""

import numpy as np
import pytest
import scipy.special
from tests.compiler.llvm.numpy_math import Array, NumPyMath

from curta.compiler.llvm.vector_math import (
    apart,
    avx512,
    bessel,
    coefficients,
    common,
    error_function,
    exponential,
    gamma,
    hyperbolic,
    incomplete,
    interface,
    inverse_trigonometric,
    logarithm,
    power,
    rounding,
    table,
    trigonometric,
    zeta,
)

NEAR = np.linspace(-0.99, 0.99, 67)
WIDE = np.linspace(-20, 20, 81)
POSITIVE = np.concatenate([np.linspace(0.05, 5, 50), np.geomspace(1e-30, 1e30, 31)])
SHAPE = np.linspace(0.3, 9, 40)

CASES = [
    (exponential.exp, np.exp, WIDE),
    (exponential.exp2, np.exp2, WIDE),
    (exponential.expm1, np.expm1, WIDE),
    (exponential.logistic, scipy.special.expit, WIDE),
    (logarithm.log, np.log, POSITIVE),
    (logarithm.log2, np.log2, POSITIVE),
    (logarithm.log1p, np.log1p, np.concatenate([NEAR, POSITIVE])),
    (trigonometric.sin, np.sin, WIDE),
    (trigonometric.cos, np.cos, WIDE),
    (trigonometric.tan, np.tan, WIDE),
    (inverse_trigonometric.asin, np.arcsin, NEAR),
    (inverse_trigonometric.acos, np.arccos, NEAR),
    (inverse_trigonometric.atan, np.arctan, WIDE),
    (hyperbolic.sinh, np.sinh, WIDE),
    (hyperbolic.cosh, np.cosh, WIDE),
    (hyperbolic.tanh, np.tanh, WIDE),
    (hyperbolic.asinh, np.arcsinh, WIDE),
    (hyperbolic.acosh, np.arccosh, 1 + POSITIVE[:50]),
    (hyperbolic.atanh, np.arctanh, NEAR),
    (error_function.erf, scipy.special.erf, WIDE / 5),
    (error_function.erfc, scipy.special.erfc, WIDE / 5),
    (error_function.erf_inv, scipy.special.erfinv, NEAR),
    (power.sqrt, np.sqrt, POSITIVE),
    (power.rsqrt, lambda x: 1 / np.sqrt(x), POSITIVE),
    (power.cbrt, np.cbrt, WIDE),
    (rounding.floor, np.floor, WIDE),
    (rounding.ceil, np.ceil, WIDE),
    (rounding.round_to_even, np.rint, WIDE),
    (gamma.digamma, scipy.special.digamma, SHAPE),
    (bessel.bessel_i0e, scipy.special.i0e, WIDE),
    (bessel.bessel_i1e, scipy.special.i1e, WIDE),
]


def name_of(value):
    return getattr(value, "__name__", "")


@pytest.mark.parametrize(("function", "exact", "x"), CASES, ids=name_of)
def test_functions_of_one_number(function, exact, x):
    x = x.astype(np.float32)
    found = NumPyMath().call(function, x)
    wanted = exact(x.astype(np.float64))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-6)


PAIRS = [
    (inverse_trigonometric.atan2, np.arctan2, WIDE, WIDE[::-1] + 0.5),
    (power.power, np.power, SHAPE, WIDE[:40] / 5),
    (rounding.remainder, np.fmod, WIDE, 1 + abs(WIDE[::-1])),
]


@pytest.mark.parametrize(("function", "exact", "x", "y"), PAIRS, ids=name_of)
def test_functions_of_two_numbers(function, exact, x, y):
    x, y = x.astype(np.float32), y.astype(np.float32)
    found = NumPyMath().call(function, x, y)
    wanted = exact(x.astype(np.float64), y.astype(np.float64))
    np.testing.assert_allclose(found, wanted, rtol=5e-6, atol=1e-6)


SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan], np.float32)


@pytest.mark.parametrize(
    ("function", "exact"),
    [
        (exponential.exp, np.exp),
        (logarithm.log, np.log),
        (inverse_trigonometric.atan, np.arctan),
        (hyperbolic.tanh, np.tanh),
        (error_function.erf, scipy.special.erf),
        (power.sqrt, np.sqrt),
    ],
    ids=name_of,
)
def test_special_values(function, exact):
    found = NumPyMath().call(function, SPECIAL)
    with np.errstate(all="ignore"):
        wanted = exact(SPECIAL)
    np.testing.assert_array_equal(found, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(
        np.signbit(found)[numbers], np.signbit(wanted)[numbers]
    )


# ------------------------------------------------------------------ what they share


def test_the_nearest_multiple_is_rounded_to_even():
    x = np.array([-2.5, -0.3, 0.5, 1.5, 7.8], np.float32)
    n, low = common.nearest_multiple(NumPyMath(), Array(NumPyMath(), x), 1.0)
    np.testing.assert_array_equal(n.array, np.rint(x))
    np.testing.assert_array_equal(low.array, np.rint(x).astype(np.int32))


def test_powers_of_two_are_exponents():
    n = Array(NumPyMath(), np.array([-126, 0, 3, 127], np.int32))
    found = common.power_of_two(NumPyMath(), n, "f32")
    np.testing.assert_array_equal(found.array, 2.0 ** n.array.astype(float))


def test_a_clamp_keeps_nan():
    x = Array(NumPyMath(), np.array([-3, 0.5, 9, np.nan], np.float32))
    found = common.clamp(NumPyMath(), x, -1.0, 1.0).array
    np.testing.assert_array_equal(found, np.float32([-1, 0.5, 1, np.nan]))


def test_the_error_of_a_square_is_exact():
    x = np.float32([1.1, 3.3, 1e10])
    b = NumPyMath()
    error = common.square_error(b, Array(b, x), Array(b, x * x)).array
    exact = x.astype(float) ** 2 - (x * x).astype(float)
    np.testing.assert_array_equal(error, exact.astype(np.float32))


def test_the_sign_bit_of_zero_counts():
    b = NumPyMath()
    x = Array(b, np.float32([0.0, -0.0, -2, 3]))
    assert common.is_negative(b, x).array.tolist() == [False, True, True, False]


def test_a_builder_with_a_function_of_its_own_uses_it():
    """`exact` asks the target first: StableHLO has an `exponential`."""

    class Own(NumPyMath):
        own = {"exp": lambda x: "the target's"}

    assert exponential.exp(Own(), None) == "the target's"


def test_instructions_of_avx512_are_used_where_they_are():
    assert not avx512.available(NumPyMath())


def test_every_function_has_a_row():
    """`table.FUNCTIONS` names the functions of these modules."""
    rows = set(table.FUNCTIONS)
    assert {"exp", "igamma", "zeta", "lgamma", "bessel_i0e", "pow"} <= rows
    assert set(table.BRANCHING) <= rows
    modules = (incomplete, zeta, gamma, bessel)
    assert all(
        any(hasattr(m, name) for m in modules)
        for name in ("igamma", "zeta", "lgamma", "bessel_i1e")
    )


def test_functions_apart_keep_their_name():
    assert apart.apart(exponential.exp).__name__ == "exp"


def test_coefficients_are_of_both_widths():
    """A polynomial has a row of finite numbers for each width."""
    tables = [t for t in vars(coefficients).values() if isinstance(t, dict)]
    both = [t for t in tables if {"f32", "f64"} <= set(t)]
    assert len(both) > 10
    assert all(np.isfinite(t[kind]).all() for t in both for kind in ("f32", "f64"))


def test_the_interface_is_complete():
    """Every method of the interface is one of this builder."""
    names = {n for n in vars(interface.MathBuilder) if n[0] != "_"}
    assert all(hasattr(NumPyMath, n) for n in names - {"own"})
