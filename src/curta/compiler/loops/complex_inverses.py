"""Inverse trigonometric and hyperbolic functions of complex scalar expressions.

The formulas and the sides of the branch cuts are those of Kahan, "Branch cuts for
complex elementary functions" (1987). All are computed in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import numpy as np

from curta.compiler.loops import complexes
from curta.compiler.loops.complexes import FLOAT64, ComplexExpr

_WIDE = np.dtype("complex128")
_LARGE = 1e150  # whose square is far from overflow

Rule = Callable[..., ComplexExpr]


def _in_doubles(rule: Rule) -> Rule:
    @wraps(rule)
    def wide(b: Any, *args: ComplexExpr) -> ComplexExpr:
        inverse = rule(b, *[b.convert(z, _WIDE) for z in args])
        result: ComplexExpr = b.convert(inverse, args[0].dtype)
        return result

    return wide


def _number(b: Any, x: float) -> Any:
    return b.const(x, FLOAT64)


def _complex(re: Any, im: Any) -> ComplexExpr:
    return ComplexExpr(re, im, _WIDE)


def _is_infinite(b: Any, z: ComplexExpr) -> Any:
    infinite = _number(b, np.inf)
    return b.or_(
        b.compare("eq", b.abs(z.re), infinite), b.compare("eq", b.abs(z.im), infinite)
    )


def _roots(b: Any, z: ComplexExpr) -> tuple[ComplexExpr, ComplexExpr]:
    """The square roots of 1 - z and 1 + z."""
    one = _number(b, 1)
    below = _complex(b.sub(one, z.re), b.neg(z.im))
    above = _complex(b.add(one, z.re), z.im)
    return complexes.sqrt(b, below), complexes.sqrt(b, above)


def _real_product(b: Any, z: ComplexExpr, w: ComplexExpr) -> Any:
    return complexes.difference(b, z.re, w.re, z.im, w.im)


def _conjugate_product(b: Any, z: ComplexExpr, w: ComplexExpr) -> Any:
    """The imaginary part of conj(z) w."""
    return complexes.difference(b, z.re, w.im, z.im, w.re)


def _is_nan(b: Any, x: Any) -> Any:
    return b.compare("ne", x, x)


def _beside_zero(b: Any, z: ComplexExpr) -> Any:
    """Whether z is 0 + NaN i, some of whose functions have a part that is known."""
    return b.and_(b.compare("eq", z.re, _number(b, 0)), _is_nan(b, z.im))


def _far(b: Any, z: ComplexExpr) -> tuple[Any, Any]:
    """Whether z is so large that 1 - z is -z; and log(2 |z|), without overflow."""
    large, quarter = _number(b, _LARGE), _number(b, 0.25)
    far = b.or_(*(b.compare("gt", b.abs(x), large) for x in (z.re, z.im)))
    size = complexes.abs_(b, _complex(b.mul(z.re, quarter), b.mul(z.im, quarter)))
    return far, b.add(b.math("log", size), _number(b, np.log(8)))


@_in_doubles
def asin(b: Any, z: ComplexExpr) -> ComplexExpr:
    below, above = _roots(b, z)
    far, log = _far(b, z)
    re = b.math("atan2", z.re, _real_product(b, below, above))
    re = b.select(_beside_zero(b, z), z.re, re)
    im = b.math("asinh", _conjugate_product(b, below, above))
    re = b.select(far, b.math("atan2", z.re, b.abs(z.im)), re)
    im = b.select(far, b.copysign(log, z.im), im)
    return _complex(re, im)


@_in_doubles
def acos(b: Any, z: ComplexExpr) -> ComplexExpr:
    below, above = _roots(b, z)
    far, log = _far(b, z)
    re = b.mul(_number(b, 2), b.math("atan2", below.re, above.re))
    re = b.select(_beside_zero(b, z), _number(b, np.pi / 2), re)
    im = b.math("asinh", _conjugate_product(b, above, below))
    re = b.select(far, b.math("atan2", b.abs(z.im), z.re), re)
    im = b.select(far, b.copysign(log, b.neg(z.im)), im)
    return _complex(re, im)


@_in_doubles
def acosh(b: Any, z: ComplexExpr) -> ComplexExpr:
    one = _number(b, 1)
    below = complexes.sqrt(b, _complex(b.sub(z.re, one), z.im))
    above = complexes.sqrt(b, _complex(b.add(z.re, one), z.im))
    far, log = _far(b, z)
    real = complexes.sum_of_products(b, below.re, above.re, below.im, above.im)
    re = b.select(far, log, b.math("asinh", real))
    im = b.mul(_number(b, 2), b.math("atan2", below.im, above.re))
    im = b.select(_beside_zero(b, z), _number(b, np.pi / 2), im)
    im = b.select(far, b.math("atan2", z.im, z.re), im)
    return _complex(re, im)


def asinh(b: Any, z: ComplexExpr) -> ComplexExpr:
    result = asin(b, ComplexExpr(b.neg(z.im), z.re, z.dtype))
    return ComplexExpr(result.im, b.neg(result.re), z.dtype)


@_in_doubles
def atanh(b: Any, z: ComplexExpr) -> ComplexExpr:
    one, two, four = (_number(b, n) for n in (1, 2, 4))
    x, y = b.abs(z.re), b.mul(z.im, b.copysign(one, z.re))
    away, square = b.sub(one, x), b.product(y, y)
    distance = b.muladd(away, away, square)
    re = b.mul(_number(b, 0.25), b.math("log1p", b.div(b.mul(four, x), distance)))
    # On the line x = 1 the distance to the pole may underflow.
    near = b.product(_number(b, 0.25), b.math("log", b.add(four, square)))
    near = b.muladd(_number(b, -0.5), b.math("log", b.abs(y)), near)
    tiny = b.compare("lt", b.abs(y), _number(b, 1 / _LARGE))
    re = b.select(b.and_(b.compare("eq", x, one), tiny), near, re)
    inner = b.muladd(away, b.add(one, x), b.neg(square))
    im = b.mul(_number(b, 0.5), b.math("atan2", b.mul(two, y), inner))
    large = _number(b, _LARGE)
    far = b.or_(b.compare("gt", x, large), b.compare("gt", b.abs(y), large))
    inverse = complexes.div(b, _complex(one, _number(b, 0)), _complex(x, y)).re
    inverse = b.select(_is_infinite(b, z), _number(b, 0), inverse)
    re = b.select(far, inverse, re)
    im = b.select(far, b.copysign(_number(b, np.pi / 2), y), im)
    re, im = _atanh_of_nan(b, x, y, re, im)
    return _complex(b.copysign(re, z.re), b.mul(im, b.copysign(one, z.re)))


def _atanh_of_nan(b: Any, x: Any, y: Any, re: Any, im: Any) -> tuple[Any, Any]:
    """The parts, and those of NaN: 0 + NaN i of 0 and infinity + NaN i (C99, G.6)."""
    zero, nan, end = (_number(b, v) for v in (0, np.nan, np.inf))
    known = b.or_(b.compare("eq", x, zero), b.compare("eq", x, end))
    re = b.select(_is_nan(b, y), b.select(known, zero, nan), re)
    im = b.select(_is_nan(b, y), nan, im)
    far = b.compare("eq", b.abs(y), end)
    lost = b.and_(_is_nan(b, x), b.compare("lt", b.abs(y), end))
    re = b.select(_is_nan(b, x), b.select(far, zero, nan), re)
    return re, b.select(lost, nan, im)


def atan(b: Any, z: ComplexExpr) -> ComplexExpr:
    result = atanh(b, ComplexExpr(b.neg(z.im), z.re, z.dtype))
    return ComplexExpr(result.im, b.neg(result.re), z.dtype)


def atan2(b: Any, y: ComplexExpr, x: ComplexExpr) -> ComplexExpr:
    """-i log((x + i y) / sqrt(x**2 + y**2))."""
    rotated = ComplexExpr(b.sub(x.re, y.im), b.add(x.im, y.re), x.dtype)
    squares = complexes.add(b, complexes.mul(b, x, x), complexes.mul(b, y, y))
    angle = complexes.log(b, complexes.div(b, rotated, complexes.sqrt(b, squares)))
    return ComplexExpr(angle.im, b.neg(angle.re), x.dtype)


FUNCTIONS: Final[dict[str, Rule]] = {
    f.__name__: f for f in (asin, acos, atan, atan2, asinh, acosh, atanh)
}
