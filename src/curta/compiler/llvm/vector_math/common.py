"""Common code of the families of vector math.

A function of this package takes the builder and values, all `f32` or all `f64` with
any number of lanes, and gives a value of the same type. Twice the lanes of a register
is a good choice: LLVM then alternates between two registers, which hides the latency of
long chains. Wider code stays correct, and every lane's result depends on that lane
alone, so it is the same in a full vector, in a masked tail and in a scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from itertools import zip_longest
from typing import Any, Concatenate, ParamSpec

from curta.compiler.llvm.types import Type, Value
from curta.compiler.llvm.vector_math.interface import MathBuilder

P = ParamSpec("P")
Rule = Callable[Concatenate[MathBuilder, P], Value]

_LONG = 8  # coefficients of a polynomial that is split

INF = float("inf")
NAN = float("nan")

MANTISSA = {"f32": 23, "f64": 52}
BIAS = {"f32": 127, "f64": 1023}
SMALLEST_NORMAL = {"f32": 2.0**-126, "f64": 2.0**-1022}
# Adding this to a small float leaves its nearest integer in the low bits of the sum.
_SHIFTER = {"f32": 1.5 * 2.0**23, "f64": 1.5 * 2.0**52}
_SHIFTER_BITS = {"f32": 0x4B400000, "f64": 0x4338000000000000}

LN2_HIGH = {"f32": 0.693147182464599609375, "f64": 0.693147180559945309417}
LN2_LOW = {"f32": -1.904654323148236017e-9, "f64": 2.3190468138462995584e-17}
PI = 3.14159265358979323846
# pi/2 in three parts, each rounded to the working precision.
HALF_PI = {
    "f32": (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    "f64": (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}


def exact(rule: Rule[P]) -> Rule[P]:
    """Emit the operations of a rule as written: no product fuses with a sum.

    A rule requests fusion with `fma`. Every other operation rounds as its error
    analysis assumes, in any context. A builder that has a function of this name of its
    own takes that.
    """
    name = rule.__name__

    @wraps(rule)
    def emit(b: MathBuilder, /, *args: P.args, **kwargs: P.kwargs) -> Value:
        if name in b.own:
            return b.own[name](*args, **kwargs)
        before, b.flags = b.flags, ""
        try:
            return rule(b, *args, **kwargs)
        finally:
            b.flags = before

    return emit


def polynomial(b: MathBuilder, x: Value, table: dict[str, tuple[float, ...]]) -> Value:
    """The polynomial of a table, by its even and its odd powers where it is long.

    A step of Horner's rule waits for the one before, and a processor has room for a
    few chains at a time: two chains of half the length take less time than one.
    """
    coefficients = table[x.type.kind]
    if len(coefficients) < _LONG:
        return b.horner(x, coefficients)
    square = x * x
    odd = b.horner(square, coefficients[-2::-2][::-1])
    return b.fma(odd, x, b.horner(square, coefficients[-1::-2][::-1]))


def nearest_multiple(b: MathBuilder, x: Value, scale: float) -> tuple[Value, Value]:
    """The integer nearest to x * scale, as a float and as an integer of its width.

    Holds for |x * scale| < 2**22 (f32) or 2**51 (f64).
    """
    if "nearest_multiple" in b.own:
        result: tuple[Value, Value] = b.own["nearest_multiple"](x, scale)
        return result
    n, low = nearest_row(b, x, scale)
    return n, low - _SHIFTER_BITS[x.type.kind]


def nearest_row(b: MathBuilder, x: Value, scale: float) -> tuple[Value, Value]:
    """The integer nearest to x * scale, as a float and in an integer's low bits."""
    shifter = _SHIFTER[x.type.kind]
    shifted = b.fma(x, scale, shifter)
    return shifted - shifter, b.bits(shifted)


def nearest_power(b: MathBuilder, x: Value, scale: float) -> tuple[Value, Value]:
    """The integer n nearest to x * scale, as a float, and 2**n.

    Holds where 2**n is a normal number.
    """
    if "nearest_power" in b.own:
        result: tuple[Value, Value] = b.own["nearest_power"](x, scale)
        return result
    kind = x.type.kind
    shifter = _SHIFTER[kind] + BIAS[kind]
    shifted = b.fma(x, scale, shifter)
    power = b.bitcast(b.bits(shifted) << MANTISSA[kind], x.type)
    return shifted - shifter, power


