"""Elementwise programs, as JAX writes them (more: tests/accelerators/test_text.py)."""

import numpy as np

import curta
from curta import lax, random

F32 = np.ones((2, 3), np.float32)
ROW = np.ones(3, np.float32)
I32 = np.ones(4, np.int32)
U8 = np.ones(3, np.uint8)
C64 = np.ones(2, np.complex64)


def bodies(programs):
    """The bodies of `main` of programs by name, each with its argument."""
    lines = []
    for name, (fun, x) in programs.items():
        text = curta.jit(fun).lower(x).as_text()
        lines += [name, *text.splitlines()[2:-2], ""]
    return "\n".join(lines)


def converted(x, *names):
    for name in names:
        x = lax.convert_element_type(x, name)
    return x


def test_as_jax(golden):
    mixed = np.array([0.5, 1e-30, -np.nan], np.float32)
    found = bodies(
        {
            "logistic": (lax.logistic, F32),
            "integer_pow": (lambda x: lax.integer_pow(x, -3), F32),
            "sign of unsigned": (lax.sign, U8),
            "conj": (lax.conj, C64),
            "select_n": (lambda x: lax.select_n(x, x, x, x), I32),
            "clamp": (lambda x: lax.clamp(np.int32(1), x, np.int32(2)), I32),
            "numbers": (lambda x: (x + np.float32(0.1)) * np.float32(16777216), F32),
            "ends": (lambda x: x * np.float32(1e-5) - np.float32(np.inf), F32),
            "array": (lambda x: x + mixed, ROW),
            "convert": (lambda x: converted(x, "bfloat16", "complex64"), F32),
            "bitcast": (lambda x: lax.bitcast_convert_type(x, "uint8"), F32),
            "complex pow": (lambda x: lax.eq(lax.pow(x, x), x), C64),
            "precision": (lambda x: lax.round(lax.reduce_precision(x, 5, 10)), F32),
        }
    )
    golden(found)


def test_by_scalar_code(golden):
    """An operation that StableHLO lacks is not written in another dialect."""
    found = bodies(
        {
            "asinh": (lax.asinh, ROW),
            "nextafter": (lambda x: lax.nextafter(x, x), ROW),
            "complex square": (lax.square, C64),
            "mulhi of int4": (lambda x: lax.mulhi(*[converted(x, "int4")] * 2), I32),
        }
    )
    assert "chlo" not in found
    golden(found)


def test_accuracy():
    def text(accuracy):
        return curta.jit(lambda x: lax.exp(x, accuracy=accuracy)).lower(ROW).as_text()

    mode = "mode = #stablehlo.result_accuracy_mode"
    assert "result_accuracy" not in text(lax.AccuracyMode.DEFAULT)
    assert f"{{result_accuracy = #stablehlo.result_accuracy<{mode}<HIGHEST>>}} :" in (
        text(lax.AccuracyMode.HIGHEST)
    )
    limits = "atol = 1.000000e-03, rtol = 2.000000e-04, ulps = 3, "
    assert f"<{limits}{mode}<TOLERANCE>>" in text(lax.Tolerance(1e-3, 2e-4, 3))


def test_keys_are_words():
    text = curta.jit(lambda k: random.split(k)[1]).lower(random.key(0)).as_text()
    assert "@main(%arg0: tensor<2xui32>)" in text
    assert "func.func private @threefry2x32(" in text


def test_long_functions_are_there_once():
    text = curta.jit(lambda x: lax.igamma(x, x) + lax.igamma(x, x + 1)).lower(ROW)
    assert text.as_text().count("func.func private @igamma(") == 1
    assert text.as_text().count("call @igamma(") == 2
