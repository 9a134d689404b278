"""Integer functions at both ends of every width, against exact integers.

    python -m tests.stress.integers [NAME ...]

Every integer function of `lax` and `numpy` is applied to all pairs of 8-bit and smaller
numbers, and to all pairs of the ends, powers of two and their neighbors of the wider
dtypes. Each runs eagerly, on one array of all pairs, and compiled. The models compute
with exact integers; `_wrapped` reduces their results to the width. Where NumPy has no
answer (division by zero, shifts beyond the width), the model follows XLA: x / 0 = -1, x
% 0 = x, and all bits are shifted out.

Set CURTA_CPU=x86-64-v3 to test the code for processors without AVX-512.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

import curta
import curta.numpy as jnp
from curta import lax
from curta.config import enable_x64

SMALL = ("int2", "uint2", "int4", "uint4")
NARROW = ("int8", "uint8")
WIDE = ("int16", "uint16", "int32", "uint32", "int64", "uint64")

Exact = Any
"""An int64 array for up to 32 bits, an array of Python integers for 64."""


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype of a name, those of ml_dtypes too."""
    return np.dtype(getattr(ml_dtypes, name)) if name in SMALL else np.dtype(name)


def width(dtype: np.dtype[Any]) -> tuple[int, bool]:
    """The number of bits, and whether there is a sign."""
    info = ml_dtypes.iinfo(dtype)
    return info.bits, info.min < 0


