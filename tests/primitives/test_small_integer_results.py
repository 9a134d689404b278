"""Results of integers smaller than a byte are held as such, and in their range."""

import ml_dtypes
import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax, nn

DTYPES = [ml_dtypes.int2, ml_dtypes.int4, ml_dtypes.uint2, ml_dtypes.uint4]

UNARY = [
    *(jnp.abs, lax.sign, lax.square, lax.bitwise_not, lax.neg, nn.relu, jnp.max),
    *(jnp.min, jnp.ptp, jnp.cumsum, jnp.cumprod, jnp.sum, jnp.prod, jnp.sort),
    *(jnp.nanmax, jnp.nanmin, jnp.diff, jnp.positive, jnp.conj, jnp.real, jnp.flip),
]
BINARY = [
    *(lax.max, lax.min, lax.div, lax.rem, lax.bitwise_and, lax.bitwise_or),
    *(lax.bitwise_xor, lax.shift_left, lax.shift_right_logical, lax.add, lax.sub),
    *(lax.mul, lax.shift_right_arithmetic, jnp.floor_divide, jnp.remainder, jnp.fmod),
    *(jnp.maximum, jnp.minimum, jnp.clip, jnp.gcd, jnp.dot, jnp.outer),
]
OTHERS = {
    "clamp": lambda x: lax.clamp(x[0], x, x[1]),
    "reduce_max": lambda x: lax.reduce_max(x, (0,)),
    "reduce": lambda x: lax.reduce(x, x[0], lax.max, (0,)),
    "reduce_window": lambda x: lax.reduce_window(x, x[0], lax.max, (2,), (1,), "SAME"),
    "cummax": lambda x: lax.cummax(x, 0),
    "cummin": lambda x: lax.cummin(x, 0),
    "pad": lambda x: jnp.pad(x, 1, mode="maximum"),
    "top_k": lambda x: lax.top_k(x, 2)[0],
    "scatter max": lambda x: x.at[0].max(x[1]),
    "scatter add": lambda x: x.at[np.array([0, 0])].add(x[:2]),
    "integer power": lambda x: lax.integer_pow(x, 3),
}


def values(dtype):
    info = ml_dtypes.iinfo(dtype)
    return jnp.asarray(np.arange(info.min, info.max + 1).astype(dtype))


def check(f, *args):
    dtype = args[0].dtype
    info = ml_dtypes.iinfo(dtype)
    eager, compiled = f(*args), curta.jit(f)(*args)
    assert eager.dtype == compiled.dtype
    for out in eager, compiled:
        held = np.asarray(out)
        assert held.dtype == out.dtype
        if out.dtype == dtype:
            numbers = held.astype(np.int32)
            assert (info.min <= numbers).all() and (numbers <= info.max).all()
    np.testing.assert_array_equal(np.asarray(eager), np.asarray(compiled))


def test_they_have_no_bitwise_reductions():
    with pytest.raises(TypeError, match="logical reduction requires operand dtype"):
        lax.reduce_and(values(ml_dtypes.int4), (0,))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("f", UNARY, ids=lambda f: f.__name__)
def test_of_one_operand(f, dtype):
    check(f, values(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("f", BINARY, ids=lambda f: f.__name__)
def test_of_two_operands(f, dtype):
    x = values(dtype)
    check(f, x, x[::-1])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("name", OTHERS)
def test_of_others(name, dtype):
    check(OTHERS[name], values(dtype))


@pytest.mark.parametrize("dtype", ["int2", "uint2", "int4", "uint4", "uint8"])
def test_places_in_narrow_integers_wrap_compiled_as_op_by_op(dtype):
    dtype = jnp.dtype(dtype)
    ties = jnp.zeros(300).at[jnp.array([259, 270])].set(1.0)
    for x in (jnp.arange(10.0), ties):
        for place in (lax.argmax, lax.argmin):
            one_by_one = place(x, 0, dtype)
            compiled = curta.jit(place, static_argnums=(1, 2))(x, 0, dtype)
            assert compiled.dtype == dtype and compiled == one_by_one
