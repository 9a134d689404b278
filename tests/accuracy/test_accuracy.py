"""Elementwise functions against mpmath, within the errors that the page documents."""

import numpy as np
import pytest
from tests.accuracy import functions as table
from tests.accuracy.functions import FUNCTIONS
from tests.accuracy.measure import DTYPES, MODES, documented, evaluate, measure

import curta

PROMISED = documented()
CASES = [(f, d) for f in FUNCTIONS for d in DTYPES.values() if table.with_dtype(f, d)]
ids = [f"{f.name}-{d}" for f, d in CASES]


@pytest.mark.parametrize("function, dtype", CASES, ids=ids)
def test_errors_are_within_what_is_documented(function, dtype):
    for mode, worst in measure(function, dtype, 16, seed=0).items():
        bound = PROMISED[function.name, mode, dtype]
        assert worst.error <= bound, f"{mode}: {worst}, documented are {bound}"


# Primitives of one step; of several, each step rounds.
STEPS = ("rsqrt", "integer_pow(-2), moderate", "integer_pow(3), moderate")
ONE_STEP = [f for f in FUNCTIONS if f.path.startswith("lax.") and f.name not in STEPS]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_computes_in_float32(dtype):
    for function in ONE_STEP:
        for mode, worst in measure(function, dtype, 4, seed=0).items():
            assert worst.error <= 0.52, f"{function.name}, {mode}: {worst}"


def test_the_page_has_a_row_for_each_function():
    expected = {(f.name, m, d) for f, d in CASES for m in MODES}
    assert set(PROMISED) == expected


def _kinds(x, unsigned):
    """What a result is at a special value: a number, a zero and its sign, infinite."""
    sign = np.where(unsigned, 1, np.where(np.signbit(x), -1, 1))
    kind = np.where(np.isnan(x), 3, np.where(np.isinf(x), 2 * sign, 1))
    return np.where(x == 0, sign * 0.5, kind)


SPECIAL = "exp expm1 log log1p logistic sin cos tan sinh cosh tanh sqrt rsqrt".split()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values_of_complex_functions(name, dtype):
    """Compiled code and NumPy (that is, C99) agree; signs next to a NaN are free."""
    function = next(f for f in FUNCTIONS if f.name == name)
    z = table.specials(dtype)
    # Where the imaginary part is tiny, NumPy's own square root loses it.
    least = 100 * float(np.finfo(dtype).smallest_subnormal)
    z = z[~(np.absolute(z.imag) < least) | (z.imag == 0)]
    with curta.enable_x64(True):
        found, expected = (evaluate(function, mode, (z,)) for mode in MODES)
    beside = np.isnan(expected.real) | np.isnan(expected.imag)
    for part in (np.real, np.imag):
        wrong = _kinds(part(found), beside) != _kinds(part(expected), beside)
        assert not wrong.any(), (z[wrong][:5], found[wrong][:5], expected[wrong][:5])


@pytest.mark.parametrize("name", ["asin", "acos", "asinh", "acosh"])
def test_slopes_where_squares_overflow(name):
    z = np.array([1e30 + 1e30j, -1e30 + 1e30j, 1e30 - 1e30j], np.complex64)
    function = getattr(curta.lax, name)
    for call in function, curta.jit(function):
        _, slope = curta.jvp(call, (z,), (np.ones_like(z),))
        assert np.isfinite(slope).all()
