"""The exponential of complex scalar expressions, and the functions made of it.

Special values are those of C99, annex G: a zero stays one beside an infinity or a NaN,
and a part that is infinite for every angle is so for an infinite one. No intermediate
result overflows where the result does not, and no two terms of one sign cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from curta.compiler.loops import complexes
from curta.compiler.loops.complexes import ComplexExpr

# Beyond a limit e**x is e**(x - c) * e**c. Each c is short, so that the difference is
# exact, and e**c so near to a float that the product is as good as e**x.
_LIMIT = {"float32": (87.0, 74.765625, 2.9532374948444487e32),
          "float64": (700.0, 673.59375, 3.451824202806829e292)}  # fmt: skip
# tanh is +-1 beyond.
_TANH_END = {"float32": 10.0, "float64": 20.0}


def _scaled(b: Any, x: Any, size: Any) -> tuple[Any, Any]:
    """y and a factor with e**x = factor * e**y where `size` is beyond the limit."""
    limit, step, factor = (b.const(v, x.dtype) for v in _LIMIT[x.dtype.name])
    large = b.compare("gt", size, limit)
    y = b.select(large, b.sub(x, b.copysign(step, x)), x)
    return y, b.select(large, factor, b.const(1, x.dtype))


def _product(b: Any, x: Any, y: Any) -> Any:
    """x * y, and a zero with its sign if either is 0, whatever the other."""
    zero, one = b.const(0, x.dtype), b.const(1, x.dtype)
    signs = b.mul(b.copysign(one, x), b.copysign(one, y))
    nothing = b.or_(b.compare("eq", x, zero), b.compare("eq", y, zero))
    return b.select(nothing, b.copysign(zero, signs), b.mul(x, y))


def _is_finite(b: Any, x: Any) -> Any:
    return b.compare("eq", b.sub(x, x), b.const(0, x.dtype))


def _is_infinite(b: Any, x: Any) -> Any:
    return b.compare("eq", b.abs(x), b.const(np.inf, x.dtype))


def exp(b: Any, z: ComplexExpr) -> ComplexExpr:
    x, factor = _scaled(b, z.re, z.re)
    size, sine = b.math("exp", x), b.math("sin", z.im)
    zero, end = b.const(0, x.dtype), b.const(-np.inf, x.dtype)
    nothing = b.and_(b.compare("eq", x, end), b.not_(_is_finite(b, z.im)))
    sine = b.select(nothing, b.copysign(zero, z.im), sine)
    re = b.mul(size, _cosine(b, z, factor))
    im = b.mul(size, b.mul(sine, factor))
    real = b.compare("eq", z.im, zero)
    return ComplexExpr(re, b.select(real, z.im, im), z.dtype)


def expm1(b: Any, z: ComplexExpr) -> ComplexExpr:
    """exp(z) - 1 = (e**x - 1) cos y - 2 sin(y/2)**2 + i e**x sin y."""
    whole = exp(b, z)
    half = b.math("sin", b.mul(z.im, b.const(0.5, z.im.dtype)))
    near = b.mul(b.math("expm1", z.re), b.math("cos", z.im))
    near = b.sub(near, b.mul(b.const(2, half.dtype), b.mul(half, half)))
    # Elsewhere nothing cancels.
    small = b.compare("lt", b.abs(z.re), b.const(1, z.re.dtype))
    far = b.sub(whole.re, b.const(1, z.re.dtype))
    return ComplexExpr(b.select(small, near, far), whole.im, z.dtype)


def sinh(b: Any, z: ComplexExpr) -> ComplexExpr:
    x, factor = _scaled(b, z.re, b.abs(z.re))
    sine, cosine = b.mul(b.math("sin", z.im), factor), _cosine(b, z, factor)
    re = _product(b, b.math("sinh", x), cosine)
    im = _product(b, b.math("cosh", x), sine)
    return ComplexExpr(re, im, z.dtype)


def cosh(b: Any, z: ComplexExpr) -> ComplexExpr:
    x, factor = _scaled(b, z.re, b.abs(z.re))
    sine, cosine = b.mul(b.math("sin", z.im), factor), _cosine(b, z, factor)
    re = b.mul(b.math("cosh", x), cosine)
    im = _product(b, b.math("sinh", x), sine)
    return ComplexExpr(re, im, z.dtype)


def _cosine(b: Any, z: ComplexExpr, factor: Any) -> Any:
    """cos y, times a factor; 1 for an angle that is not finite, beside an infinity."""
    turning = b.and_(_is_infinite(b, z.re), b.not_(_is_finite(b, z.im)))
    cosine = b.select(turning, b.const(1, factor.dtype), b.math("cos", z.im))
    return b.mul(cosine, factor)


def tanh(b: Any, z: ComplexExpr) -> ComplexExpr:
    """(sinh x cosh x + i sin y cos y) / (sinh x**2 + cos y**2)."""
    part = z.re.dtype
    zero, one = b.const(0, part), b.const(1, part)
    sine, cosine, size = b.math("sin", z.im), b.math("cos", z.im), b.math("sinh", z.re)
    square = b.mul(size, size)
    divisor = b.add(square, b.mul(cosine, cosine))
    re = b.div(b.mul(size, b.sqrt(b.add(one, square))), divisor)
    im = b.div(b.mul(sine, cosine), divisor)
    large = b.compare("gt", b.abs(z.re), b.const(_TANH_END[part.name], part))
    far = b.mul(b.div(sine, size), b.div(cosine, size))
    turns = b.not_(_is_finite(b, z.im))
    turning = b.and_(_is_infinite(b, z.re), turns)
    large = b.and_(large, b.or_(turning, b.not_(turns)))
    far = b.select(turning, b.copysign(zero, z.im), far)
    re = b.select(large, b.copysign(one, z.re), re)
    im = b.select(large, far, im)
    re = b.select(b.compare("eq", z.re, zero), z.re, re)
    im = b.select(b.compare("eq", z.im, zero), z.im, im)
    return ComplexExpr(re, im, z.dtype)


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
    turned = b.mul(two, b.mul(cosine, cosine))
    divisor = b.add(b.mul(m, m), b.mul(b.mul(two, e), turned))
    right = b.sub(b.mul(e, turned), m)
    left = b.mul(e, b.add(turned, m))
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
    """exp(w log z); 0 ** w is 1 if w = 0, 0 if its real part is positive, else NaN."""
    nothing = complexes.is_zero(b, z)
    positive = b.compare("gt", w.re, b.const(0, w.re.dtype))
    broken = b.const(complex(np.nan, np.nan), z.dtype)
    at_zero = b.select(positive, b.const(0, z.dtype), broken)
    at_zero = b.select(complexes.is_zero(b, w), b.const(1, z.dtype), at_zero)
    size = exp(b, complexes.mul(b, w, complexes.log(b, z)))
    result: ComplexExpr = b.select(nothing, at_zero, size)
    return result


def times_i(b: Any, z: ComplexExpr) -> ComplexExpr:
    return ComplexExpr(b.neg(z.im), z.re, z.dtype)


def divided_by_i(b: Any, z: ComplexExpr) -> ComplexExpr:
    return ComplexExpr(z.im, b.neg(z.re), z.dtype)


FUNCTIONS: Final[dict[str, Callable[..., ComplexExpr]]] = {
    f.__name__: f for f in (exp, expm1, sin, cos, tan, sinh, cosh, tanh, logistic)
}
