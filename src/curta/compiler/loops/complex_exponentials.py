"""The exponential of complex scalar expressions, and the functions made of it.

Special values are those of C99, annex G: a zero stays zero next to an infinity or a
NaN, and a part that is infinite for every angle is so for an infinite one. No
intermediate result overflows where the result does not, and no two terms of one sign
cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from curta.compiler.loops import complexes
from curta.compiler.loops.complexes import ComplexExpr

# Beyond a limit e**x is e**(x - c) * e**c, and beyond limit + c the same twice. Each c
# is short, so that the difference is exact, and e**c so near to a float that the
# product is as good as e**x.
_LIMIT = {"float32": (87.0, 74.765625, 2.9532374948444487e32),
          "float64": (700.0, 673.59375, 3.451824202806829e292)}  # fmt: skip
# tanh is +-1 beyond.
_TANH_END = {"float32": 10.0, "float64": 20.0}


def _scaled(b: Any, x: Any, size: Any) -> tuple[Any, Callable[[Any], Any]]:
    """y, and a function that multiplies by e**(x - y); y is x if `size` is small."""
    limit, step, factor = _LIMIT[x.dtype.name]
    far, farther, one, once, twice, power = (
        b.const(v, x.dtype) for v in (limit, limit + step, 1, step, 2 * step, factor)
    )
    large, larger = b.compare("gt", size, far), b.compare("gt", size, farther)
    moved = b.copysign(b.select(larger, twice, once), x)
    first, second = b.select(large, power, one), b.select(larger, power, one)
    y = b.select(large, b.sub(x, moved), x)
    return y, lambda factor: b.mul(b.mul(factor, first), second)


def _is_finite(b: Any, x: Any) -> Any:
    return b.compare("eq", b.sub(x, x), b.const(0, x.dtype))


def _is_infinite(b: Any, x: Any) -> Any:
    return b.compare("eq", b.abs(x), b.const(np.inf, x.dtype))


def exp(b: Any, z: ComplexExpr) -> ComplexExpr:
    x, scaled = _scaled(b, z.re, z.re)
    size, sine = b.math("exp", x), b.math("sin", z.im)
    end, rotates = b.const(-np.inf, x.dtype), b.not_(_is_finite(b, z.im))
    zero = b.and_(b.compare("eq", x, end), rotates)
    sine = b.select(zero, b.copysign(b.const(0, x.dtype), z.im), sine)
    cosine = _cosine(b, z.im, _is_infinite(b, z.re))
    re, im = b.mul(size, scaled(cosine)), b.mul(size, scaled(sine))
    return ComplexExpr(re, _kept_zero(b, z.im, im), z.dtype)


def expm1(b: Any, z: ComplexExpr) -> ComplexExpr:
    """exp(z) - 1 = (e**x - 1) cos y - 2 sin(y/2)**2 + i e**x sin y."""
    whole = exp(b, z)
    half = b.math("sin", b.mul(z.im, b.const(0.5, z.im.dtype)))
    two = b.const(2, half.dtype)
    e, cosine = b.math("expm1", z.re), b.math("cos", z.im)
    near = complexes.difference(b, e, cosine, two, b.product(half, half))
    # Elsewhere nothing cancels.
    small = b.compare("lt", b.abs(z.re), b.const(1, z.re.dtype))
    far = b.sub(whole.re, b.const(1, z.re.dtype))
    return ComplexExpr(b.select(small, near, far), whole.im, z.dtype)


def sinh(b: Any, z: ComplexExpr) -> ComplexExpr:
    x, scaled = _scaled(b, z.re, b.abs(z.re))
    ends = b.or_(_is_infinite(b, z.re), _is_zero(b, z.re))
    re = b.mul(b.math("sinh", x), scaled(_cosine(b, z.im, ends)))
    im = b.mul(b.math("cosh", x), scaled(b.math("sin", z.im)))
    return ComplexExpr(re, _kept_zero(b, z.im, im), z.dtype)


def cosh(b: Any, z: ComplexExpr) -> ComplexExpr:
    x, scaled = _scaled(b, z.re, b.abs(z.re))
    cosine = _cosine(b, z.im, _is_infinite(b, z.re))
    re = b.mul(b.math("cosh", x), scaled(cosine))
    sine = scaled(b.math("sin", z.im))
    im, one = b.mul(b.math("sinh", x), sine), b.const(1, x.dtype)
    signs = b.mul(b.copysign(one, sine), b.copysign(one, z.re))
    zero = b.or_(_is_zero(b, z.re), _is_zero(b, z.im))
    im = b.select(zero, b.copysign(b.const(0, x.dtype), signs), im)
    return ComplexExpr(re, im, z.dtype)


def _is_zero(b: Any, x: Any) -> Any:
    return b.compare("eq", x, b.const(0, x.dtype))


def _kept_zero(b: Any, x: Any, result: Any) -> Any:
    """A zero x instead of the result."""
    return b.select(_is_zero(b, x), x, result)


def _cosine(b: Any, y: Any, ends: Any) -> Any:
    """cos y, and 1 for an angle that is not finite, where `ends` holds."""
    turning = b.and_(ends, b.not_(_is_finite(b, y)))
    return b.select(turning, b.const(1, y.dtype), b.math("cos", y))


def tanh(b: Any, z: ComplexExpr) -> ComplexExpr:
    """(sinh x cosh x + i sin y cos y) / (sinh x**2 + cos y**2).

    Far out it is +-1 + i sin y cos y / sinh x**2, whose divisor might overflow.
    """
    part = z.re.dtype
    one, end = b.const(1, part), b.const(_TANH_END[part.name], part)
    sine, cosine, size = b.math("sin", z.im), b.math("cos", z.im), b.math("sinh", z.re)
    rotates, infinite = b.not_(_is_finite(b, z.im)), _is_infinite(b, z.re)
    far = b.and_(b.compare("gt", b.abs(z.re), end), b.or_(infinite, b.not_(rotates)))
    square = b.product(size, size)
    divisor = b.select(far, size, b.muladd(cosine, cosine, square))
    above = b.mul(size, b.sqrt(b.add(one, square)))
    re = b.div(b.select(far, one, above), divisor)
    im = b.div(b.mul(sine, cosine), divisor)
    im = b.mul(im, b.select(far, re, one))
    re = b.select(far, b.copysign(one, z.re), re)
    flat = b.or_(b.and_(infinite, rotates), _is_zero(b, z.im))
    im = b.select(flat, b.copysign(b.const(0, part), z.im), im)
    return ComplexExpr(_kept_zero(b, z.re, re), im, z.dtype)


def logistic(b: Any, z: ComplexExpr) -> ComplexExpr:
    """1 / (1 + e**-z), through e = e**-|x|, m = e - 1 and half the angle.

    |1 + e**-z|**2 is m**2 + 4 e cos(y/2)**2, for x >= 0.
    """
    part = z.re.dtype
    two = b.const(2, part)
    below = b.neg(b.abs(z.re))
    e, m = b.math("exp", below), b.math("expm1", below)
    half = b.mul(z.im, b.const(0.5, part))
    sine, cosine = b.math("sin", half), b.math("cos", half)
    one_plus_cos = b.mul(two, b.mul(cosine, cosine))
    divisor = complexes.sum_of_products(b, m, m, b.mul(two, e), one_plus_cos)
    right = b.muladd(e, one_plus_cos, b.neg(m))
    left = b.mul(e, b.add(one_plus_cos, m))
    re = b.div(b.select(b.compare("ge", z.re, b.const(0, part)), right, left), divisor)
    im = b.div(b.mul(b.mul(two, e), b.mul(sine, cosine)), divisor)
    infinite, one, zero = _is_infinite(b, z.re), b.const(1, part), b.const(0, part)
    end = b.select(b.compare("ge", z.re, zero), one, zero)
    re = b.select(infinite, end, re)
    im = b.select(infinite, b.copysign(zero, z.im), im)
    return ComplexExpr(re, im, z.dtype)


def sin(b: Any, z: ComplexExpr) -> ComplexExpr:
    return divided_by_i(b, sinh(b, times_i(b, z)))


def cos(b: Any, z: ComplexExpr) -> ComplexExpr:
    return cosh(b, times_i(b, z))


def tan(b: Any, z: ComplexExpr) -> ComplexExpr:
    return divided_by_i(b, tanh(b, times_i(b, z)))


def power(b: Any, z: ComplexExpr, w: ComplexExpr) -> ComplexExpr:
    """exp(w log z); 1 if w = 0; 0 ** w is 0 if w's real part is positive, else NaN.

    A real w scales the parts of the logarithm: infinite ones times 0 would be NaN.
    """
    nothing = complexes.is_zero(b, z)
    positive = b.compare("gt", w.re, b.const(0, w.re.dtype))
    broken = b.const(complex(np.nan, np.nan), z.dtype)
    at_zero = b.select(positive, b.const(0, z.dtype), broken)
    log = complexes.log(b, z)
    product = complexes.mul(b, w, log)
    scaled = complexes.scale(b, log, w.re)
    real = b.compare("eq", w.im, b.const(0, w.im.dtype))
    size = exp(b, _without_angle(b, b.select(real, scaled, product)))
    size = b.select(nothing, at_zero, size)
    result: ComplexExpr = b.select(complexes.is_zero(b, w), b.const(1, z.dtype), size)
    return result


def _without_angle(b: Any, z: ComplexExpr) -> ComplexExpr:
    """z, whose large real part is made infinite if the angle overflows.

    exp(z) is then 0 or infinite.
    """
    part = z.re.dtype
    large = b.compare("gt", b.abs(z.re), b.const(1e3, part))
    lost = b.and_(_is_infinite(b, z.im), large)
    infinite = b.copysign(b.const(np.inf, part), z.re)
    return ComplexExpr(b.select(lost, infinite, z.re), z.im, z.dtype)


def times_i(b: Any, z: ComplexExpr) -> ComplexExpr:
    return ComplexExpr(b.neg(z.im), z.re, z.dtype)


def divided_by_i(b: Any, z: ComplexExpr) -> ComplexExpr:
    return ComplexExpr(z.im, b.neg(z.re), z.dtype)


FUNCTIONS: Final[dict[str, Callable[..., ComplexExpr]]] = {
    f.__name__: f for f in (exp, expm1, sin, cos, tan, sinh, cosh, tanh, logistic)
}
