"""`curta.lax` element by element, and `curta.scipy.special`."""

import numpy as np
import scipy.special as sp
from tests.functions.numpy_elementwise import (
    HELD,
    STEPS,
    division,
    not_numbers_predicates,
    unary,
)
from tests.functions.rows import (
    ALL,
    BITS,
    COMPLEX,
    FLOAT,
    INEXACT,
    INTEGER,
    NUMBER,
    REAL,
    SINGLE,
    call,
    rows,
    within,
)


def same_shapes(source, shape):
    """Convert to an operand of `lax`."""
    yield call(source(shape), source(shape))


def three(source, shape):
    yield call(source(shape), source(shape), source(shape))


def shifts(source, shape):
    yield call(source(shape), source(shape, low=0, high=5))


def shifted_right(x, n):
    """Zeros come in from the left."""
    bits = x.dtype.itemsize * 8
    shifted = lambda v, n: (int(v) % 2**bits) >> int(n)  # noqa: E731
    return np.vectorize(shifted, otypes=["u8"])(x, n).astype(x.dtype)


def leading_zeros(x):
    bits = x.dtype.itemsize * 8
    of = lambda v: bits - (int(v) % 2**bits).bit_length()  # noqa: E731
    return np.vectorize(of, otypes=[x.dtype])(x)


def ones_counted(x):
    bits = x.dtype.itemsize * 8
    return np.vectorize(lambda v: (int(v) % 2**bits).bit_count(), otypes=[x.dtype])(x)


def high_parts(x, y):
    bits = x.dtype.itemsize * 8
    high = lambda v, w: int(v) * int(w) >> bits  # noqa: E731
    return np.vectorize(high, otypes=[x.dtype])(x, y)


def clamps(source, shape):
    yield call(source(shape, high=0), source(shape), source(shape, low=1))
    yield call(source((), high=0), source(shape), source((), low=1))


def selections(source, shape):
    yield call(source.mask(shape), source(shape), source(shape))


def numbered_selections(source, shape):
    yield call(
        source.integers(shape, 0, 2), source(shape), source(shape), source(shape)
    )


def integer_powers(source, shape):
    for n in 3, 0, 1, 2, 7:
        yield call(source(shape), n)


def parts(source, shape):
    yield call(source.real(shape), source.real(shape))


def rounded_precision(x, exponent, mantissa):
    """To fewer bits by way of the narrower types that NumPy has."""
    narrow = {(5, 10): np.float16, (8, 7): None}[exponent, mantissa]
    return x.astype(narrow).astype(x.dtype)


def precisions(source, shape):
    yield call(source(shape), 5, 10)


