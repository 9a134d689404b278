"""Functions that LLVM and vector math call, for machines without a C library.

`fma` is exact. `sin`, `cos` and `tan` are called for large arguments alone: they need
|x| of at least 2**17. `fmod` is exact. Functions that end in `f` are for float32.
"""

from __future__ import annotations

import itertools
from functools import partial

from curta._base.once import once
from curta.aot.wasm.objects import WasmObject, read_object
from curta.compiler.code_generator import compile_text
from curta.compiler.llvm.builder import Builder, Module
from curta.compiler.llvm.types import F32, F64, I64, Value
from curta.compiler.llvm.vector_math.common import HALF_PI
from curta.compiler.llvm.vector_math.trigonometric import tangent, turned
from curta.compiler.targets import Target
from curta.compiler.triples import named

_MANTISSA = (1 << 52) - 1
_INFINITY = 0x7FF << 52
_NAN = float("nan")
# The digits of 2/pi after the point, 1280 bits, with 64 bits of zero before them.
_ZEROS, _WORDS = 64, 22


@once
def support_object() -> WasmObject:
    """Return the object with all functions, for wasm32."""
    target = named("wasm32")
    return read_object(compile_text(support_text(target), target=target))


def support_text(target: Target) -> str:
    """Return the functions as a module of IR."""
    module = Module.of(target)
    _fma(_function(module, "fma", 3))
    for name, emit in (
        ("sin", partial(turned, quarter_turns=0)),
        ("cos", partial(turned, quarter_turns=1)),
        ("tan", tangent),
    ):
        b = _function(module, name, 1)
        (x,) = b.arguments
        r, low, n = reduced_far(b, x)
        b.ret(b.select(b.is_nan(x - x), b.const(F64, _NAN), emit(b, r, low, n)))
        _single(module, name, 1)
    _fmod(_function(module, "fmod", 2))
    _single(module, "fmod", 2)
    return module.text()


def _function(module: Module, name: str, count: int) -> Builder:
    b = module.function(name, [F64] * count, F64)
    b.flags = ""
    return b


def _single(module: Module, name: str, count: int) -> None:
    """Add the function on float32, which calls the one on float64."""
    b = module.function(f"{name}f", [F32] * count, F32)
    wide = [b.convert(x, "f64") for x in b.arguments]
    b.ret(b.convert(b.call(name, F64, *wide), "f32"))


# ------------------------------------------------------------- numbers of 128 bits

Wide = tuple[Value, Value]  # the high and the low word


def _product(b: Builder, x: Value, y: Value) -> Wide:
    """Return the product of two unsigned words."""
    (x1, x0), (y1, y0) = ((b.lshr(v, 32), v & 0xFFFFFFFF) for v in (x, y))
    middle = b.lshr(x0 * y0, 32) + x1 * y0
    other = (middle & 0xFFFFFFFF) + x0 * y1
    return x1 * y1 + b.lshr(middle, 32) + b.lshr(other, 32), x * y


def _sum(b: Builder, x: Wide, y: Wide) -> Wide:
    low = x[1] + y[1]
    carry = b.convert(b.compare("lt", low, x[1], unsigned=True), "i64", unsigned=True)
    return x[0] + y[0] + carry, low


def _negative(b: Builder, x: Wide) -> Wide:
    borrow = b.convert(b.ne(x[1], 0), "i64", unsigned=True)
    return -x[0] - borrow, -x[1]


def _either(b: Builder, condition: Value, x: Wide, y: Wide) -> Wide:
    return b.select(condition, x[0], y[0]), b.select(condition, x[1], y[1])


def _left(b: Builder, x: Wide, by: Value) -> Wide:
    """Shift left, by less than 128."""
    few = by & 63
    high = b.shl(x[0], few) | b.lshr(b.lshr(x[1], 1), few ^ 63)
    low = b.shl(x[1], few)
    whole = b.compare("ge", by, 64)
    return b.select(whole, low, high), b.select(whole, b.const(I64, 0), low)


def _right(b: Builder, x: Wide, by: Value) -> Wide:
    """Shift right, by at least 0; the lowest bit says whether any set bit is lost."""
    by = b.min(by, 127)
    few = by & 63
    low = b.lshr(x[1], few) | b.shl(b.shl(x[0], 1), few ^ 63)
    high = b.lshr(x[0], few)
    whole = b.compare("ge", by, 64)
    result = b.select(whole, b.const(I64, 0), high), b.select(whole, high, low)
    back = _left(b, result, by)
    lost = b.or_(b.ne(back[0], x[0]), b.ne(back[1], x[1]))
    return result[0], result[1] | b.convert(lost, "i64", unsigned=True)