def points(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """All numbers of up to 8 bits; of more, the ends, powers of two and neighbors."""
    info = ml_dtypes.iinfo(dtype)
    if info.bits <= 8:
        return np.arange(int(info.min), int(info.max) + 1).astype(dtype)
    powers = [0, 3, 7, 8, 15, 16, 31, 32, 62, 63]
    near = {s * (1 << p) + d for p in powers for s in (1, -1) for d in (-1, 0, 1)}
    near |= {int(info.min) + d for d in range(3)} | {
        int(info.max) - d for d in range(3)
    }
    near |= {5, 7, -5, -7, 10, info.bits, info.bits - 1, info.bits + 1}
    inside = sorted(n for n in near if info.min <= n <= info.max)
    return np.array(inside, dtype=object).astype(dtype)


def exact(x: np.ndarray[Any, Any]) -> Exact:
    """The numbers in a type in which nothing overflows."""
    if x.dtype.itemsize < 8:
        return x.astype(np.int64)
    return np.array([int(n) for n in x.ravel()], dtype=object).reshape(x.shape)


def _each(f: Callable[..., int]) -> Callable[..., Exact]:
    """A model from a function of Python integers."""

    def model(*args: Any) -> Exact:
        arrays = [a for a in args if isinstance(a, np.ndarray)]
        rest = args[len(arrays) :]
        rows = zip(*(a.tolist() for a in arrays), strict=True)
        return np.array([f(*row, *rest) for row in rows], dtype=object)

    return model


def _wrapped(x: Exact, bits: int, signed: bool) -> Exact:
    """The integer of the width that is congruent to x."""
    x = x & ((1 << bits) - 1) if bits < 64 or x.dtype == object else x
    return np.where(x >= 1 << (bits - 1), x - (1 << bits), x) if signed else x


def _div(x: int, y: int, bits: int, signed: bool) -> int:
    return -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def _rem(x: int, y: int, bits: int, signed: bool) -> int:
    return x if y == 0 else abs(x) % abs(y) * (-1 if x < 0 else 1)


def _floor_divide(x: int, y: int, bits: int, signed: bool) -> int:
    if y:
        return x // y
    # The quotient is -1, and one less where the remainder x has another sign than 0.
    return -2 if signed and x != 0 else -1


def _mod(x: int, y: int, bits: int, signed: bool) -> int:
    return x % y if y else 0


def _fmod(x: int, y: int, bits: int, signed: bool) -> int:
    return _rem(x, y, bits, signed) if y else 0


def _power(x: int, y: int, bits: int, signed: bool) -> int:
    if y < 0:
        return {1: 1, -1: 1 if y % 2 == 0 else -1}.get(x, 0)
    return pow(x, y, 1 << bits)


def _unsigned(y: int, bits: int) -> int:
    return y & ((1 << bits) - 1)


def _left(x: int, y: int, bits: int, signed: bool) -> int:
    y = _unsigned(y, bits)
    return x << y if y < bits else 0


def _arithmetic(x: int, y: int, bits: int, signed: bool) -> int:
    signed_x = x if x < 1 << (bits - 1) else x - (1 << bits)
    return signed_x >> min(_unsigned(y, bits), bits - 1)


def _logical(x: int, y: int, bits: int, signed: bool) -> int:
    y = _unsigned(y, bits)
    return _unsigned(x, bits) >> y if y < bits else 0


def _right(x: int, y: int, bits: int, signed: bool) -> int:
    return (_arithmetic if signed else _logical)(x, y, bits, signed)


def _lcm(x: int, y: int, bits: int, signed: bool) -> int:
    return math.lcm(x, y)


def _sign(x: int, bits: int, signed: bool) -> int:
    return (x > 0) - (x < 0)


UNARY: dict[str, tuple[tuple[Any, ...], Callable[..., Any]]] = {
    "abs": ((lax.abs, jnp.abs, jnp.absolute), lambda x, b, s: np.abs(x)),
    "negative": ((lax.neg, jnp.negative), lambda x, b, s: -x),
    "positive": ((jnp.positive, jnp.conj, jnp.real), lambda x, b, s: x),
    "sign": ((lax.sign, jnp.sign), _each(_sign)),
    "invert": ((lax.bitwise_not, jnp.invert, jnp.bitwise_not), lambda x, b, s: ~x),
    "square": ((lax.square, jnp.square), lambda x, b, s: x * x),
    "cube": (
        (lambda x: lax.integer_pow(x, 3), lambda x: x**3),
        lambda x, b, s: _wrapped(x * x, b, s) * x,
    ),
    "population_count": (
        (lax.population_count,),
        _each(lambda x, b, s: _unsigned(x, b).bit_count()),
    ),
    "clz": ((lax.clz,), _each(lambda x, b, s: b - _unsigned(x, b).bit_length())),
}
"""Functions of a number whose results are of its dtype, and the model."""

BINARY: dict[str, tuple[tuple[Any, ...], Callable[..., Any]]] = {
    "add": ((lax.add, jnp.add), lambda x, y, b, s: x + y),
    "subtract": ((lax.sub, jnp.subtract), lambda x, y, b, s: x - y),
    "multiply": ((lax.mul, jnp.multiply), lambda x, y, b, s: x * y),
    "div": ((lax.div,), _each(_div)),
    "rem": ((lax.rem,), _each(_rem)),
    "fmod": ((jnp.fmod,), _each(_fmod)),
    "floor_divide": (
        (jnp.floor_divide, lambda x, y: jnp.divmod(x, y)[0]),
        _each(_floor_divide),
    ),
    "remainder": (
        (jnp.remainder, jnp.mod, lambda x, y: jnp.divmod(x, y)[1]),
        _each(_mod),
    ),
    "power": ((jnp.power, jnp.pow), _each(_power)),
    "maximum": ((lax.max, jnp.maximum, jnp.fmax), lambda x, y, b, s: np.maximum(x, y)),
    "minimum": ((lax.min, jnp.minimum, jnp.fmin), lambda x, y, b, s: np.minimum(x, y)),
    "and": ((lax.bitwise_and, jnp.bitwise_and), lambda x, y, b, s: x & y),
    "or": ((lax.bitwise_or, jnp.bitwise_or), lambda x, y, b, s: x | y),
    "xor": ((lax.bitwise_xor, jnp.bitwise_xor), lambda x, y, b, s: x ^ y),
    "shift_left": (
        (lax.shift_left, jnp.left_shift, jnp.bitwise_left_shift),
        _each(_left),
    ),
    "shift_right_arithmetic": ((lax.shift_right_arithmetic,), _each(_arithmetic)),
    "shift_right_logical": ((lax.shift_right_logical,), _each(_logical)),
    "right_shift": ((jnp.right_shift, jnp.bitwise_right_shift), _each(_right)),
    "gcd": ((jnp.gcd,), _each(lambda x, y, b, s: math.gcd(x, y))),
    "lcm": ((jnp.lcm,), _each(_lcm)),
    "equal": ((lax.eq, jnp.equal), lambda x, y, b, s: x == y),
    "less": ((lax.lt, jnp.less), lambda x, y, b, s: x < y),
    "less_equal": ((lax.le, jnp.less_equal), lambda x, y, b, s: x <= y),
    "logical_xor": ((jnp.logical_xor,), lambda x, y, b, s: (x != 0) ^ (y != 0)),
    "clip": (
        (lambda x, y: jnp.clip(x, y, y), lambda x, y: lax.clamp(y, x, y)),
        lambda x, y, b, s: y,
    ),
    "select": (
        (lambda x, y: jnp.where(x < y, x - y, y - x),),
        lambda x, y, b, s: np.where(x < y, x - y, y - x),
    ),
}
"""Functions of two numbers of a dtype, and the model."""


def pairs(dtype: np.dtype[Any]) -> tuple[np.ndarray[Any, Any], ...]:
    """Two arrays with each pair of points once."""
    x = points(dtype)
    return np.repeat(x, x.size), np.tile(x, x.size)


def failures(
    functions: tuple[Any, ...], model: Callable[..., Any], *args: Any
) -> Iterator[str]:
    """Where functions of integers differ from the model, eagerly and compiled."""
    bits, signed = width(args[0].dtype)
    want = model(*map(exact, args), bits, signed)
    boolean = want.dtype == np.bool_
    if not boolean:
        want = _wrapped(want, bits, signed)
    for place, function in enumerate(functions):
        for kind, f in (("eager", function), ("jit", curta.jit(function))):
            try:
                held = np.asarray(f(*map(jnp.asarray, args)))
            except TypeError as error:
                if "not accept" not in str(error):
                    raise
                continue
            if held.dtype != (np.dtype(bool) if boolean else args[0].dtype):
                yield f"function {place}, {kind}: of {held.dtype}"
                continue
            wrong = np.flatnonzero((held if boolean else exact(held)) != want)
            if wrong.size:
                i = wrong[0]
                given = ", ".join(str(a[i]) for a in args)
                yield (
                    f"function {place}, {kind}: {wrong.size} of {held.size} wrong,"
                    f" ({given}) is {held[i]}, not {want[i]}"
                )


def all_failures(names: tuple[str, ...], only: set[str]) -> Iterator[tuple[str, str]]:
    """(function and dtype, what is wrong) over dtypes; names of `only` if any."""
    with enable_x64(True):
        for dtype in map(dtype_of, names):
            one, two = (points(dtype),), pairs(dtype)
            for table, args in ((UNARY, one), (BINARY, two)):
                for name, (functions, model) in table.items():
                    if not only or name in only:
                        for text in failures(functions, model, *args):
                            yield f"{name} {dtype.name}", text


def main() -> None:
    """Print what is wrong; exit with 1 if anything is."""
    found = 0
    for where, text in all_failures(SMALL + NARROW + WIDE, set(sys.argv[1:])):
        found += 1
        print(f"{where}: {text}", flush=True)
    functions = sum(len(f) for t in (UNARY, BINARY) for f, _ in t.values())
    print(
        f"{functions} functions of {len(SMALL + NARROW + WIDE)} dtypes: {found} wrong"
    )
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