LAST = {"grad": "in the last argument only, as in JAX; see `scipy.special.betainc:x`"}
UNARY = [
    *rows(
        "sin cos tan sinh cosh tanh exp exp2 expm1 square", unary, INEXACT, tolerance=4
    ),
    *rows("log log1p sqrt", unary, INEXACT, domain=(0.2, 4)),
    *rows("rsqrt", unary, INEXACT, domain=(0.2, 4), reference=lambda x: 1 / np.sqrt(x)),
    *rows("asin acos atanh", unary, INEXACT, domain=(-0.9, 0.9), tolerance=4),
    *rows("atan asinh", unary, INEXACT, tolerance=4),
    *rows("acosh", unary, INEXACT, domain=(1.1, 4), tolerance=4),
    *rows("cbrt", unary),
    *rows("logistic", unary, INEXACT, reference=lambda x: 1 / (1 + np.exp(-x))),
    *rows("neg", unary, NUMBER, reference=np.negative),
    *rows("abs", unary, (*FLOAT, *INTEGER[:2], *COMPLEX)),
    *rows("sign", unary, REAL),
    *rows("reciprocal", unary, INEXACT, domain=(0.4, 4)),
    *rows("floor ceil", unary),
    *rows("round", unary, reference=lambda x: np.trunc(x + np.copysign(0.5, x))),
    *rows(
        "round:even",
        unary,
        reference=np.rint,
        of=lambda p: lambda x: p.lax.round(x, p.lax.RoundingMethod.TO_NEAREST_EVEN),
    ),
    *rows("is_finite", not_numbers_predicates, FLOAT, reference=np.isfinite),
    *rows("conj real imag", unary, COMPLEX),
    *rows("bitwise_not", unary, BITS),
    *rows("population_count", unary, INTEGER, exact=True, reference=ones_counted),
    *rows("clz", unary, INTEGER, exact=True, reference=leading_zeros),
    *rows("erf", unary, reference=sp.erf, tolerance=2),
    *rows("erfc", unary, reference=sp.erfc, tolerance=2),
    *rows("erf_inv", unary, domain=(-0.9, 0.9), reference=sp.erfinv, tolerance=4),
    *rows("lgamma", unary, domain=(0.4, 5), reference=sp.gammaln, tolerance=2),
    *rows("digamma", unary, domain=(0.4, 5), reference=sp.digamma, tolerance=2),
    *rows("bessel_i0e", unary, SINGLE, reference=sp.i0e),
    *rows("bessel_i1e", unary, SINGLE, reference=sp.i1e),
    *rows(
        "integer_pow",
        integer_powers,
        NUMBER,
        reference=lambda x, n: x**n,
        tolerance=8,
        domain=(-2, 2),
    ),
    *rows(
        "reduce_precision",
        precisions,
        ("float32", "float64"),
        exact=True,
        reference=rounded_precision,
        without={"grad": "it is a step function"},
    ),
    *rows(
        "stop_gradient",
        unary,
        NUMBER,
        reference=np.asarray,
        without={"grad": "it has none"},
    ),
    *rows("optimization_barrier", unary, NUMBER, reference=np.asarray),
]
BINARY = [
    *rows("add", same_shapes, NUMBER),
    *rows("mul", same_shapes, NUMBER, reference=np.multiply),
    *rows("sub", same_shapes, NUMBER, reference=np.subtract),
    *rows("max", same_shapes, REAL, reference=np.maximum),
    *rows("min", same_shapes, REAL, reference=np.minimum),
    *rows("atan2", same_shapes),
    *rows("nextafter", same_shapes, HELD, exact=True, without=STEPS),
    *rows("pow", same_shapes, INEXACT, domain=(0.3, 3), tolerance=8),
    *rows(
        "pow:integers",
        lambda s, shape: [call(s(shape), np.int32(3))],
        INEXACT,
        tolerance=16,
    ),
    *rows("bitwise_and bitwise_or bitwise_xor", same_shapes, BITS),
    *rows("shift_left", shifts, INTEGER, reference=np.left_shift),
    *rows(
        "shift_right_arithmetic",
        shifts,
        ("int32", "int8", "int64"),
        reference=np.right_shift,
    ),
    *rows("shift_right_logical", shifts, INTEGER, exact=True, reference=shifted_right),
    *rows(
        "mulhi",
        same_shapes,
        ("int32", "uint8"),
        exact=True,
        reference=high_parts,
        domain=(-99, 99),
    ),
    *rows("complex", parts, COMPLEX, reference=lambda x, y: x + 1j * y),
    *rows("clamp", clamps, REAL, reference=lambda a, x, b: np.clip(x, a, b)),
    *rows("select", selections, ALL, reference=np.where),
    *rows(
        "select_n",
        numbered_selections,
        ALL,
        reference=lambda which, *cases: np.choose(which, cases),
    ),
    *rows(
        "betainc",
        three,
        SINGLE,
        domain=(0.2, 0.9),
        reference=sp.betainc,
        tolerance=8,
        without=LAST,
    ),
    *rows(
        "igamma",
        same_shapes,
        SINGLE,
        domain=(0.3, 4),
        reference=sp.gammainc,
        tolerance=8,
        without={"grad": "see `igamma_grad_a`"},
    ),
    *rows(
        "igammac",
        same_shapes,
        SINGLE,
        domain=(0.3, 4),
        reference=sp.gammaincc,
        tolerance=8,
        without={"grad": "see `igamma_grad_a`"},
    ),
    *rows(
        "polygamma",
        lambda s, shape: [call(np.ones(shape, s.dtype), s(shape))],
        SINGLE,
        domain=(0.5, 4),
        reference=sp.polygamma,
        tolerance=8,
        without={"grad": "the order has no derivative"},
    ),
    *rows(
        "zeta",
        lambda s, shape: [call(s(shape, low=2), s(shape))],
        SINGLE,
        domain=(1.2, 4),
        reference=sp.zeta,
        tolerance=8,
        without={"grad": "the order has no derivative"},
    ),
]