def _split(b: Builder, x: Value) -> tuple[Value, Value]:
    """Return m and e with |x| = m * 2**e and 2**52 <= m < 2**53; x is not 0."""
    bits = b.bits(x) & (_INFINITY | _MANTISSA)
    field, part = b.lshr(bits, 52), bits & _MANTISSA
    zeros = b.leading_zeros(part) - 11
    small = b.eq(field, 0)
    m = b.select(small, b.shl(part, zeros & 63), part | (1 << 52))
    return m, b.select(small, -zeros - 1074, field - 1075)


# ------------------------------------------------------------------------ x*y + z


def _fma(b: Builder) -> None:
    """Add in 128 bits; the lowest bit says whether bits below it are lost."""
    x, y, z = b.arguments
    middling = _between(b, x, 450) & _between(b, y, 450)
    with b.when(middling & (_between(b, z, 900) | b.eq(z, 0))):
        b.ret(_quick_fma(b, x, y, z))
    plain = x * y + z
    infinite = b.is_nan(x - x) | b.is_nan(y - y) | b.is_nan(z - z)
    b.return_when(infinite | b.eq(x, 0) | b.eq(y, 0), plain)  # which is exact then
    (mx, ex), (my, ey), (mz, ez) = (_split(b, v) for v in (x, y, z))
    negative = b.lshr(b.bits(x) ^ b.bits(y), 63)
    unlike = b.ne(negative, b.lshr(b.bits(z), 63))
    mz = b.select(b.eq(z, 0), b.const(I64, 0), mz)
    ez = b.select(b.eq(z, 0), b.const(I64, -4000), ez)
    # The product is below 2**126, z below 2**125.
    product = _left(b, _product(b, mx, my), b.const(I64, 20))
    ep, ez = ex + ey - 20, ez - 72
    exponent = b.max(ep, ez)
    product = _right(b, product, exponent - ep)
    other = _right(b, (b.shl(mz, 8), b.const(I64, 0)), exponent - ez)
    negated = _negative(b, other)
    total = _sum(b, product, _either(b, unlike, negated, other))
    below = total[0] < 0
    total = _either(b, below, _negative(b, total), total)
    negative = negative ^ b.convert(below, "i64", unsigned=True)
    b.return_when(b.eq(total[0] | total[1], 0), b.const(F64, 0.0))
    b.ret(_rounded(b, total, exponent, negative))


def _between(b: Builder, x: Value, most: int) -> Value:
    """Whether the exponent of x is not far from 0."""
    field = b.lshr(b.bits(x), 52) & 0x7FF
    return b.compare("lt", field - (1023 - most), 2 * most, unsigned=True)


def _two_sum(b: Builder, x: Value, y: Value) -> tuple[Value, Value]:
    """Return x + y rounded, and the rounding error (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _halves(x: Value) -> tuple[Value, Value]:
    """Return two numbers of 26 bits whose sum is x (Veltkamp)."""
    scaled = x * (2.0**27 + 1)
    high = scaled - (scaled - x)
    return high, x - high


def _quick_fma(b: Builder, x: Value, y: Value, z: Value) -> Value:
    """Return x*y + z rounded once, where nothing overflows or is subnormal.

    The product and the sums are exact pairs. The sum of the two errors is rounded to
    odd, so that the last sum rounds as if all were exact (Boldo and Melquiond, 2008).
    """
    (x1, x0), (y1, y0) = _halves(x), _halves(y)
    product = x * y
    error = (((x1 * y1 - product) + x1 * y0) + x0 * y1) + x0 * y0
    high, low = _two_sum(b, z, error)
    top, rest = _two_sum(b, product, high)
    tail, lost = _two_sum(b, low, rest)
    bits = b.bits(tail)
    towards = b.select((bits ^ b.bits(lost)) < 0, b.const(I64, -1), 1)
    is_even = b.eq(bits & 1, 0)
    odd = b.select(is_even & b.ne(lost, 0), bits + towards, bits)
    return top + b.bitcast(odd, F64)


def _rounded(b: Builder, x: Wide, exponent: Value, negative: Value) -> Value:
    """Return the float next to x * 2**exponent; x is not 0."""
    short = b.eq(x[0], 0)
    zeros = b.select(short, b.leading_zeros(x[1]) + 64, b.leading_zeros(x[0]))
    high, low = _left(b, x, zeros)
    field = exponent - zeros + (127 + 1023)  # of the leading bit
    lost = b.max(1 - field, 0)  # bits that a subnormal number does not have
    high, low = _right(b, (high, low), lost)
    sticky = b.convert(b.ne(low, 0), "i64", unsigned=True)
    whole, rest = b.lshr(high, 11), (high & 0x7FF) << 1 | sticky
    up = b.compare("gt", rest + (whole & 1), 0x800)
    result = whole + b.convert(up, "i64", unsigned=True)
    result = result + b.shl(b.max(field, 1) - 1, 52)
    result = b.select(field > 2046, b.const(I64, _INFINITY), b.min(result, _INFINITY))
    return b.bitcast(result | b.shl(negative, 63), F64)


# -------------------------------------------------------------- large arguments


def _pi(bits: int) -> int:
    """Return pi * 2**bits as an integer, by Machin's formula."""

    def arctan_inverse(n: int) -> int:
        total = term = (1 << bits + 32) // n
        for k in range(3, 2 * bits, 2):
            term //= -n * n
            total += term // k
        return total

    return 4 * (4 * arctan_inverse(5) - arctan_inverse(239)) >> 32


