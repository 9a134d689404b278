"""Floats of a byte or less: moved as they are, computed in float32 and rounded."""

import functools

import ml_dtypes
import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax, nn
from curta.dtypes.scalars import NARROW_FLOATS

# Values that every one of the dtypes but float8_e8m0fnu has.
VALUES = np.array([[0.5, -1.0, 2.0, -4.0], [1.5, 3.0, -0.5, 1.0]], np.float32)

MOVED = {
    "transpose": lambda np_, x: np_.transpose(x),
    "slice": lambda np_, x: x[:, 1:],
    "reverse": lambda np_, x: x[::-1],
    "repeat": lambda np_, x: np_.repeat(x, 2, axis=1),
    "pad": lambda np_, x: np_.pad(x, 1, constant_values=1),
    "concatenate": lambda np_, x: np_.concatenate([x, x[:1]]),
    "take": lambda np_, x: np_.take(x, np_.array([3, 0]), axis=1),
    "broadcast": lambda np_, x: np_.broadcast_to(x, (2, 2, 4)),
    "roll": lambda np_, x: np_.roll(x, 1, axis=1),
    "where": lambda np_, x: np_.where(np_.array([True, False, True, False]), x, -x),
    "fill": lambda np_, x: np_.full_like(x, 2),
    "stack": lambda np_, x: np_.stack([x, x]),
    "diagonal": lambda np_, x: np_.diag(x[0]),
}
COMPUTED = {
    "add": lambda np_, x: x + x[::-1],
    "multiply": lambda np_, x: x * x[::-1],
    "negative": lambda np_, x: -x,
    "absolute": lambda np_, x: np_.abs(x),
    "maximum": lambda np_, x: np_.maximum(x, x[::-1]),
    "sqrt": lambda np_, x: np_.sqrt(np_.abs(x)),
    "exp": lambda np_, x: np_.exp(-np_.abs(x)),
    "tanh": lambda np_, x: np_.tanh(x),
    "floor": lambda np_, x: np_.floor(x),
    "sign": lambda np_, x: np_.sign(x),
    "square": lambda np_, x: np_.square(x),
    "max": lambda np_, x: np_.max(x, axis=1),
    "sum": lambda np_, x: np_.sum(x[:, :2], axis=1),
    "sort": lambda np_, x: np_.sort(x, axis=1),
}


# Powers of two alone, with neither 0 nor negative numbers.
EXPONENTS = np.dtype(ml_dtypes.float8_e8m0fnu)
NEED_MORE = {"where", "diagonal", "negative", "sign", "floor", "sum", "exp"}


def cases(names):
    return [
        pytest.param(name, dtype, id=f"{name}-{dtype.name}")
        for dtype in NARROW_FLOATS
        for name in names
        if dtype != EXPONENTS or name not in NEED_MORE
    ]


def values(dtype):
    x = np.abs(VALUES) if dtype == EXPONENTS else VALUES
    return np.where(x == 3, 2, np.where(np.abs(x) == 1.5, 1, x)).astype(dtype)


@pytest.mark.parametrize("name, dtype", cases(MOVED))
def test_elements_are_moved(name, dtype):
    x = values(dtype)
    wanted = MOVED[name](np, x)
    for f in (lambda x: MOVED[name](jnp, x)), curta.jit(lambda x: MOVED[name](jnp, x)):
        out = f(jnp.asarray(x))
        assert out.dtype == dtype
        np.testing.assert_array_equal(np.asarray(out), wanted)


@pytest.mark.parametrize("name, dtype", cases(COMPUTED))
def test_elements_are_computed(name, dtype):
    x = values(dtype)
    with np.errstate(all="ignore"):
        wanted = COMPUTED[name](np, x.astype(np.float32)).astype(dtype)
    for f in COMPUTED[name], curta.jit(COMPUTED[name], static_argnums=0):
        out = f(jnp, jnp.asarray(x))
        assert out.dtype == dtype
        np.testing.assert_array_equal(np.asarray(out), wanted)


@pytest.mark.parametrize("dtype", NARROW_FLOATS, ids=lambda d: d.name)
def test_constants_and_conversions(dtype):
    x = values(dtype)
    for to in (np.float32, ml_dtypes.bfloat16, np.complex64, np.int32):
        for f in jnp.astype, curta.jit(jnp.astype, static_argnums=1):
            np.testing.assert_array_equal(f(jnp.asarray(x), to), x.astype(to))
    # Constants that a dtype may lack: a zero, NaN, infinity, a negative number.
    with np.errstate(all="ignore"):
        for value in (0.0, np.nan, np.inf, -np.inf, -1.0, 0.5):
            wanted = np.full((2, 3), value, np.float32).astype(dtype)
            out = curta.jit(functools.partial(lax.full, (2, 3), value, dtype))()
            np.testing.assert_array_equal(
                np.asarray(out).astype(np.float32), wanted.astype(np.float32)
            )


@pytest.mark.parametrize("dtype", NARROW_FLOATS, ids=lambda d: d.name)
def test_order(dtype):
    x = np.arange(16, dtype=np.uint8)
    if dtype.itemsize * 8 == ml_dtypes.finfo(dtype).bits:  # over all the exponents
        x = np.arange(0, 256, 5, dtype=np.uint8)
    x = x[::-1].copy().view(dtype)
    wide = x.astype(np.float32)
    number = wide == wide
    for several in (lambda f: f), curta.jit:
        sorted_ = np.asarray(several(jnp.sort)(jnp.asarray(x))).astype(np.float32)
        np.testing.assert_array_equal(sorted_, np.sort(wide))
        order = np.asarray(several(jnp.argsort)(jnp.asarray(x)))
        np.testing.assert_array_equal(order, np.argsort(wide, kind="stable"))
        greatest, places = several(lambda x: lax.top_k(x, 3))(jnp.asarray(x[number]))
        wanted = np.argsort(-wide[number], kind="stable")[:3]
        np.testing.assert_array_equal(np.asarray(places), wanted)
        assert greatest.dtype == dtype
        assert several(jnp.argmax)(jnp.asarray(x[number])) == wide[number].argmax()


@pytest.mark.parametrize("dtype", NARROW_FLOATS, ids=lambda d: d.name)
def test_values_that_are_no_numbers(dtype):
    with np.errstate(all="ignore"):
        x = np.array([1, np.nan, np.inf, -np.inf, 0.5], np.float32).astype(dtype)
    wide = x.astype(np.float32)
    for several in (lambda f: f), curta.jit:
        for name in "isfinite", "isnan", "isinf":
            found = several(getattr(jnp, name))(jnp.asarray(x))
            np.testing.assert_array_equal(found, getattr(np, name)(wide))
        assert several(nn.log1mexp)(jnp.asarray(x)).dtype == dtype


def test_derivatives_keep_the_dtype():
    for dtype in set(NARROW_FLOATS) - {EXPONENTS}:
        x = jnp.asarray(values(dtype))
        ct = curta.jit(curta.grad(lambda x: nn.relu(x).astype("float32").sum()))(x)
        assert ct.dtype == dtype
        np.testing.assert_array_equal(np.asarray(ct), np.asarray(x) > dtype.type(0))
