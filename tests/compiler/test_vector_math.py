"""Vector math against mpmath: a few ULP everywhere, exact at the special values.

The bounds are those of docs/design/vector_math.md.
"""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import scipy.special
from tests.accuracy.measure import documented
from tests.compiler.native import elementwise

from curta.compiler.host_target import host
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.vector_math import FUNCTIONS
from curta.compiler.loops import functions
from curta.compiler.loops.functions import LONG

KINDS = {"f32": np.float32, "f64": np.float64}
SAMPLES = 100
PROMISED = documented()


def _erf_inv(x):
    """In f32 the square is rounded, as the function says."""
    if isinstance(x, np.float64):
        return mpmath.erfinv(mpmath.mpf(float(x)))
    square = mpmath.mpf(float(x * x))
    return mpmath.sign(float(x)) * mpmath.erfinv(mpmath.sqrt(square))


def _real_cbrt(x):
    return mpmath.sign(x) * mpmath.cbrt(abs(x))


# name: (mpmath's function, arguments)
RANGES = {
    "exp": (mpmath.exp, (-80, 80), (-1e-6, 1e-6)),
    "exp2": (lambda x: mpmath.power(2, x), (-100, 100)),
    "expm1": (mpmath.expm1, (-15, 60), (-1, 1), (-1e-7, 1e-7)),
    "logistic": (lambda x: 1 / (1 + mpmath.exp(-x)), (-60, 60)),
    "log": (mpmath.log, (0.5, 2), (1e-30, 1e30)),
    "log1p": (mpmath.log1p, (-0.99, 1), (-1e-6, 1e-6), (1, 1e30)),
    "sin": (mpmath.sin, (-8, 8), (-1e5, 1e5), (1e8, 1e9)),
    "cos": (mpmath.cos, (-8, 8), (-1e5, 1e5), (1e8, 1e9)),
    "tan": (mpmath.tan, (-8, 8), (-1e5, 1e5), (1e8, 1e9)),
    "asin": (mpmath.asin, (-1, 1), (-1e-6, 1e-6)),
    "acos": (mpmath.acos, (-1, 1), (0.99, 1)),
    "atan": (mpmath.atan, (-4, 4), (5, 1e9)),
    "sinh": (mpmath.sinh, (-2, 2), (-80, 80)),
    "cosh": (mpmath.cosh, (-2, 2), (-80, 80)),
    "tanh": (mpmath.tanh, (-1, 1), (-9, 9)),
    "asinh": (mpmath.asinh, (-3, 3), (1, 1e20)),
    "acosh": (mpmath.acosh, (1, 3), (1, 1e20)),
    "atanh": (mpmath.atanh, (-1, 1), (-1e-6, 1e-6)),
    "erf": (mpmath.erf, (-4, 4), (-1e-3, 1e-3)),
    "erfc": (mpmath.erfc, (-4, 4), (4, 9)),
    "erf_inv": (_erf_inv, (-1, 1), (0.999, 1)),
    "lgamma": (lambda x: mpmath.loggamma(x), (0.05, 3), (3, 1000)),
    "digamma": (mpmath.digamma, (2, 10), (10, 1000)),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), (0.1, 10)),
    "sqrt": (mpmath.sqrt, (0, 10)),
    "cbrt": (_real_cbrt, (-10, 10), (1e-30, 1e30)),
}


def spread(low, high, kind):
    """Arguments over a range: evenly, or by powers of ten if it spans many."""
    rng = np.random.default_rng(int(1000 * abs(low) + high) % 2**32)
    if low > 0 and high / low > 1e4:
        return np.exp(rng.uniform(np.log(low), np.log(high), SAMPLES)).astype(
            KINDS[kind]
        )
    return rng.uniform(low, high, SAMPLES).astype(KINDS[kind])


def ulp(got, exact):
    """The error in units of the last place of the exact value."""
    unit = float(np.spacing(abs(np.float64(exact)).astype(got.dtype)))
    return float(abs(mpmath.mpf(float(got)) - exact)) / unit


def test_every_function_that_lowering_knows_has_code():
    assert functions.FUNCTIONS == FUNCTIONS.keys()
    assert functions.FUNCTIONS >= LONG


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", RANGES)
def test_a_few_ulp(name, kind):
    exact, *ranges = RANGES[name]
    x = np.concatenate([spread(*r, kind) for r in ranges])
    got = elementwise(FUNCTIONS[name], [kind], kind, 16)(x)
    argument = (lambda v: v) if name == "erf_inv" else (lambda v: mpmath.mpf(float(v)))
    with mpmath.workprec(140):
        errors = [ulp(g, exact(argument(v))) for g, v in zip(got, x, strict=True)]
    worst = int(np.argmax(errors))
    bound = PROMISED[name, "compiled", KINDS[kind].__name__]
    assert errors[worst] <= bound, f"{errors[worst]:.2f} ULP at {x[worst]!r}"


