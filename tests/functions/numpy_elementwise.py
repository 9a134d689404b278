"""`curta.numpy` and `curta.lax`, element by element."""

import numpy as np
from tests.functions.rows import (
    ALL,
    BITS,
    COMPLEX,
    FLOAT,
    INEXACT,
    INTEGER,
    NUMBER,
    REAL,
    call,
    rows,
    within,
)

ANY_REAL = (*REAL, "bool")
HELD = ("float32", "float16", "float64")  # that NumPy itself has
STEPS = {"grad": "JAX 0.10 has no derivative of `nextafter`"}


def unary(source, shape):
    yield call(source(shape))


def binary(source, shape):
    yield call(source(shape), source(shape))
    yield call(source(shape), source(()))
    yield call(source(shape[-1:]), source(shape))
    yield call(
        source(shape), source(tuple(1 if i % 2 else n for i, n in enumerate(shape)))
    )


def with_scalar(source, shape):
    yield from binary(source, shape)
    yield call(source(shape), 2)
    yield call(2, source(shape))


def division(source, shape):
    """No zeros among the divisors, and both signs if there are any."""

    def divisor(shape):
        x = source(shape, low=1, high=4)
        if source.dtype in ("uint8", "bool"):
            return x
        return np.where(source.mask(shape), x, -x).astype(x.dtype)

    yield call(source(shape), divisor(shape))
    yield call(source(shape), divisor(()))
    yield call(source(()), divisor(shape))


def shift(source, shape):
    yield call(source(shape), source(shape, low=0, high=6))


def pairs_of_integers(source, shape):
    yield call(source(shape), source.integers(shape, -3, 3))


UNARY = [
    *rows(
        "sin cos tan sinh cosh tanh arctan atan arcsinh asinh exp exp2 expm1 sinc",
        unary,
        (*ALL,),
        floating=True,
        tolerance=4,
    ),
    *rows("cbrt deg2rad rad2deg degrees radians i0", unary, ANY_REAL, floating=True),
    *rows("log log2 log10 log1p sqrt", unary, ALL, floating=True, domain=(0.2, 4)),
    *rows(
        "arcsin asin arccos acos arctanh atanh",
        unary,
        ALL,
        floating=True,
        domain=(-0.9, 0.9),
        tolerance=4,
    ),
    *rows("arccosh acosh", unary, ALL, floating=True, domain=(1.1, 4), tolerance=4),
    *rows("reciprocal", unary, INEXACT, floating=True, domain=(0.4, 4)),
    *rows("negative", unary, NUMBER),
    *rows("positive square", unary, NUMBER),
    *rows("abs absolute conj conjugate real", unary, ALL),
    *rows("imag iscomplex isreal isfinite isnan isinf logical_not", unary, ALL),
    *rows("angle", unary, (*COMPLEX, *FLOAT), domain=(0.2, 3)),
    *rows("sign", unary, REAL),
    *rows("sign", unary, COMPLEX, without={"grad": "taken to be constant"}),
    *rows("fabs", unary, REAL, floating=True),
    *rows("floor ceil trunc rint", unary, REAL),
    *rows("isneginf isposinf", unary, FLOAT),
    *rows("signbit", unary, FLOAT, exact=True),
    *rows("spacing", unary, HELD, exact=True, domain=(0.2, 3), without=STEPS),
    *rows("modf", unary, FLOAT, floating=True),
    *rows("frexp", unary, HELD, exact=True, domain=(1.1, 1.9)),
    *rows("invert bitwise_not bitwise_invert", unary, BITS),
    *rows("bitwise_count", unary, INTEGER, exact=True),
    *rows("nan_to_num", unary, INEXACT),
    *rows("round around", unary, REAL),
    *rows("iterable iscomplexobj isrealobj", unary, NUMBER),
    *rows("isscalar", unary, NUMBER, reference=lambda x: x.ndim == 0),
]

BINARY = [
    *rows("add multiply maximum minimum", with_scalar, NUMBER),
    *rows("subtract", with_scalar, NUMBER),
    *rows("equal not_equal less less_equal greater greater_equal", binary, ALL),
    *rows("logical_and logical_or logical_xor", binary, ALL),
    *rows("divide true_divide", division, ALL, floating=True),
    *rows("fmax fmin", binary, REAL),
    *rows("power pow", binary, FLOAT, domain=(0.3, 3), tolerance=4),
    *rows("float_power", binary, FLOAT, domain=(0.3, 3), tolerance=4),
    *rows("floor_divide remainder mod fmod divmod", division, REAL),
    *rows("arctan2 atan2 hypot copysign heaviside", binary, FLOAT),
    *rows("logaddexp logaddexp2", binary, FLOAT),
    *rows("nextafter", binary, HELD, exact=True, without=STEPS),
    *rows("gcd lcm", binary, INTEGER, domain=(-9, 9)),
    *rows("left_shift right_shift", shift, INTEGER),
    *rows("bitwise_left_shift bitwise_right_shift", shift, INTEGER),
    *rows("bitwise_and bitwise_or bitwise_xor", binary, BITS),
    *rows("ldexp", pairs_of_integers, ("float32", "float64")),
    *rows("isclose allclose array_equal array_equiv", binary, ALL),
]


def power_of_integers(source, shape):
    yield call(source(shape), source(shape, low=0, high=3))
    yield call(source(shape), 3)


def rounding(source, shape):
    for decimals in 0, 1, 2, -1:
        yield call(source(shape), decimals)


def clips(source, shape):
    yield call(source(shape), 1, 2)
    yield call(source(shape), source(shape, high=0), source(shape, low=1))
    yield call(source(shape), None, source(()))
    yield call(source(shape), min=source(shape[-1:]))


def selection(source, shape):
    yield call(source.mask(shape), source(shape), source(shape))
    yield call(source.mask(()), source(shape), source(()))
    yield call(source.mask(shape), 1, source(shape[-1:]))


def not_numbers(source, shape):
    x = source(shape)
    x[source.mask(shape)] = np.nan
    yield call(x)
    yield call(x, nan=2.5)
    y = source(shape)
    yield call(np.where(y > 0, np.inf, y).astype(y.dtype), posinf=9.0, neginf=-9.0)


def not_numbers_predicates(source, shape):
    x = source(shape)
    x[source.mask(shape)] = np.nan
    x[source.mask(shape)] = np.inf
    x[source.mask(shape)] = -np.inf
    yield call(x)


def close(source, shape):
    x = source(shape)
    yield call(x, (x * 1.001).astype(x.dtype), rtol=0.1)
    yield call(x, source(shape), rtol=0.3, atol=0.1, equal_nan=True)


OTHERS = [
    *rows(
        "power pow",
        power_of_integers,
        (*INTEGER, *COMPLEX),
        domain=(-3, 3),
        tolerance=8,
    ),
    *rows("round around", rounding, ("float32", "float64"), tolerance=4),
    *rows("clip", clips, REAL),
    *rows("where", selection, ALL),
    *rows("nan_to_num", not_numbers, FLOAT),
    *rows("isnan isinf isfinite isneginf isposinf", not_numbers_predicates, FLOAT),
    *rows("isclose allclose", close, FLOAT),
]
TABLE = within("numpy", [*UNARY, *BINARY, *OTHERS])
