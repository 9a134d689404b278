"""The functions whose accuracy is measured, and the arguments it is measured at."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import mpmath as mp
import numpy as np
from tests.accuracy import oracle
from tests.accuracy.oracle import precise

REAL = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
PI = np.pi


@dataclass(frozen=True)
class Function:
    """A public function: its path below `curta`, its exact value, its arguments."""

    path: str
    exact: oracle.Exact
    arity: int = 1
    complex: bool = False
    # Arguments besides the common ones: near them everything is close together.
    near: tuple[float, ...] = ()
    # Bounds of the arguments, one pair for each; None: all floats.
    bounds: tuple[tuple[float, float] | None, ...] = (None, None, None)
    parameters: dict[str, Any] = field(default_factory=dict)
    # The error is in ULP of at least this number: where a function crosses zero, only
    # its absolute error is small.
    zero: float = 0.0
    # Nor are there smaller arguments than this, but 0.
    least: float = 0.0
    # The exact value of what narrower dtypes than float64 mean by the function.
    narrow: oracle.Exact | None = None
    # Named apart in the tables.
    label: str = ""

    @property
    def name(self) -> str:
        return self.label or self.path.removeprefix("lax.")

    def on(self, root: Any) -> Callable[..., Any]:
        """The function of a package like `curta`."""
        for part in self.path.split("."):
            root = getattr(root, part)
        return lambda *args: root(*args, **self.parameters)


def _turns(count: int) -> tuple[float, ...]:
    return tuple(PI / 2 * k for k in range(-count, count + 1) if k)


UNIT = ((-1.0, 1.0),)
POSITIVE = ((0.0, float("inf")),)
FUNCTIONS = [
    Function("lax.exp", mp.exp, complex=True),
    Function("lax.exp2", lambda x: mp.exp(x * mp.ln2)),
    Function("lax.exp2", lambda x: mp.exp(x * mp.ln2), complex=True,
             bounds=((-10.0, 10.0),), label="exp2, moderate"),
    Function("lax.expm1", mp.expm1, complex=True, near=(0.0, 1.0, -1.0)),
    Function("lax.log", mp.log, complex=True, near=(1.0,), bounds=POSITIVE),
    Function("lax.log1p", mp.log1p, complex=True, near=(-1.0, 1.0)),
    Function("lax.logistic", oracle.logistic, complex=True, near=_turns(4)),
    Function("lax.sin", mp.sin, complex=True, near=_turns(9)),
    Function("lax.cos", mp.cos, complex=True, near=_turns(9)),
    Function("lax.tan", mp.tan, complex=True, near=_turns(9)),
    Function("lax.asin", precise(mp.asin), complex=True, near=(1.0, -1.0), bounds=UNIT),
    Function("lax.acos", precise(mp.acos), complex=True, near=(1.0, -1.0), bounds=UNIT),
    Function("lax.atan", precise(mp.atan), complex=True, near=(1.0, -1.0)),
    Function("lax.sinh", mp.sinh, complex=True, near=_turns(4)),
    Function("lax.cosh", mp.cosh, complex=True, near=_turns(4)),
    Function("lax.tanh", mp.tanh, complex=True, near=_turns(4)),
    Function("lax.asinh", precise(mp.asinh), complex=True, near=(1.0, -1.0)),
    Function("lax.acosh", precise(mp.acosh), complex=True, near=(1.0, -1.0),
             bounds=((1.0, float("inf")),)),
    Function("lax.atanh", precise(mp.atanh), complex=True, near=(1.0, -1.0),
             bounds=UNIT),
    Function("lax.sqrt", mp.sqrt, complex=True, bounds=POSITIVE),
    Function("lax.rsqrt", lambda x: 1 / mp.sqrt(x), complex=True, bounds=POSITIVE),
    Function("lax.cbrt", oracle.cbrt),
    Function("lax.square", lambda x: x * x, complex=True),
    Function("lax.reciprocal", lambda x: 1 / x, complex=True),
    Function("lax.integer_pow", lambda x: x**-2, complex=True, parameters={"y": -2},
             label="integer_pow(-2), moderate", bounds=((-1e12, 1e12),), least=1e-12),
    Function("lax.integer_pow", lambda x: x**3, complex=True, parameters={"y": 3},
             label="integer_pow(3), moderate", bounds=((-1e12, 1e12),), least=1e-12),
    Function("lax.erf", mp.erf),
    Function("lax.erfc", mp.erfc, bounds=((-10.0, 30.0),)),
    Function("lax.erf_inv", oracle.erf_inv, near=(1.0, -1.0), bounds=UNIT,
             narrow=oracle.erf_inv_of_rounded_square),
    Function("lax.lgamma", oracle.lgamma, near=(1.0, 2.0), bounds=POSITIVE),
    Function("lax.lgamma", oracle.lgamma, near=(-2.457, -2.747, -1.0),
             bounds=((-30.0, 0.0),), zero=1.0,
             label="lgamma, x < 0"),
    Function("lax.digamma", mp.digamma, near=(1.4616321449683622,), bounds=POSITIVE,
             zero=0.25),
    Function("lax.digamma", mp.digamma, bounds=((-30.0, 0.0),),
             near=(-0.504083, -1.573498, -2.610721, -3.635293, -9.702672),
             zero=1.0, label="digamma, x < 0"),
    Function("lax.bessel_i0e", lambda x: mp.besseli(0, x) * mp.exp(-abs(x)),
             bounds=((-700.0, 700.0),)),
    Function("lax.bessel_i1e", lambda x: mp.besseli(1, x) * mp.exp(-abs(x)),
             bounds=((-700.0, 700.0),)),
    Function("scipy.special.ndtr", mp.ncdf, bounds=((-37.0, 9.0),)),
    Function("scipy.special.log_ndtr", lambda x: mp.log(mp.ncdf(x)),
             bounds=((-1000.0, 9.0),), near=(-20.0, -10.0)),
    Function("scipy.special.logit", lambda x: mp.log(x / (1 - x)), near=(0.5,),
             bounds=((0.0, 1.0),), zero=1.0),
    Function("scipy.special.entr", lambda x: -x * mp.log(x) if x else mp.mpf(0),
             bounds=((0.0, 1e30),), near=(1.0,), zero=1.0),
    Function("nn.softplus", lambda x: mp.log1p(mp.exp(x))),
    Function("nn.log_sigmoid", lambda x: -mp.log1p(mp.exp(-x))),
    Function("nn.silu", lambda x: x * oracle.logistic(x)),
    Function("numpy.sinc", lambda x: mp.sincpi(x), bounds=((-100.0, 100.0),),
             zero=0.0625),
    Function("numpy.hypot", mp.hypot, arity=2),
    Function("numpy.logaddexp", lambda x, y: max(x, y) + mp.log1p(mp.exp(-abs(x - y))),
             arity=2, zero=1.0),
    Function("numpy.log2", lambda x: mp.log(x) / mp.ln2, bounds=POSITIVE, near=(1.0,)),
    Function("numpy.log10", mp.log10, bounds=POSITIVE, near=(1.0,)),
    Function("lax.abs", abs, complex=True),
    Function("lax.sign", mp.sign, complex=True),
    Function("lax.atan2", mp.atan2, arity=2),
    Function("lax.pow", oracle.power, arity=2, bounds=(POSITIVE[0], (-30.0, 30.0))),
    Function("lax.pow", oracle.power, arity=2, bounds=((0.5, 2.0), (-2000.0, 2000.0)),
             label="pow, large exponent"),
    Function("lax.pow", oracle.power, arity=2, complex=True,
             bounds=((0.1, 10.0), (-4.0, 4.0)), label="pow, moderate"),
    Function("lax.div", lambda x, y: x / y, arity=2, complex=True),
    Function("lax.mul", lambda x, y: x * y, arity=2, complex=True),
]  # fmt: skip


def part_dtype(dtype: Any) -> np.dtype:
    dtype = np.dtype(dtype)
    return np.dtype(f"f{dtype.itemsize // 2}") if dtype.kind == "c" else dtype


def real_arguments(
    function: Function, dtype: Any, count: int, rng: Any, operand: int = 0
) -> np.ndarray:
    """Floats of every size, of ordinary size, and close around difficult ones."""
    dtype = np.dtype(dtype)
    info = ml_dtypes.finfo(dtype)
    bounds = function.bounds[min(operand, len(function.bounds) - 1)]
    low, high = bounds or (-np.inf, np.inf)
    parts = []
    least, most = np.log(float(info.smallest_subnormal)), np.log(float(info.max))
    sizes = np.exp(rng.uniform(least, most, count))
    parts.append(sizes * rng.choice([-1.0, 1.0], count))
    parts.append(rng.uniform(max(low, -10), min(high, 10), 2 * count))
    parts.append(rng.uniform(max(low, -1000), min(high, 1000), count))
    parts.append(rng.uniform(-1, 1, count) * most * 1.05)  # where exp ends
    for point in function.near:
        steps = rng.normal(size=count // 4 + 4) * 2.0 ** rng.uniform(
            -info.nmant, 1, count // 4 + 4
        )
        parts.append(point + abs(point or 1.0) * steps)
        parts.append(np.array([point]))
    with np.errstate(over="ignore"):
        x = np.concatenate(parts).astype(dtype)
    wide = x.astype(np.float64)
    large = (wide == 0) | (np.absolute(wide) >= function.least)
    return x[(wide >= low) & (wide <= high) & large & np.isfinite(wide)]


def arguments(
    function: Function, dtype: Any, count: int, rng: Any
) -> tuple[np.ndarray, ...]:
    """One array for each operand, all of one length."""
    dtype = np.dtype(dtype)
    if dtype.kind != "c":
        columns = [real_arguments(function, dtype, count, rng, i)
                   for i in range(function.arity)]  # fmt: skip
        return _shuffled(columns, rng)
    free = Function(function.path, function.exact, near=(*function.near, 0.0))
    columns = []
    for i in range(function.arity):
        bounded = "moderate" in function.label
        source = function if bounded else free
        part = part_dtype(dtype)
        sides = [real_arguments(source, part, count, rng, i) for _ in "ri"]
        re, im = _shuffled(sides, rng)
        z = np.empty(len(re), dtype)
        z.real, z.imag = re, im
        # mpmath has no zeros with signs, which say on which side of a cut it is.
        columns.append(z[(re != 0) & (im != 0)])
    return _shuffled(columns, rng)


def _shuffled(columns: list[np.ndarray], rng: Any) -> tuple[np.ndarray, ...]:
    size = min(map(len, columns))
    return tuple(rng.permutation(c)[:size] for c in columns)


def specials(dtype: Any) -> np.ndarray:
    """Zeros, infinities, NaN, subnormals, the ends of the range; all pairs of them."""
    dtype = np.dtype(dtype)
    part = part_dtype(dtype)
    info = ml_dtypes.finfo(part)
    some = [
        0.0,
        1.0,
        0.5,
        2.0,
        3.0,
        100.0,
        np.inf,
        float(info.max),
        float(info.smallest_normal),
        float(info.smallest_subnormal),
        PI / 2,
    ]
    x = np.array([*some, *(-v for v in some), np.nan], np.float64).astype(part)
    if dtype.kind != "c":
        return x
    z = np.empty((len(x), len(x)), dtype)
    z.real, z.imag = x[:, None], x[None]
    return z.ravel()


def exact_values(function: Function, columns: tuple[np.ndarray, ...]) -> list[Any]:
    """mpmath's values at the arguments, or None where it has none."""
    dtype = columns[0].dtype
    convert = mp.mpc if dtype.kind == "c" else mp.mpf
    exact = function.exact
    if function.narrow and part_dtype(dtype) != np.float64:
        exact = function.narrow
    found = []
    for values in zip(
        *(
            c.tolist() if c.dtype.kind == "c" else c.astype(np.float64).tolist()
            for c in columns
        ),
        strict=True,
    ):
        try:
            found.append(exact(*map(convert, values)))
        except (ZeroDivisionError, ValueError, OverflowError):
            found.append(None)
    return found


def error(function: Function, got: Any, exact: Any, dtype: Any) -> float:
    """The error of one result in ULP; of complex ones, of the larger part."""
    part = part_dtype(dtype)
    if np.dtype(dtype).kind != "c":
        if isinstance(exact, mp.mpc):  # outside the domain
            exact = mp.nan if exact.imag else exact.real
        size = max(abs(exact), mp.mpf(function.zero)) if function.zero else None
        return oracle.ulp_error(got, exact, part, size)
    exact = mp.mpc(exact)
    if not np.iscomplexobj(got):
        return oracle.ulp_error(got, exact.real, part)
    size = max(abs(exact.real), abs(exact.imag))
    return max(oracle.ulp_error(got.real, exact.real, part, size),
               oracle.ulp_error(got.imag, exact.imag, part, size))  # fmt: skip


def with_dtype(function: Function, dtype: str) -> bool:
    return dtype in REAL or function.complex