def compared(names):
    full = {
        "eq": "equal",
        "ne": "not_equal",
        "lt": "less",
        "le": "less_equal",
        "gt": "greater",
        "ge": "greater_equal",
    }
    for name in names.split():
        dtypes = ALL if name in ("eq", "ne") else (*REAL, "bool")
        pair = same_shapes
        yield from rows(name, pair, dtypes, reference=getattr(np, full[name]))


def quotient(x, y):
    return np.trunc(x / y) if x.dtype.kind in "iu" else x / y


def equal_divisions(source, shape):
    """As `division`, of equal shapes."""
    yield list(division(source, shape))[0]


DIVISION = [
    *rows("div", equal_divisions, NUMBER, reference=quotient),
    *rows("rem", equal_divisions, REAL, reference=np.fmod),
]


def gamma_slope(a, x):
    """By finite differences in extended precision."""
    h = 1e-5
    return (sp.gammainc(a + h, x) - sp.gammainc(a - h, x)) / (2 * h)


def random_gamma_slope(a, x):
    density = np.exp((a - 1) * np.log(x) - x - sp.gammaln(a))
    return -gamma_slope(a, x) / density


SLOPES = {"grad": "a derivative itself, which has none in JAX"}
GAMMA = [
    *rows(
        "igamma_grad_a",
        same_shapes,
        ("float32",),
        domain=(0.5, 3),
        reference=gamma_slope,
        tolerance=30,
        without=SLOPES,
    ),
    *rows(
        "random_gamma_grad",
        same_shapes,
        ("float32",),
        domain=(0.5, 3),
        reference=random_gamma_slope,
        tolerance=60,
        without=SLOPES,
    ),
]


def binary(source, shape):
    yield call(source(shape), source(shape))
    yield call(source(shape), source(shape[-1:]))
    yield call(source(()), source(shape))


def triple(source, shape):
    yield call(source(shape), source(shape), source(shape))
    yield call(source(shape), source(()), source(shape[-1:]))


def first_fixed(*values):
    """A static whole number, then the array."""
    return lambda source, shape: [call(n, source(shape)) for n in values]


def last_fixed(*values):
    return lambda source, shape: [call(source(shape), n) for n in values]


def hypergeometric(n):
    def calls(source, shape):
        parameters = [source(shape, low=0.5, high=2) for _ in range(n)]
        yield call(*parameters, source(shape, low=-0.4, high=0.6))

    return calls


def orders(source, shape):
    n = np.arange(1, 1 + np.prod(shape, dtype=int)).reshape(shape) % 3 + 1
    yield call(n.astype("int32"), source(shape))


def harmonics(source, shape):
    n = np.array([0, 1, 2, 3])
    m = np.array([0, -1, 1, 2])
    angles = source((4,), low=0.2, high=1.4), source((4,), low=0.2, high=3)
    yield call(n.astype("int32"), m.astype("int32"), *angles, n_max=4)


def reductions(source, shape):
    for axis in [None, *range(-len(shape), len(shape))]:
        yield call(source(shape), axis=axis)
        yield call(source(shape), axis=axis, keepdims=True)


def weights(source, shape):
    yield from reductions(source, shape)
    yield call(source(shape), b=source(shape, low=0.2, high=2))
    yield call(source(shape), b=source(shape), return_sign=True)


def softmaxes(source, shape):
    for axis in range(-len(shape), len(shape)):
        yield call(source(shape), axis=axis)


def combinations_of(source, shape):
    yield call(source(shape, low=5, high=9), source(shape, low=1, high=4))


def powers(source, shape):
    yield call(source(shape), source(shape, low=0.5, high=2))


def harmonic_reference(n, m, theta, phi, n_max):
    return sp.sph_harm_y(n, m, theta, phi)


def bessel(source, shape):
    yield call(np.array([0.5, 1.5, 4.0], source.dtype), v=3)


def bessel_reference(x, v):
    return np.array([sp.jv(n, x) for n in range(v + 1)])


