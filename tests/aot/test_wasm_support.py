"""Functions that WebAssembly does not have: run here, against exact arithmetic."""

import ctypes
import math
import random
import struct
from fractions import Fraction

import mpmath
import pytest

from curta.aot.wasm.support import support_text, two_over_pi
from curta.compiler.code_generator import compile_text
from curta.compiler.host_target import host
from curta.compiler.machine_code.link import load

OPERANDS = {"fma": 3, "sin": 1, "cos": 1, "tan": 1, "fmod": 2}
SPECIAL = [0.0, -0.0, 1.0, -1.5, 5e-324, -5e-324, 2.2250738585072014e-308]
SPECIAL += [1.7976931348623157e308, math.inf, -math.inf, math.nan]


@pytest.fixture(scope="module")
def functions():
    names = [n + end for n in OPERANDS for end in ("", "f") if n + end != "fmaf"]
    code = load(compile_text(support_text(host()), verify=True), names)
    made = {}
    for name in names:
        single = name != "fma" and name not in OPERANDS
        type_ = ctypes.c_float if single else ctypes.c_double
        count = OPERANDS[name[:-1] if single else name]
        made[name] = ctypes.CFUNCTYPE(type_, *[type_] * count)(code.address(name))
    yield made
    del code


def numbers(rng):
    """Floats of all kinds: special, of random bits, and near 1."""
    kind = rng.random()
    if kind < 0.1:
        return rng.choice(SPECIAL)
    if kind < 0.4:
        return struct.unpack("<d", struct.pack("<Q", rng.getrandbits(64)))[0]
    return math.ldexp(
        rng.choice([-1, 1]) * (rng.getrandbits(53) | 1), rng.randint(-99, 9)
    )


def same(a, b):
    return struct.pack("<d", a) == struct.pack("<d", b) or (a != a and b != b)


def rounded_sum(x, y, z):
    if not all(map(math.isfinite, (x, y, z))) or x == 0 or y == 0:
        return x * y + z
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def test_fma_rounds_once(functions):
    rng = random.Random(1)
    for _ in range(4000):
        x, y = numbers(rng), numbers(rng)
        near = -x * y * (1 + rng.choice([0, 1e-16, 2e-16, 1e-10]))
        z = rng.choice([near, numbers(rng)])
        assert same(functions["fma"](x, y, z), rounded_sum(x, y, z)), (x, y, z)


def test_fmod_is_exact(functions):
    rng = random.Random(2)
    for _ in range(2000):
        x, y = numbers(rng), numbers(rng)
        try:
            wanted = math.fmod(x, y)
        except ValueError:
            wanted = math.nan
        assert same(functions["fmod"](x, y), wanted), (x, y)
    assert functions["fmodf"](1e30, 3.5) == math.fmod(
        struct.unpack("f", struct.pack("f", 1e30))[0], 3.5
    )


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_functions_of_large_angles(functions, name):
    rng = random.Random(3)
    hardest = 6381956970095103 * 2.0**797  # next to a multiple of pi/2
    with mpmath.workprec(1400):
        for i in range(150):
            x = (
                hardest
                if i == 0
                else math.ldexp(rng.random() + 1, rng.randint(17, 1022))
            )
            x *= rng.choice([-1, 1])
            wanted = getattr(mpmath, name)(mpmath.mpf(x))
            error = abs(functions[name](x) - wanted) / math.ulp(float(wanted))
            assert error < 1.2, x
            single = ctypes.c_float(
                math.ldexp(rng.random() + 1, rng.randint(17, 126))
            ).value
            wanted = getattr(mpmath, name)(mpmath.mpf(single))
            got = functions[f"{name}f"](single)
            assert abs(got - wanted) < 2.0**-23.9 * abs(wanted), single
    assert math.isnan(functions[name](math.inf)) and math.isnan(
        functions[name](math.nan)
    )


def test_digits_of_two_over_pi():
    words = two_over_pi()
    digits = int("".join(f"{word:064b}" for word in words), 2)
    with mpmath.workprec(3000):
        scale = mpmath.mpf(2) ** (64 * (len(words) - 1))
        assert digits == int(mpmath.floor(2 / mpmath.pi * scale))
