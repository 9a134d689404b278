"""Modified Bessel functions, scaled by exp(-|x|), as Chebyshev series in doubles."""

from __future__ import annotations

from collections.abc import Sequence

from curta._base.on_demand import late
from curta.compiler.llvm.types import Value
from curta.compiler.llvm.vector_math.common import exact, through_doubles
from curta.compiler.llvm.vector_math.interface import MathBuilder
from curta.primitives.elementwise.bessel_values import (
    I0_FAR,
    I0_NEAR,
    I1_FAR,
    I1_NEAR,
)

chebyshev: late = late("numpy.polynomial.chebyshev")

_LEAST = 2.0**-32  # smaller coefficients do not show in a float


@through_doubles
def bessel_i0e(b: MathBuilder, x: Value) -> Value:
    """exp(-|x|) I0(x)."""
    return b.convert(_scaled(b, x, I0_NEAR, I0_FAR), x.type.kind)


@through_doubles
def bessel_i1e(b: MathBuilder, x: Value) -> Value:
    """exp(-|x|) I1(x)."""
    scaled = _scaled(b, x, I1_NEAR, I1_FAR)
    wide = b.convert(x, "f64")
    factor = b.select(b.abs(wide) <= 8.0, wide, b.copysign(1.0, wide))
    return b.convert(factor * scaled, x.type.kind)


@exact
def _scaled(
    b: MathBuilder, x: Value, near: Sequence[float], far: Sequence[float]
) -> Value:
    a = b.abs(b.convert(x, "f64"))
    inside, outside = b.min(a, 8.0), b.max(a, 8.0)
    if x.type.kind == "f32":
        share = 1.0 / outside
        small = _powers(b, b.fma(inside, 0.25, -1.0), near)
        large = _powers(b, b.fma(share, 16.0, -1.0), far) * b.sqrt(share)
    else:
        small = _chebyshev(b, b.fma(inside, 0.25, -1.0), near)
        large = _chebyshev(b, 16.0 / outside - 1.0, far) / b.sqrt(outside)
    return b.select(a <= 8.0, small, large)


def _powers(b: MathBuilder, x: Value, coefficients: Sequence[float]) -> Value:
    """The sum of c_k T_k(x) in doubles, as exact as a float shows.

    By powers of x, in half the operations of the recurrence: the digits that these
    lose are beyond those of a float.
    """
    kept = [c for c in coefficients if abs(c) >= _LEAST]
    return b.horner(x, [float(c) for c in chebyshev.cheb2poly(kept)[::-1]])


def _chebyshev(b: MathBuilder, x: Value, coefficients: Sequence[float]) -> Value:
    """The sum of c_k T_k(x).

    C. W. Clenshaw, A note on the summation of Chebyshev series (1955).
    """
    kept = list(coefficients)
    twice = x + x
    current, before = b.const(x.type, 0), b.const(x.type, 0)
    for c in reversed(kept[1:]):
        current, before = b.fma(twice, current, c - before), current
    return b.fma(x, current, kept[0] - before)