def power_of_two(b: MathBuilder, n: Value, kind: str) -> Value:
    """2**n for an integer vector n in the range of normal exponents."""
    return b.bitcast((n + BIAS[kind]) << MANTISSA[kind], n.type.with_kind(kind))


def clamp(b: MathBuilder, x: Value, low: float, high: float) -> Value:
    """x between two bounds; NaN stays NaN."""
    x = b.select(x < low, low, x)
    return b.select(x > high, high, x)


@exact
def square_error(b: MathBuilder, x: Value, square: Value) -> Value:
    """x * x - square, exactly, where square is the rounded product."""
    return b.fma(x, x, -square)


def by_parts(
    b: Any, lanes: int, function: Callable[..., Value], *values: Value
) -> Value:
    """The results of a function of fixed lanes for vectors of any length.

    Where these are no multiple of that, the last part has their last lane again.
    """
    count = values[0].lanes
    parts = []
    for start in range(0, count, lanes):
        chosen = [min(start + i, count - 1) for i in range(lanes)]
        parts.append(function(*(_lanes(b, x, chosen) for x in values)))
    whole = _joined(b, parts)
    return whole if whole.lanes == count else _lanes(b, whole, range(count))


def through_doubles(rule: Rule[P]) -> Rule[P]:
    """Give a rule two registers of singles at a time, which are four of doubles."""

    @wraps(rule)
    def emit(b: Any, /, *args: P.args, **kwargs: P.kwargs) -> Value:
        values = [x for x in args if isinstance(x, Value)]
        if not b.vector_bytes or values[0].type.kind == "f64":
            return rule(b, *args, **kwargs)
        lanes = 2 * b.vector_bytes // values[0].type.size
        if values[0].lanes <= lanes:
            return rule(b, *args, **kwargs)
        of_part: Callable[..., Value] = partial(rule, b)
        return by_parts(b, lanes, of_part, *values)

    return emit


def _lanes(b: Any, x: Value, chosen: Sequence[int]) -> Value:
    result: Value = (
        b.splat(x, len(chosen)) if x.lanes == 1 else b.shuffle(x, None, chosen)
    )
    return result


def _joined(b: Any, parts: Sequence[Value]) -> Value:
    """The lanes of vectors, one after the other, and maybe those of the last again."""
    if len(parts) == 1:
        return parts[0]
    pairs = zip_longest(parts[::2], parts[1::2], fillvalue=parts[-1])
    both = [b.shuffle(x, y, range(2 * x.lanes)) for x, y in pairs]
    return _joined(b, both)


def sign_bits(b: MathBuilder, x: Value) -> Value:
    """The sign bit alone, as an integer."""
    return b.bits(x) & sign_mask(x.type)


def sign_mask(type_: Type) -> int:
    return 1 << (type_.bits - 1)


def is_negative(b: MathBuilder, x: Value) -> Value:
    """Whether the sign bit is set (so also for -0.0)."""
    return b.bits(x) < 0


def replaced_lanes(
    b: Any, result: Value, wrong: Value, name: str, *arguments: Value
) -> Value:
    """`result`, where `wrong` holds replaced by what the C library's function gives.

    For arguments so rare that they may be slow: the library is called, lane by lane,
    only if the mask holds somewhere. `name` is that of the function on doubles.
    """
    type_ = result.type
    name = name if type_.kind == "f64" else name + "f"

    def call_library() -> list[Value]:
        if type_.lanes == 1:
            return [b.select(wrong, b.call(name, type_, *arguments), result)]
        one, size = type_.with_lanes(1), type_.lanes * type_.size
        slots = [b.scratch(size) for _ in arguments]
        for slot, argument in zip(slots, arguments, strict=True):
            b.store(argument, slot)
        with b.loop(0, type_.lanes) as loop:
            at = [b.offset(slot, loop.index, one) for slot in slots]
            b.store(b.call(name, one, *(b.load(one, p) for p in at)), at[0])
        return [b.select(wrong, b.load(type_, slots[0]), result)]

    return b.if_(b.any_lane(wrong), call_library, lambda: [result])[0]
