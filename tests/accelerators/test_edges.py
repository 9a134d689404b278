"""Tier A: elementwise ops at the edges: zeros, infinities, NaN, ends of integers.

In every dtype that there is, also those of parts of a byte, against `eval`.
"""

import ml_dtypes
import numpy as np
import pytest
from tests.accelerators.programs import run_cases
from tests.conformance.checks import evaluate
from tests.conformance.samples import Case

from curta import dtypes
from curta.config import enable_x64
from curta.core.avals import ShapedArray
from curta.primitives.elementwise import (
    arithmetic,
    bitwise,
    comparison,
    exponential,
    magnitude,
    powers,
    rounding,
    trigonometric,
)
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.elementwise.select import Clamp
from curta.primitives.reduction import ArgMax, ArgMin

FLOATS = ["float32", "float64", "float16", "bfloat16"]
NARROW = [
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"),
    *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz"),
]
INTEGERS = [f"{sign}int{n}" for sign in ("", "u") for n in (4, 8, 16, 32, 64)]
COMPLEX = ["complex64", "complex128"]
ULPS = 16


def dtype_of(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def edges(dtype):
    if dtypes.issubdtype(dtype, np.integer):
        info = dtypes.iinfo(dtype)
        found = {0, 1, 2, 3, 5, 7, info.min, info.max, info.max - 1, info.max // 2}
        found |= {-1, -2, -7} if info.min < 0 else set()
        wide = np.uint64 if info.min == 0 else np.int64
        return np.array(sorted(map(int, found)), wide).astype(dtype)
    if dtype.kind == "b":
        return np.array([False, True])
    parts = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, np.inf, -np.inf, np.nan, 1e-3, 7.0]
    if dtype.kind == "c":
        return np.array([x + 1j * y for x in parts[:7] for y in parts[:7]], dtype)
    if dtype.itemsize > 1:
        info = dtypes.finfo(dtype)
        parts += [float(info.max), -float(info.max), float(info.tiny)]
    with np.errstate(all="ignore"):
        return np.array(parts).astype(dtype)


def check(ops, *names):
    """Ops on all tuples of edges of their dtypes."""
    grids = np.meshgrid(*[edges(dtype_of(n)) for n in names], indexing="ij")
    args = tuple(np.ascontiguousarray(g.reshape(-1)) for g in grids)
    avals = tuple(ShapedArray(a.shape, a.dtype) for a in args)
    found = [Case(op, avals, args, ({},) * len(args)) for op in ops]
    with enable_x64(True):
        outs = run_cases(found)
    failures = []
    for op, (got,) in zip(ops, outs, strict=True):
        (want,) = evaluate(op, args)
        assert got.dtype == want.dtype
        wrong = differs(got, want)
        if wrong.any():
            worst = [
                (*(str(a[i]) for a in args), f"gave {got[i]}, not {want[i]}")
                for i in np.flatnonzero(wrong)[:5]
            ]
            failures.append(f"{op}: {wrong.sum()} of {wrong.size}, as {worst}")
    if failures:
        pytest.fail("\n".join(failures), pytrace=False)


def differs(got, want):
    """Which elements differ: by more than rounding, where they are inexact."""
    if not dtypes.issubdtype(want.dtype, np.inexact):
        return got != want
    info = dtypes.finfo(want.dtype)
    wide = np.complex128 if want.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        g, w = got.astype(wide), want.astype(wide)
        near = np.abs(g - w) <= ULPS * float(info.eps) * np.abs(w)
        # XLA's processes have subnormal numbers flushed to 0.
        flushed = (g == 0) & (np.abs(w) <= float(info.tiny))
        return ~(near | flushed | (g == w) | ((g != g) & (w != w)))


BINARY = [arithmetic.Add, arithmetic.Sub, arithmetic.Mul, arithmetic.Div]
ORDER = [magnitude.Max, magnitude.Min, comparison.Eq, comparison.Ne, comparison.Lt]
UNARY = [
    *(arithmetic.Neg, magnitude.Sign, magnitude.Abs, arithmetic.Square, powers.Sqrt),
    *(rounding.Floor, rounding.Ceil, rounding.Round, rounding.IsFinite, powers.Rsqrt),
    *(powers.Cbrt, exponential.Exp, exponential.Log, exponential.Log1p),
    *(exponential.Expm1, exponential.Tanh, exponential.Logistic, trigonometric.Atan),
    *(trigonometric.Sinh, trigonometric.Cosh, trigonometric.Asinh),
    *(trigonometric.Acosh, trigonometric.Atanh, trigonometric.Asin),
    *(trigonometric.Acos, trigonometric.Sin, trigonometric.Cos),
]


BITS = [
    *(bitwise.ShiftLeft, bitwise.ShiftRightLogical, bitwise.ShiftRightArithmetic),
    *(bitwise.And, bitwise.Xor, arithmetic.Mulhi),
]
COUNTS = [
    *(bitwise.Not, bitwise.PopulationCount, bitwise.Clz, arithmetic.Neg),
    *(magnitude.Sign, arithmetic.Square),
]
PAIRS = [
    *(powers.Pow, trigonometric.Atan2, rounding.Nextafter, comparison.LtTo),
    *(comparison.LeTo, comparison.EqTo),
]


@pytest.mark.parametrize("name", [*FLOATS, *NARROW])
def test_unary(name):
    check([cls() for cls in UNARY], name)


@pytest.mark.parametrize("name", [*FLOATS, *NARROW, *INTEGERS])
def test_binary(name):
    check([cls() for cls in [*BINARY, *ORDER, rounding.Rem]], name, name)


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name):
    check([cls() for cls in BITS], name, name)
    check([cls() for cls in COUNTS], name)


@pytest.mark.parametrize("name", FLOATS)
def test_floats(name):
    check([cls() for cls in PAIRS], name, name)


@pytest.mark.parametrize("name", [*FLOATS, *INTEGERS, "bool"])
def test_clamp(name):
    check([Clamp()], name, name, name)


@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name):
    ops = [arithmetic.Add(), arithmetic.Mul(), magnitude.Max(), comparison.Eq()]
    check(ops, name, name)


EVERY = [*FLOATS, *NARROW, *INTEGERS, *COMPLEX, "bool"]


@pytest.mark.parametrize("old", EVERY)
def test_conversion(old):
    check([ConvertElementType(dtype_of(new)) for new in EVERY], old)


@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4", "int8", "uint8"])
def test_places_are_those_of_the_first_even_where_they_wrap(dtype):
    """Of equal elements the first counts, in types too narrow to tell them apart."""
    x = np.zeros(300, np.float32)
    x[[259, 270]], x[[3, 130]] = 1, -1
    aval = ShapedArray(x.shape, x.dtype)
    ops = [cls((0,), dtype_of(dtype)) for cls in (ArgMax, ArgMin)]
    found = [Case(op, (aval,), (x,), ({},)) for op in ops]
    with enable_x64(True):
        for case, outs in zip(found, run_cases(found), strict=True):
            np.testing.assert_array_equal(outs, evaluate(case.op, case.args))
