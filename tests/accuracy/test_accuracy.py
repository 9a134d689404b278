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


def test_the_page_has_a_row_for_each_function():
    expected = {(f.name, m, d) for f, d in CASES for m in MODES}
    assert set(PROMISED) == expected


def _kinds(x):
    """What a result is at a special value: a number, a zero and its sign, infinite."""
    kinds = np.where(np.isnan(x), 3, np.where(np.isinf(x), 2 * np.sign(x), 1))
    return np.where(x == 0, np.where(np.signbit(x), -0.5, 0.5), kinds)


SPECIAL = "exp expm1 log log1p logistic sin cos tan sinh cosh tanh sqrt".split()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_values_of_complex_functions(name, dtype):
    """Compiled code and NumPy (C99, that is) agree; a zero beside a NaN has any sign."""
    function = next(f for f in FUNCTIONS if f.name == name)
    z = table.specials(dtype)
    # Where the imaginary part is tiny, NumPy's own square root loses it.
    z = z[(np.absolute(z.imag) > 1e-300) | (z.imag == 0)]
    z = z[(np.absolute(z.imag) > 1e-40) | (z.imag == 0) | (dtype != "complex64")]
    with curta.enable_x64(True):
        found, expected = (evaluate(function, mode, (z,)) for mode in MODES)
    beside = np.isnan(expected.real) | np.isnan(expected.imag)
    for part in (np.real, np.imag):
        got, want = _kinds(part(found)), _kinds(part(expected))
        got[beside], want[beside] = np.ceil(np.absolute(got)), np.ceil(np.absolute(want))
        got[beside & (part(found) == 0)] = want[beside & (part(expected) == 0)] = 0
        wrong = got != want
        assert not wrong.any(), (z[wrong][:5], found[wrong][:5], expected[wrong][:5])
