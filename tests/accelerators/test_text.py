"""Tier A: the text of programs that Curta and JAX lower alike is the same."""

import difflib

import jax
import numpy as np
import pytest

import curta

F32 = np.ones((2, 3), np.float32)
I32 = np.ones((2, 3), np.int32)
U8 = np.ones((2, 3), np.uint8)
BOOL = np.ones((2, 3), bool)
C64 = np.ones((2, 3), np.complex64)
F16 = np.ones((2, 3), np.float16)

UNARY = {
    "neg sign floor ceil abs exp exp2 expm1 log log1p tanh logistic sin cos tan sqrt"
    " rsqrt cbrt is_finite": F32,
    "neg sign abs square bitwise_not clz population_count": I32,
    "sign population_count": U8,
    "neg sign exp exp2 expm1 log log1p tanh logistic tan sqrt rsqrt real imag conj"
    " abs": C64,
    "bitwise_not": BOOL,
    "exp tanh round": F16,
}
BINARY = {
    "add sub mul div rem max min pow atan2 eq ne lt le gt ge": F32,
    "add sub mul div rem max min bitwise_and bitwise_or bitwise_xor shift_left"
    " shift_right_logical shift_right_arithmetic eq lt": I32,
    "add sub mul div max eq lt": U8,
    "add sub mul div pow atan2 eq ne": C64,
    "max min bitwise_and eq lt": BOOL,
}
CALLS = [
    *[(name, (x,)) for names, x in UNARY.items() for name in names.split()],
    *[(name, (x, x)) for names, x in BINARY.items() for name in names.split()],
]


def id_of(call):
    name, args = call
    return f"{name}-{args[0].dtype}"


def texts(program, *args):
    """The program of a function of a package like `jax`, of both."""
    found = []
    for package in curta, jax:

        def fun(*xs, package=package):
            return program(package, *xs)

        with package.enable_x64(False):
            found.append(package.jit(fun).lower(*args).as_text())
    return found


def same(program, *args):
    ours, theirs = texts(program, *args)
    if ours != theirs:
        lines = difflib.unified_diff(
            theirs.splitlines(), ours.splitlines(), "JAX", "Curta", lineterm="", n=2
        )
        pytest.fail("\n".join(lines), pytrace=False)


@pytest.mark.parametrize("call", CALLS, ids=id_of)
def test_lax_functions(call):
    name, args = call
    same(lambda p, *xs: getattr(p.lax, name)(*xs), *args)


@pytest.mark.parametrize("y", [0, 1, 2, 3, 5, 6, 7, -1, -2, -3])
def test_integer_powers(y):
    same(lambda p, x: p.lax.integer_pow(x, y), F32)


DTYPES = ["bool", "int32", "uint8", "complex64", "bfloat16", "float8_e5m2", "int4"]


@pytest.mark.parametrize("old", [F32, I32, BOOL, F16], ids=lambda x: str(x.dtype))
@pytest.mark.parametrize("new", DTYPES)
def test_conversions(old, new):
    if new == "bool" and old.dtype != bool:
        pytest.skip("JAX converts the result of a comparison to itself")
    same(lambda p, x: p.lax.convert_element_type(x, new), old)


PROGRAMS = {
    "select": lambda p, x: p.lax.select(x > 0, x, -x),
    "select_n": lambda p, x: p.lax.select_n(x.astype("int32"), x, x + 1, x * 2),
    "clamp": lambda p, x: p.lax.clamp(-1.0, x, 1.0),
    "bitcast": lambda p, x: p.lax.bitcast_convert_type(x, "int32"),
    "bitcast_wider": lambda p, x: p.lax.bitcast_convert_type(x, "uint8"),
    "reduce_precision": lambda p, x: p.lax.reduce_precision(x, 5, 10),
    "round_to_even": lambda p, x: p.lax.round(x, p.lax.RoundingMethod(1)),
    "complex": lambda p, x: p.lax.complex(x, x + 1),
    "constants": lambda p, x: x * 0.1 + 1e-5 - p.numpy.inf * 0.7 + 16777216.0,
    "large_constant": lambda p, x: x[0, 0] + np.arange(150, dtype=np.float32),
    "small_constant": lambda p, x: x + np.array([0.1, 0.2, 3e7], np.float32),
    "silu": lambda p, x: x * p.lax.logistic(x),
    "norm": lambda p, x: x * p.lax.rsqrt((x * x).sum() + 1e-6),
    "threshold": lambda p, x: (x > 0) & (x < 1) | (x == 2),
    "rng_bits": lambda p, x: p.lax.rng_bit_generator(
        p.lax.bitcast_convert_type(x[0, :2], "uint32").repeat(2), (3,)
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    same(PROGRAMS[name], F32)


@pytest.mark.parametrize("name", ["exp", "log", "cbrt", "tan", "exp2", "tanh"])
def test_accuracy(name):
    """JAX has the operation twice, first without the accuracy; we have it once."""

    def attributes(text):
        return [line.partition("{")[2] for line in text.splitlines() if "accur" in line]

    for asked in (
        lambda p: p.lax.AccuracyMode.HIGHEST,
        lambda p: p.lax.Tolerance(1e-3, 2e-4, 3),
        lambda p: p.lax.Tolerance(ulps=2),
    ):
        ours, theirs = texts(
            lambda p, x, asked=asked: getattr(p.lax, name)(x, accuracy=asked(p)), F32
        )
        assert attributes(ours) == attributes(theirs) != []