TWO = {
    "atan2": (mpmath.atan2, (-10, 10), (-10, 10)),
    "pow": (mpmath.power, (0.01, 8), (-20, 20)),
    "rem": (lambda x, y: mpmath.sign(x) * mpmath.fmod(abs(x), abs(y)),
            (-100, 100), (0.01, 3)),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", TWO)
def test_a_few_ulp_of_two_arguments(name, kind):
    exact, first, second = TWO[name]
    bound = PROMISED.get((name, "compiled", KINDS[kind].__name__), 0)
    x, y = spread(*first, kind), spread(*second, kind)
    got = elementwise(FUNCTIONS[name], [kind, kind], kind, 16)(x, y)
    with mpmath.workprec(140):
        for g, a, c in zip(got, x, y, strict=True):
            assert ulp(g, exact(mpmath.mpf(float(a)), mpmath.mpf(float(c)))) <= bound


def special_values(kind):
    info = np.finfo(KINDS[kind])
    positive = [
        0, 1, 2, 3, 0.5, 1.5, 2.5, 0.1, 5, 89, 104, 710, 746, 1e10, 171, 12345.678,
        math.inf, info.max, info.smallest_normal, info.smallest_subnormal,
        info.smallest_normal / 8, 1 + info.eps, 1 - info.eps / 2,
        2.0**23 + 1, 2.0**22 + 0.5, 2.0**51 + 0.5,
    ]  # fmt: skip
    with np.errstate(over="ignore"):
        values = np.array(positive, KINDS[kind])
    return np.concatenate([values, -values, [np.nan]]).astype(KINDS[kind])


def _logistic(x):
    return np.where(x > 0, 1, np.exp(x)) / (1 + np.exp(-abs(x)))


REFERENCE = {
    "logistic": _logistic, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erf": scipy.special.erf, "erfc": scipy.special.erfc,
    "erf_inv": scipy.special.erfinv, "rsqrt": lambda x: 1 / np.sqrt(x),
    "bessel_i0e": scipy.special.i0e, "bessel_i1e": scipy.special.i1e,
    "round_to_even": np.rint, "atan2": np.arctan2, "pow": np.power, "rem": np.fmod,
}  # fmt: skip
WITHOUT_REFERENCE = {"lgamma", "digamma", "round"}  # tested by themselves below
ARGUMENTS = dict.fromkeys(["atan2", "pow", "rem", "nextafter", *LONG], 2) | {
    name: 3 for name in LONG if "beta" in name
}


@pytest.mark.parametrize("lanes", [1, 16])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted(set(FUNCTIONS) - WITHOUT_REFERENCE - LONG))
def test_special_values(name, kind, lanes):
    """Zeros, infinities, NaN, subnormals, halves, the ends of the range."""
    x = special_values(kind)
    arrays = [a.ravel() for a in np.meshgrid(*[x] * ARGUMENTS.get(name, 1))]
    got = elementwise(FUNCTIONS[name], [kind] * len(arrays), kind, lanes)(*arrays)
    reference = REFERENCE.get(name) or getattr(np, name)
    exact_in_64 = name in ("logistic", "erfc", "erf_inv")
    with np.errstate(all="ignore"):
        given = [a.astype("f8") for a in arrays] if exact_in_64 else arrays
        want = reference(*given).astype(KINDS[kind])
    info = np.finfo(KINDS[kind])
    np.testing.assert_allclose(
        got, want, rtol=30 * info.eps, atol=4 * float(info.smallest_subnormal)
    )
    zeros = (want == 0) & (got == 0) & (name not in ("erf_inv", "bessel_i1e"))
    np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


