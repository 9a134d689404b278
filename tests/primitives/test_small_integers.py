"""Bits of the integers that are smaller than a byte."""

import ml_dtypes
import numpy as np
import pytest

import curta
from curta import lax
from curta.dtypes.scalars import NARROW_FLOATS

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
DTYPES = [ml_dtypes.int2, ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.uint4]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
def test_bits(dtype):
    bits = ml_dtypes.iinfo(dtype).bits
    words = np.arange(2**bits, dtype=np.uint8)
    unsigned = ml_dtypes.uint2 if bits == 2 else ml_dtypes.uint4
    x = words.astype(unsigned).view(dtype)

    def as_words(y):
        assert y.dtype == dtype
        return np.asarray(y).astype(np.int32) % 2**bits

    wanted = {
        lax.bitwise_not: 2**bits - 1 - words,
        lax.population_count: [int(w).bit_count() for w in words],
        lax.clz: [bits - int(w).bit_length() for w in words],
    }
    for function, values in wanted.items():
        for f in function, curta.jit(function):
            np.testing.assert_array_equal(as_words(f(x)), np.asarray(values) % 2**bits)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
def test_arithmetic_wraps_around(dtype):
    info = ml_dtypes.iinfo(dtype)
    values = np.arange(info.min, info.max + 1)
    x, y = (v.reshape(-1).astype(dtype) for v in np.meshgrid(values, values))
    wide_x, wide_y = x.astype(np.int32), y.astype(np.int32)
    count = 2**info.bits

    for function, wanted in [
        (lax.add, wide_x + wide_y),
        (lax.sub, wide_x - wide_y),
        (lax.mul, wide_x * wide_y),
        (lambda x, _: lax.neg(x), -wide_x),
    ]:
        for f in function, curta.jit(function):
            out = f(x, y)
            assert out.dtype == dtype
            wrapped = (wanted - info.min) % count + info.min
            np.testing.assert_array_equal(np.asarray(out).astype(np.int32), wrapped)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
def test_shifts(dtype):
    info = ml_dtypes.iinfo(dtype)
    every = np.arange(info.min, info.max + 1)
    x, y = (v.reshape(-1) for v in np.meshgrid(every, every))
    count, bits = 2**info.bits, info.bits
    word = x % count
    signed = np.where(word >= count // 2, word - count, word)
    legal = (0 <= y) & (y < bits)
    places = np.where(legal, y, 0)
    for function, wanted in [
        (lax.shift_left, np.where(legal, word << places, 0)),
        (lax.shift_right_logical, np.where(legal, word >> places, 0)),
        (lax.shift_right_arithmetic, signed >> np.where(legal, y, bits - 1)),
    ]:
        for f in function, curta.jit(function):
            out = np.asarray(f(x.astype(dtype), y.astype(dtype)))
            assert out.dtype == dtype
            np.testing.assert_array_equal(out.astype(np.int32) % count, wanted % count)
            assert out.astype(np.int32).max() <= info.max


NARROW = [np.dtype(d) for d in DTYPES] + list(NARROW_FLOATS)
OTHERS = [*map(np.dtype, ["bool", "int8", "float16", "float32"]), BFLOAT16]


@pytest.mark.parametrize("source", [*NARROW, *OTHERS], ids=lambda d: d.name)
def test_every_narrow_dtype_converts_to_every_other(source):
    with np.errstate(all="ignore"):
        x = np.array([0, 1, 2, 3, -1, -2, 4, 0.5, 100], np.float32)
        x = x.astype(np.int8).astype(source) if is_int(source) else x.astype(source)
        for to in [*NARROW, *OTHERS]:
            wanted = converted(x.astype(np.float32), source, to)
            for f in CONVERT, curta.jit(CONVERT, static_argnums=1):
                out = np.asarray(f(x, to))
                assert out.dtype == to
                np.testing.assert_array_equal(out.astype(np.float32), wanted)


CONVERT = lax.convert_element_type


def is_int(dtype):
    return "int" in dtype.name


def converted(x, source, to):
    """The float32 numbers of dtype `to` that `x`, of dtype `source`, becomes."""
    if not is_int(to):
        return x.astype(to).astype(np.float32)
    info = ml_dtypes.iinfo(to)
    least, greatest = int(info.min), int(info.max)
    if is_int(source):
        return (x - least) % (greatest - least + 1) + least
    return np.clip(np.trunc(np.nan_to_num(x, nan=0)), least, greatest)


@pytest.mark.parametrize("name", ["float8_e4m3fn", "float8_e5m2", "int4", "bfloat16"])
def test_products_and_reductions_of_small_dtypes(name):
    x = (np.arange(12).reshape(3, 4) % 5 - 2).astype(getattr(ml_dtypes, name))
    wide = x.astype(np.float32)

    def several(x):
        none, ones = ((0, 0), (0, 0)), (1, 1)
        window = lax.reduce_window_max_p.bind(
            x, window_dimensions=(2, 2), window_strides=ones, padding=none,
            base_dilation=ones, window_dilation=ones,
        )  # fmt: skip
        return lax.dot(x, x.T), lax.reduce_max(x, (0,)), lax.reduce_min(x, (1,)), window

    pools = np.lib.stride_tricks.sliding_window_view(wide, (2, 2)).max((2, 3))
    wanted = wide @ wide.T, wide.max(0), wide.min(1), pools
    for f in several, curta.jit(several):
        for found, value in zip(f(x), wanted, strict=True):
            assert found.dtype == x.dtype
            value = value.astype(x.dtype).astype(np.float32)
            if name == "int4":
                value = (value + 8) % 16 - 8
            np.testing.assert_array_equal(np.asarray(found).astype(np.float32), value)


@pytest.mark.parametrize("narrow, wide", [("int4", "int8"), ("uint2", "uint4")])
def test_batches_of_halves_join_along_any_dim(narrow, wide):
    x = np.array([[1, 0, 1], [0, 1, 1]], getattr(ml_dtypes, narrow))
    wide = getattr(ml_dtypes, wide, np.int8)

    def joined(x):
        return lax.bitcast_convert_type(x, wide)

    out = curta.vmap(joined, in_axes=1)(x)
    wanted = [joined(np.ascontiguousarray(x[:, i])) for i in range(3)]
    np.testing.assert_array_equal(np.asarray(out, int), np.asarray(wanted, int))
