"""Complex scalar expressions: pairs of real ones, and their arithmetic.

The formulas are those of Kahan, "Branch cuts for complex elementary functions" (1987),
and Smith, "Algorithm 116: complex division" (1962). Single precision takes absolute
values and logarithms through float64, where nothing overflows or cancels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from curta._base.lazy_dataclass import dataclass

FLOAT64 = np.dtype("float64")


@dataclass(frozen=True)
class ComplexExpr:
    """`re + i*im`; dtype is complex64 or complex128."""

    re: Any
    im: Any
    dtype: Any


def parts(value: Any) -> tuple[Any, ...]:
    """The real expressions of a scalar."""
    return (value.re, value.im) if isinstance(value, ComplexExpr) else (value,)


def add(b: Any, z: ComplexExpr, w: ComplexExpr) -> ComplexExpr:
    return ComplexExpr(b.add(z.re, w.re), b.add(z.im, w.im), z.dtype)


def sub(b: Any, z: ComplexExpr, w: ComplexExpr) -> ComplexExpr:
    return ComplexExpr(b.sub(z.re, w.re), b.sub(z.im, w.im), z.dtype)


def mul(b: Any, z: ComplexExpr, w: ComplexExpr) -> ComplexExpr:
    re = difference(b, z.re, w.re, z.im, w.im)
    im = sum_of_products(b, z.re, w.im, z.im, w.re)
    return ComplexExpr(re, im, z.dtype)


def sum_of_products(b: Any, x: Any, y: Any, z: Any, w: Any) -> Any:
    """x * y + z * w, of real numbers: the second product is rounded.

    If each could be contracted, the code around would decide which one is.
    """
    return b.muladd(x, y, b.product(z, w))


def difference(b: Any, x: Any, y: Any, z: Any, w: Any) -> Any:
    """x * y - z * w, of real numbers: the second product is rounded."""
    return b.muladd(x, y, b.neg(b.product(z, w)))


def scale(b: Any, z: ComplexExpr, factor: Any) -> ComplexExpr:
    """z times a real number."""
    return ComplexExpr(b.mul(z.re, factor), b.mul(z.im, factor), z.dtype)


def div(b: Any, z: ComplexExpr, w: ComplexExpr) -> ComplexExpr:
    """Smith's division: by the larger part of the divisor.

    As in C99, annex G, what is infinite over what is finite is infinite, and the other
    way round 0: infinite parts count as 1 and the others as 0, times infinity or 0.
    """
    zero = is_zero(b, w)
    up = b.and_(_is_infinite(b, z), b.and_(_is_finite(b, w), b.not_(zero)))
    down = b.and_(_is_infinite(b, w), _is_finite(b, z))
    factor = _moderating(b, z, w)
    dividend = _select(b, up, _direction(b, z), scale(b, z, factor))
    divisor = _select(b, down, _direction(b, w), scale(b, w, factor))
    re, im = _smith(b, dividend, divisor, zero)
    nothing, one, end = (b.const(v, re.dtype) for v in (0, 1, np.inf))
    factor = b.select(up, end, b.select(down, nothing, one))
    return ComplexExpr(b.mul(re, factor), b.mul(im, factor), z.dtype)


def _moderating(b: Any, z: ComplexExpr, w: ComplexExpr) -> Any:
    """A power of 2 by which to scale z and w, so that z / w does not overflow between.

    Nor does it lose digits of small numbers.
    """
    info, dtype = np.finfo(z.re.dtype), z.re.dtype
    above, below = (b.max(b.abs(v.re), b.abs(v.im)) for v in (z, w))
    most, least = (b.const(v, dtype) for v in (info.max / 4, info.tiny / info.eps))
    near_zero = b.compare("lt", below, least)
    large = b.and_(b.compare("gt", above, most), b.not_(near_zero))
    large = b.or_(large, b.compare("gt", below, most))
    moderate = b.compare("lt", above, b.const(2.0**-62 * info.max, dtype))
    small = b.and_(near_zero, moderate)
    factor = b.select(small, b.const(2.0**60, dtype), b.const(1, dtype))
    return b.select(large, b.const(0.25, dtype), factor)


def _smith(b: Any, z: ComplexExpr, w: ComplexExpr, zero: Any) -> tuple[Any, Any]:
    """The parts of z / w, and of z / |re w| where `zero` holds."""
    by_real = b.compare("ge", b.abs(w.re), b.abs(w.im))
    large, small = b.select(by_real, w.re, w.im), b.select(by_real, w.im, w.re)
    first, second = b.select(by_real, z.re, z.im), b.select(by_real, z.im, z.re)
    ratio = b.div(small, large)
    divisor = b.muladd(small, ratio, large)
    divisor = b.select(zero, b.abs(w.re), divisor)
    re = b.muladd(second, ratio, first)
    less = b.select(by_real, b.neg(first), first)
    im = b.muladd(less, ratio, b.select(by_real, second, b.neg(second)))
    re, im = b.select(zero, z.re, re), b.select(zero, z.im, im)
    return b.div(re, divisor), b.div(im, divisor)


def _direction(b: Any, z: ComplexExpr) -> ComplexExpr:
    """1 for the infinite parts of z and 0 for the others, with their signs."""
    part = z.re.dtype
    one, nothing, end = (b.const(v, part) for v in (1, 0, np.inf))

    def of(x: Any) -> Any:
        infinite = b.compare("eq", b.abs(x), end)
        return b.copysign(b.select(infinite, one, nothing), x)

    return ComplexExpr(of(z.re), of(z.im), z.dtype)


def _is_infinite(b: Any, z: ComplexExpr) -> Any:
    end = b.const(np.inf, z.re.dtype)
    return b.or_(*(b.compare("eq", b.abs(x), end) for x in (z.re, z.im)))


def _is_finite(b: Any, z: ComplexExpr) -> Any:
    end = b.const(np.inf, z.re.dtype)
    return b.and_(*(b.compare("lt", b.abs(x), end) for x in (z.re, z.im)))


def _select(b: Any, which: Any, z: ComplexExpr, w: ComplexExpr) -> ComplexExpr:
    parts = b.select(which, z.re, w.re), b.select(which, z.im, w.im)
    return ComplexExpr(*parts, z.dtype)


def abs_(b: Any, z: ComplexExpr) -> Any:
    """The modulus, without overflow in between."""
    x, y = b.abs(z.re), b.abs(z.im)
    infinite = b.const(np.inf, x.dtype)
    any_infinite = b.or_(b.compare("eq", x, infinite), b.compare("eq", y, infinite))
    if x.dtype == FLOAT64:
        large, small = b.max(x, y), b.min(x, y)
        ratio = b.div(small, large)
        one = b.const(1, FLOAT64)
        modulus = b.mul(large, b.sqrt(b.muladd(ratio, ratio, one)))
        nothing = b.compare("eq", large, b.const(0, FLOAT64))
        modulus = b.select(nothing, large, modulus)
    else:
        modulus = b.convert(b.sqrt(_norm64(b, z)), x.dtype)
    return b.select(any_infinite, infinite, modulus)


def sign(b: Any, z: ComplexExpr) -> ComplexExpr:
    """z / |z|, 0 of 0, and of infinities the direction of the infinite parts."""
    defined = b.and_(b.compare("eq", z.re, z.re), b.compare("eq", z.im, z.im))
    z = _select(b, b.and_(_is_infinite(b, z), defined), _direction(b, z), z)
    z = scale(b, z, _moderating(b, z, z))
    modulus = abs_(b, z)
    zero = is_zero(b, z)
    divisor = b.select(zero, b.const(1, modulus.dtype), modulus)
    return ComplexExpr(b.div(z.re, divisor), b.div(z.im, divisor), z.dtype)


def compare(b: Any, direction: str, z: ComplexExpr, w: ComplexExpr) -> Any:
    """Equality of both parts; order is by the real part, then the imaginary one."""
    if direction == "eq":
        return b.and_(b.compare("eq", z.re, w.re), b.compare("eq", z.im, w.im))
    if direction == "ne":
        return b.or_(b.compare("ne", z.re, w.re), b.compare("ne", z.im, w.im))
    same = b.compare("eq", z.re, w.re)
    strict = b.compare(direction[0] + "t", z.re, w.re)
    return b.or_(strict, b.and_(same, b.compare(direction, z.im, w.im)))


def extremum(b: Any, name: str, z: ComplexExpr, w: ComplexExpr) -> ComplexExpr:
    """The larger or smaller in lexicographic order; a NaN in `z` or `w` wins."""
    first = compare(b, "gt" if name == "max" else "lt", z, w)
    is_nan = b.or_(b.compare("ne", z.re, z.re), b.compare("ne", z.im, z.im))
    result: ComplexExpr = b.select(b.or_(first, is_nan), z, w)
    return result


def log(b: Any, z: ComplexExpr) -> ComplexExpr:
    return ComplexExpr(_log_abs(b, z), b.math("atan2", z.im, z.re), z.dtype)


def log1p(b: Any, z: ComplexExpr) -> ComplexExpr:
    part = z.re.dtype
    whole = log(b, ComplexExpr(b.add(z.re, b.const(1, part)), z.im, z.dtype))
    # |1 + z|**2 - 1, which does not cancel near 0.
    more = b.add(z.re, b.const(2, part))
    excess = sum_of_products(b, z.re, more, z.im, z.im)
    near = b.compare("lt", b.abs(excess), b.const(0.5, part))
    small = b.mul(b.const(0.5, part), b.math("log1p", excess))
    return ComplexExpr(b.select(near, small, whole.re), whole.im, z.dtype)


def sqrt(b: Any, z: ComplexExpr) -> ComplexExpr:
    large = _half_sum_root(b, z)
    zero = is_zero(b, z)
    divisor = b.select(zero, b.const(1, large.dtype), b.add(large, large))
    small = b.div(z.im, divisor)
    right = b.compare("ge", z.re, b.const(0, z.re.dtype))
    re = b.select(right, large, b.abs(small))
    im = b.select(right, small, b.copysign(large, z.im))
    infinity = b.const(np.inf, z.im.dtype)
    infinite = b.compare("eq", b.abs(z.im), infinity)
    re = b.select(infinite, infinity, re)
    return ComplexExpr(re, b.select(b.or_(zero, infinite), z.im, im), z.dtype)


def _half_sum_root(b: Any, z: ComplexExpr) -> Any:
    """sqrt((|z| + |re z|) / 2), without overflow or underflow in between."""
    part, half = z.re.dtype, b.const(0.5, FLOAT64)
    if part != FLOAT64:
        size = b.abs(b.convert(z.re, FLOAT64))
        sum_ = b.add(b.sqrt(_norm64(b, z)), size)
        tiny = b.compare("lt", sum_, b.const(2.0**-100, FLOAT64))
        up = b.select(tiny, b.const(2.0**101, FLOAT64), b.const(2.0**-3, FLOAT64))
        down = b.select(tiny, b.const(2.0**-51, part), b.const(2, part))
        root = b.mul(down, b.sqrt(b.convert(b.mul(sum_, up), part)))
        infinite = b.compare("eq", b.abs(z.re), b.const(np.inf, part))
        return b.select(infinite, b.abs(z.re), root)
    size = b.max(b.abs(z.re), b.abs(z.im))
    one = b.const(1, FLOAT64)
    huge = b.compare("gt", size, b.const(2.0**1000, FLOAT64))
    tiny = b.compare("lt", size, b.const(2.0**-1000, FLOAT64))
    up = b.select(tiny, b.const(2.0**108, FLOAT64), one)
    up = b.select(huge, b.const(2.0**-4, FLOAT64), up)
    down = b.select(tiny, b.const(2.0**-54, FLOAT64), one)
    down = b.select(huge, b.const(4, FLOAT64), down)
    scaled = scale(b, z, up)
    sum_ = b.add(abs_(b, scaled), b.abs(scaled.re))
    return b.mul(down, b.sqrt(b.mul(half, sum_)))


def rsqrt(b: Any, z: ComplexExpr) -> ComplexExpr:
    """1 / sqrt(z), which is 0 of infinities."""
    part = z.re.dtype
    result = div(b, b.const(1, z.dtype), sqrt(b, z))
    zero = b.const(0, part)
    infinite = _is_infinite(b, z)
    im = b.select(infinite, b.copysign(zero, b.neg(z.im)), result.im)
    return ComplexExpr(b.select(infinite, zero, result.re), im, z.dtype)


def _norm64(b: Any, z: ComplexExpr) -> Any:
    x, y = b.convert(z.re, FLOAT64), b.convert(z.im, FLOAT64)
    return sum_of_products(b, x, x, y, y)


def _log_abs(b: Any, z: ComplexExpr) -> Any:
    infinity = b.const(np.inf, z.re.dtype)
    x, y = b.abs(z.re), b.abs(z.im)
    infinite = b.or_(b.compare("eq", x, infinity), b.compare("eq", y, infinity))
    if z.re.dtype != FLOAT64:
        half = b.const(0.5, FLOAT64)
        size = b.mul(half, b.math("log", _norm64(b, z)))
        return b.select(infinite, infinity, b.convert(size, z.re.dtype))
    large, small = b.max(x, y), b.min(x, y)
    zero, one, half = (b.const(v, FLOAT64) for v in (0, 1, 0.5))
    near = b.and_(
        b.compare("gt", large, half), b.compare("lt", large, b.const(2, FLOAT64))
    )
    # |z|**2 is 1 + the excess where it is near 1, large**2 * (1 + ratio**2) elsewhere.
    excess = b.mul(b.sub(large, one), b.add(large, one))
    ratio = b.div(small, large)
    other = b.select(near, small, ratio)
    excess = b.muladd(other, other, b.select(near, excess, zero))
    rest = b.mul(half, b.math("log1p", excess))
    nothing = b.compare("eq", large, zero)
    rest = b.select(nothing, zero, rest)
    size = b.add(b.math("log", b.select(near, one, large)), rest)
    return b.select(infinite, infinity, size)


def is_zero(b: Any, z: ComplexExpr) -> Any:
    return compare(b, "eq", z, b.const(0, z.dtype))


FUNCTIONS: Final[dict[str, Callable[..., ComplexExpr]]] = {
    f.__name__: f for f in (log, log1p, sqrt, rsqrt)
}