@pytest.mark.parametrize("kind", KINDS)
def test_gamma_at_special_values(kind):
    inf, nan, tiny = math.inf, math.nan, float(np.finfo(KINDS[kind]).smallest_normal)
    x = np.array([0.0, -0.0, 1, 2, -1, -5, inf, -inf, nan, tiny, -tiny], KINDS[kind])
    log = -math.log(tiny)
    want = [inf, inf, 0, 0, inf, inf, inf, inf, nan, log, log]
    got = elementwise(FUNCTIONS["lgamma"], [kind], kind, 16)(x)
    np.testing.assert_allclose(got, np.array(want, KINDS[kind]), rtol=1e-6)
    got = elementwise(FUNCTIONS["digamma"], [kind], kind, 16)(x[:9])
    gamma = -0.5772156649015329
    want = [-inf, inf, gamma, 1 + gamma, nan, nan, inf, nan, nan]
    np.testing.assert_allclose(got, np.array(want, KINDS[kind]), rtol=1e-6)


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_gamma_of_negative_arguments(name):
    x = np.random.default_rng(0).uniform(-6, 0, 200)
    got = elementwise(FUNCTIONS[name], ["f64"], "f64", 8)(x)
    exact = (
        mpmath.digamma
        if name == "digamma"
        else lambda v: mpmath.log(abs(mpmath.gamma(v)))
    )
    want = [float(exact(v)) for v in x.tolist()]
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_round_goes_away_from_zero():
    x = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, 8388609.0, -0.2, np.inf], "f4")
    want = np.array([1, 2, 3, -1, -3, 0, 8388609, -0.0, np.inf], "f4")
    got = elementwise(FUNCTIONS["round"], ["f32"], "f32", 16)(x)
    np.testing.assert_array_equal(got, want)
    assert np.signbit(got[7])


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_lane_does_not_depend_on_its_neighbours(name):
    """Scalars, full vectors, masked tails and wide vectors agree to the bit."""
    rng = np.random.default_rng(1)
    x = np.abs(rng.normal(0, 3, 37)).astype("f4")
    x[::9] = [1e9, np.inf, np.nan, 0.0, 3e-40]  # a large neighbour takes the slow path
    arrays = (x, rng.permutation(x), rng.permutation(x))[: ARGUMENTS.get(name, 1)]
    kinds = ["f32"] * len(arrays)
    one = elementwise(FUNCTIONS[name], kinds, "f32", 1)(*arrays)
    for lanes in (4, 16, 64):
        other = elementwise(FUNCTIONS[name], kinds, "f32", lanes)(*arrays)
        numbers = ~np.isnan(one)
        np.testing.assert_array_equal(np.isnan(other), ~numbers)
        np.testing.assert_array_equal(
            other[numbers].view("i4"), one[numbers].view("i4")
        )


@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "erf", "pow", "zeta"])
@pytest.mark.parametrize("kind", KINDS)
def test_machines_without_wide_vectors_or_fma(name, kind):
    x = np.abs(spread(-4, 4, kind))
    arrays = (x, x[::-1])[: ARGUMENTS.get(name, 1)]
    kinds = [kind] * len(arrays)
    want = elementwise(FUNCTIONS[name], kinds, kind, 4)(*arrays)
    old = Module(has_fma=False, vector_bytes=16)
    got = elementwise(FUNCTIONS[name], kinds, kind, 4, old)(*arrays)
    np.testing.assert_allclose(got, want, rtol=8 * np.finfo(KINDS[kind]).eps)


@pytest.mark.skipif(host().vector_bytes < 64, reason="has no AVX-512")
@pytest.mark.parametrize("name", ["exp", "exp2", "log", "log1p", "sinh", "pow"])
@pytest.mark.parametrize("kind", KINDS)
def test_instructions_of_avx512_give_the_same_bits(name, kind):
    """Exponents, mantissas, scaling and poles, as the general code has them."""
    x = np.concatenate([special_values(kind), spread(-100, 100, kind)])
    x = np.concatenate([x, np.abs(x) * np.finfo(KINDS[kind]).smallest_normal])
    arrays = (x, x[::-1])[: ARGUMENTS.get(name, 1)]
    kinds = [kind] * len(arrays)
    got = elementwise(FUNCTIONS[name], kinds, kind, 17)(*arrays)
    general = Module(vector_bytes=32)
    want = elementwise(FUNCTIONS[name], kinds, kind, 17, general)(*arrays)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), ~numbers)
    bits = f"i{want.itemsize}"
    np.testing.assert_array_equal(got[numbers].view(bits), want[numbers].view(bits))


@pytest.mark.parametrize("vector_bytes", [32, host().vector_bytes])
def test_erf_at_the_seams_of_its_pieces(vector_bytes):
    """In pieces or by one path; 1 where the last one ends, and odd to the bit."""
    seams = (np.arange(16, dtype="f4") + 0.5) * np.float32(33 / 128)
    above = np.nextafter(seams, np.float32(9))
    x = np.concatenate([seams, above, [3.93, 4, 9, np.inf]]).astype("f4")
    module = Module(vector_bytes=vector_bytes)
    erf = elementwise(FUNCTIONS["erf"], ["f32"], "f32", 17, module)
    want = scipy.special.erf(x.astype("f8"))
    got = erf(x)
    assert np.abs((got - want) / np.spacing(want.astype("f4"))).max() <= 2
    assert np.all(got[x > 3.92] == 1)
    np.testing.assert_array_equal(erf(-x), -got)
