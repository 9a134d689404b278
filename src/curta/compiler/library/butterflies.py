"""Short Fourier transforms in registers: the butterflies of longer ones.

A complex value is a pair of vectors, and every lane is a transform of its own. Lengths
are split into those of Cooley and Tukey (1965) down to 2, 4 and odd primes; of a prime,
sums and differences of opposite points take half of the multiplications.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.types import Value

Complex = tuple[Value, Value]

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
"""The lengths that are not split further."""


def radices(size: int) -> list[int] | None:
    """The lengths of butterflies whose product is `size`; None if there are none.

    Example:
        >>> from curta.compiler.library.butterflies import radices
        >>> radices(1000), radices(1024), radices(74)
        ([8, 5, 5, 5], [8, 8, 4, 4], None)
    """
    result = []
    for prime in PRIMES[1:]:
        while size % prime == 0:
            result.append(prime)
            size //= prime
    if size & (size - 1):
        return None
    bits = size.bit_length() - 1
    eights, rest = divmod(bits, 3)
    if rest == 1 and eights:
        return [8] * (eights - 1) + [4, 4, *result]
    return [8] * eights + [2**rest] * (rest > 0) + result


def butterfly(b: Builder, points: Sequence[Complex], sign: int) -> list[Complex]:
    """The sums over j of `points[j] * exp(sign * 2 pi i j k / r)`, for every k."""
    size = len(points)
    if size == 1:
        return list(points)
    if size == 2:
        x, y = points
        return [_plus(b, x, y), _minus(b, x, y)]
    if size == 4:
        return _four(b, points, sign)
    if size in PRIMES:
        return _prime(b, points, sign)
    first = 4 if size % 4 == 0 else next(p for p in PRIMES if size % p == 0)
    second = size // first
    columns = [butterfly(b, points[j::second], sign) for j in range(second)]
    result: list[Complex] = [points[0]] * size
    for k in range(first):
        row = [twiddled(b, columns[j][k], sign * j * k, size) for j in range(second)]
        result[k::first] = butterfly(b, row, sign)
    return result


def product(b: Builder, x: Complex, y: Complex) -> Complex:
    """The product of complex values."""
    real = b.muladd(x[0], y[0], b.neg(b.mul(x[1], y[1])))
    return real, b.muladd(x[0], y[1], b.mul(x[1], y[0]))


def twiddled(b: Builder, x: Complex, step: int, size: int) -> Complex:
    """`x * exp(2 pi i step / size)`."""
    quarter, rest = divmod(4 * step, size)
    for _ in range(quarter % 4):
        x = b.neg(x[1]), x[0]
    if not rest:
        return x
    root = cmath.exp(2j * math.pi * rest / (4 * size))
    if 2 * rest == size:
        c = root.real
        return b.mul(b.sub(*x), c), b.mul(b.add(*x), c)
    wide = x[0].type
    return product(b, x, (b.const(wide, root.real), b.const(wide, root.imag)))


def _four(b: Builder, points: Sequence[Complex], sign: int) -> list[Complex]:
    w, x, y, z = points
    even, odd = _plus(b, w, y), _plus(b, x, z)
    low, high = _minus(b, w, y), _minus(b, x, z)
    return [
        _plus(b, even, odd),
        _plus_turned(b, low, high, sign),
        _minus(b, even, odd),
        _plus_turned(b, low, high, -sign),
    ]


def _prime(b: Builder, points: Sequence[Complex], sign: int) -> list[Complex]:
    size = len(points)
    first, half = points[0], size // 2
    pairs = [(points[j], points[size - j]) for j in range(1, half + 1)]
    sums = [_plus(b, x, y) for x, y in pairs]
    differences = [_minus(b, x, y) for x, y in pairs]
    total = first
    for x in sums:
        total = _plus(b, total, x)
    result: list[Complex] = [total] * size
    for k in range(1, half + 1):
        angles = [2 * math.pi * (j * k % size) / size for j in range(1, half + 1)]
        even = _combined(b, sums, [math.cos(a) for a in angles], first)
        odd = _combined(b, differences, [math.sin(a) for a in angles], None)
        result[k] = _plus_turned(b, even, odd, sign)
        result[size - k] = _plus_turned(b, even, odd, -sign)
    return result


def _combined(
    b: Builder, points: Sequence[Complex], factors: Sequence[float],
    first: Complex | None,
) -> Complex:  # fmt: skip
    """The sum of the points times real factors, added to the first one."""
    parts = []
    for part in range(2):
        pairs = list(zip((p[part] for p in points), factors, strict=True))
        if first is None:
            x, factor = pairs.pop(0)
            total = b.mul(x, factor)
        else:
            total = first[part]
        for x, factor in pairs:
            total = b.muladd(x, factor, total)
        parts.append(total)
    return parts[0], parts[1]


def _plus(b: Builder, x: Complex, y: Complex) -> Complex:
    return b.add(x[0], y[0]), b.add(x[1], y[1])


def _minus(b: Builder, x: Complex, y: Complex) -> Complex:
    return b.sub(x[0], y[0]), b.sub(x[1], y[1])


def _plus_turned(b: Builder, x: Complex, y: Complex, sign: int) -> Complex:
    """x + sign * i * y."""
    if sign > 0:
        return b.sub(x[0], y[1]), b.add(x[1], y[0])
    return b.add(x[0], y[1]), b.sub(x[1], y[0])