def two_over_pi() -> list[int]:
    """Return the words of the table."""
    count = 64 * _WORDS - _ZEROS
    digits = (1 << 2 * count + 1 + 64) // _pi(count + 64)
    return [digits >> 64 * i & ((1 << 64) - 1) for i in reversed(range(_WORDS))]


def reduced_far(b: Builder, x: Value) -> tuple[Value, Value, Value]:
    """Return r, its low part and n modulo 4 with x = n*pi/2 + r, for |x| >= 2**17.

    x is m * 2**k. Digits of 2/pi that make multiples of four are left out (Payne and
    Hanek); 192 bits of the others are multiplied by m.
    """
    bits = b.bits(x)
    field = b.lshr(bits, 52) & 0x7FF
    m = (bits & _MANTISSA) | (1 << 52)
    first = b.max(field - 1013, 0)
    table = b.table(I64, two_over_pi())
    few, at = first & 63, b.offset(table, b.lshr(first, 6), I64)
    words = [b.load(I64, b.offset(at, i, I64)) for i in range(4)]
    w = [
        b.shl(high, few) | b.lshr(b.lshr(low, 1), few ^ 63)
        for high, low in itertools.pairwise(words)
    ]
    zero = b.const(I64, 0)
    upper, low = _product(b, m, w[2])
    top, middle = _sum(b, _product(b, m, w[1]), (zero, upper))
    top = top + m * w[0]
    n = b.lshr(top + (1 << 61), 62)
    part = _left(b, (top, middle), b.const(I64, 2))
    part = part[0], part[1] | b.lshr(low, 62)
    below = part[0] < 0
    r, rest = _quarter_turns(b, _either(b, below, _negative(b, part), part))
    down = b.lshr(b.convert(below, "i64", unsigned=True) << 63 ^ bits, 63)
    sign = b.select(b.eq(down, 0), b.const(F64, 1), -1.0)
    return r * sign, rest * sign, b.select(bits < 0, -n, n)


def _quarter_turns(b: Builder, x: Wide) -> tuple[Value, Value]:
    """Return x * 2**-128 * pi/2 as a sum; x is less than 2**127."""
    zeros = b.min(b.leading_zeros(x[0]), 63)
    high, low = _left(b, x, zeros)
    scale = b.bitcast(b.shl(1023 - 53 - zeros, 52), F64)
    large = b.convert(b.lshr(high, 11), "f64") * scale
    rest = b.shl(high & 0x7FF, 52) | b.lshr(low, 12)
    small = b.convert(rest, "f64") * (scale * 2.0**-63)
    first, second, _ = HALF_PI["f64"]
    product = large * first
    error = b.fma(large, first, -product) + (large * second + small * first)
    r = product + error
    return r, (product - r) + error


# --------------------------------------------------------------------------- fmod


def _fmod(b: Builder) -> None:
    """Long division, eleven bits at a time."""
    x, y = b.arguments
    wrong = b.is_nan(x - x) | b.is_nan(y) | b.eq(y, 0)
    b.return_when(wrong, b.const(F64, _NAN))
    b.return_when(b.abs(x) < b.abs(y), x)
    (mx, ex), (my, ey) = _split(b, x), _split(b, y)

    def step(carried: list[Value]) -> list[Value]:
        rest, left = carried
        by = b.min(left, 11)
        return [b.urem(b.shl(rest, by), my), left - by]

    start = [b.urem(mx, my), ex - ey]
    rest, _ = b.while_loop(start, lambda carried: carried[1] > 0, step)
    large = b.max(ey, -900)
    powers = [b.bitcast(b.shl(e + 1023, 52), F64) for e in (large, ey - large)]
    b.ret(b.copysign(b.convert(rest, "f64") * powers[0] * powers[1], x))