FIRST = {"grad": "the order has no derivative"}
SPECIAL = [
    *rows("erf erfc erfcx expit ndtr log_ndtr dawsn", unary, SINGLE, tolerance=4),
    *rows("i0 i0e i1 i1e fresnel sici", unary, SINGLE, tolerance=8),
    *rows("erfinv", unary, SINGLE, domain=(-0.9, 0.9), tolerance=4),
    *rows("logit ndtri entr spence", unary, SINGLE, domain=(0.1, 0.9), tolerance=8),
    *rows(
        "gamma gammaln digamma exp1 expi factorial loggamma",
        unary,
        SINGLE,
        domain=(0.4, 4),
        tolerance=8,
    ),
    *rows("gammasgn", unary, SINGLE),
    *rows("gamma loggamma", unary, COMPLEX, domain=(0.4, 3), tolerance=16),
    *rows("wofz", unary, COMPLEX, domain=(0.2, 3), tolerance=16),
    *rows("beta betaln", binary, SINGLE, domain=(0.5, 3), tolerance=8),
    *rows("xlogy xlog1py", binary, SINGLE, domain=(0.2, 3)),
    *rows("rel_entr kl_div", binary, SINGLE, domain=(0.2, 3), tolerance=2),
    *rows("boxcox boxcox1p", binary, SINGLE, domain=(0.4, 3), tolerance=8),
    *rows("poch", binary, SINGLE, domain=(0.5, 3), tolerance=16),
    *rows("owens_t", binary, SINGLE, domain=(0.2, 2), tolerance=8),
    *rows(
        "gammainc gammaincc",
        binary,
        SINGLE,
        domain=(0.4, 4),
        tolerance=8,
        without={"grad": "of the second argument only; see `gammainc:x`"},
    ),
    *rows("gammainc:x", first_fixed(2.0), SINGLE, domain=(0.4, 4), tolerance=8),
    *rows("gammaincc:x", first_fixed(2.0), SINGLE, domain=(0.4, 4), tolerance=8),
    *rows("betainc", triple, SINGLE, domain=(0.2, 0.9), tolerance=8, without=LAST),
    *rows(
        "betainc:x",
        lambda s, shape: [call(0.7, 2.0, s(shape))],
        SINGLE,
        domain=(0.2, 0.9),
        tolerance=8,
    ),
    *rows(
        "zeta",
        lambda s, shape: [call(s(shape, low=2), s(shape))],
        SINGLE,
        domain=(1.2, 4),
        tolerance=8,
        without=FIRST,
    ),
    *rows("zeta:q", first_fixed(3.0), SINGLE, domain=(1.2, 4), tolerance=8),
    *rows("polygamma", orders, SINGLE, domain=(0.5, 4), tolerance=30, without=FIRST),
    *rows("polygamma:x", first_fixed(1), SINGLE, domain=(0.5, 4), tolerance=8),
    *rows("expn", orders, SINGLE, domain=(0.3, 4), tolerance=8, without=FIRST),
    *rows("expn:x", first_fixed(2), SINGLE, domain=(0.3, 4), tolerance=8),
    *rows("multigammaln", last_fixed(1, 2), SINGLE, domain=(1.2, 4), tolerance=8),
    *rows(
        "hyp1f1",
        hypergeometric(2),
        SINGLE,
        tolerance=30,
        without={"grad": "of all arguments in seconds; see tests/transforms"},
    ),
    *rows(
        "hyp2f1",
        hypergeometric(3),
        SINGLE,
        rank=(1, 1),
        tolerance=60,
        without={"grad": "none in JAX"},
    ),
    *rows("comb", combinations_of, SINGLE, tolerance=60),
    *rows(
        "bernoulli",
        lambda s, shape: [call(6)],
        ("float32",),
        rank=(0, 0),
        tolerance=8,
        without={"vmap": "takes no array", "grad": "takes no array"},
    ),
    *rows(
        "bessel_jn",
        bessel,
        SINGLE,
        rank=(1, 1),
        tolerance=60,
        reference=bessel_reference,
    ),
    *rows(
        "sph_harm_y",
        harmonics,
        SINGLE,
        rank=(1, 1),
        tolerance=60,
        reference=harmonic_reference,
    ),
    *rows("logsumexp", weights, (*FLOAT, *COMPLEX), rank=(1, 4), least=1, tolerance=4),
    *rows("softmax log_softmax", softmaxes, SINGLE, rank=(1, 3), least=1, tolerance=4),
]
TABLE = [
    *within(
        "lax", [*UNARY, *BINARY, *compared("eq ne lt le gt ge"), *DIVISION, *GAMMA]
    ),
    *within("scipy.special", SPECIAL),
]
