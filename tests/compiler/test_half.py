"""Half precision: rounded once, whatever the machine can do."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.native import elementwise

from curta.compiler.host_target import host
from curta.compiler.llvm.builder import Module

DTYPES = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}


def module(with_f16):
    machine = host()
    has_f16 = with_f16 and machine.has_f16  # where there are instructions
    return Module(machine.has_fma, machine.vector_bytes, has_f16=has_f16)


def all_halves():
    return np.arange(1 << 16, dtype=np.uint16).view(np.float16)


def difficult(kind):
    """Numbers around every f16, around the middle to the next, and some others."""
    with np.errstate(all="ignore"):
        halves = np.sort(all_halves()[:0x7C00]).astype(DTYPES[kind])
        middles = (halves[:-1] + halves[1:]) / 2
        near = [
            f(m, DTYPES[kind](np.inf))
            for m in (middles, halves)
            for f in (np.nextafter,)
        ]
        near += [
            f(m, DTYPES[kind](-1)) for m in (middles, halves) for f in (np.nextafter,)
        ]
    others = [0, 65519.9, 65520, 65536, 1e30, np.inf, np.nan, 2.0**-25, 2.0**-26]
    x = np.concatenate([halves, middles, *near, np.array(others, DTYPES[kind])])
    return np.concatenate([x, -x])


@pytest.mark.parametrize("with_f16", [True, False])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_floats_to_half(kind, with_f16):
    x = difficult(kind)
    emit = elementwise(
        lambda b, v: b.convert(v, "f16"), [kind], "f16", 8, module(with_f16)
    )
    got = emit(x)
    with np.errstate(all="ignore"):
        want = x.astype(np.float16)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), ~numbers)
    np.testing.assert_array_equal(got[numbers].view("i2"), want[numbers].view("i2"))


@pytest.mark.parametrize("with_f16", [True, False])
@pytest.mark.parametrize("kind", ["f32", "f64", "i32", "i64"])
def test_half_to_others(kind, with_f16):
    x = all_halves()
    emit = elementwise(
        lambda b, v: b.convert(v, kind), ["f16"], kind, 8, module(with_f16)
    )
    with np.errstate(all="ignore"):
        want = x.astype(DTYPES[kind])
    if kind[0] == "i":
        info = np.iinfo(want.dtype)
        want[np.isnan(x)] = 0
        want[x == np.inf], want[x == -np.inf] = info.max, info.min
    np.testing.assert_array_equal(emit(x), want)


@pytest.mark.parametrize("kind", ["i32", "i64"])
def test_integers_to_half(kind):
    x = np.array([0, 1, -1, 2049, 2051, 65519, 65520, -70000, 2**31 - 1], DTYPES[kind])
    emit = elementwise(lambda b, v: b.convert(v, "f16"), [kind], "f16", 8)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(emit(x), x.astype(np.float16))
