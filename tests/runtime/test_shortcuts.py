"""Shortcuts give what the general operators give, values, dtypes and weak types."""

import itertools
import operator
import warnings

import numpy as np
import pytest

from curta import jit, numpy as jnp
from curta.config import config, debug_nans, enable_x64
from curta.core.array import Array
from curta.runtime.array import ArrayImpl
from curta.runtime.shortcuts import is_basic
from curta.runtime.transfer import to_array

BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "eq", "lt", "ge"]
OPERANDS = [
    to_array(np.array([1.5, -2, 3], np.float32)),
    to_array(np.array([1, 2, 3], np.int32)),
    to_array(np.array([[2], [1]], np.int8)),
    to_array(np.array([1, 0.5, 2], np.float16)),
    to_array(np.array(2.0, np.float32)),
    to_array(2.0),
    to_array(3),
    to_array(np.array(2, np.int32)),
    2,
    2.5,
    True,
]


def general(name):
    return getattr(Array, f"__{name}__")


def same(x, y):
    assert x.aval is y.aval
    np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


@pytest.mark.parametrize("name", BINARY)
def test_operators(name):
    for x, y in itertools.product(OPERANDS, OPERANDS):
        if type(x) is ArrayImpl:
            for _ in range(2):  # when the plan is made, and when it is there
                same(getattr(operator, name)(x, y), general(name)(x, y))


def test_reflected_operators():
    x = OPERANDS[0]
    same(1 - x, Array.__rsub__(x, 1))
    same(2.0 / x, Array.__rtruediv__(x, 2.0))


@pytest.mark.parametrize("name", ["neg", "abs", "invert"])
def test_unary(name):
    for x in OPERANDS:
        if type(x) is not ArrayImpl or (name == "invert" and x.dtype.kind == "f"):
            continue
        same(getattr(operator, name)(x), general(name)(x))


def test_scalars_that_do_not_fit():
    narrow = to_array(np.arange(3, dtype=np.int8))
    assert (narrow + 300).tolist() == [44, 45, 46]
    with pytest.raises(OverflowError):
        to_array(np.arange(3, dtype=np.int32)) + 2**40


@pytest.mark.parametrize(
    "index", [0, -1, slice(1, 3), slice(None, None, -1), ..., None, (1, slice(2)), ()]
)
def test_basic_indices(index):
    x = to_array(np.arange(12, dtype=np.float32).reshape(3, 4))
    assert is_basic(index)
    same(x[index], Array.__getitem__(x, index))
    assert x[index]._data.flags.c_contiguous


def test_out_of_bounds_is_left_to_the_general_rule():
    x = to_array(np.arange(3, dtype=np.float32))
    same(x[5], Array.__getitem__(x, 5))
    with pytest.raises(IndexError):
        x[0, 0]


def test_small_parts_do_not_keep_large_arrays():
    x = to_array(np.zeros(1 << 20, np.float32))
    assert x[5:10]._data.base is None


def test_large_operands_are_compiled():
    x = to_array(np.ones(config.tuning.compiled_elements + 1, np.float32))
    assert (x + x)[-1].item() == 2
    same(x + 1, Array.__add__(x, 1))


@pytest.mark.parametrize("method", ["set", "add", "subtract", "multiply"])
@pytest.mark.parametrize("index", [1, slice(0, 2), (slice(None), 2), ..., (0, 1), 7])
def test_updates(method, index):
    x = to_array(np.arange(12, dtype=np.float32).reshape(3, 4))
    for values in (2, 2.5, x[0, 0] + 3, x[index] if index != 7 else 1, True, 1 + 0.5j):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            same(
                getattr(x.at[index], method)(values),
                getattr(x.at[index], method)(values, mode="drop"),
            )
    assert x.tolist()[0] == [0, 1, 2, 3]


def test_under_tracing_they_are_recorded():
    x = to_array(np.ones(3, np.float32))
    seen = []
    jit(lambda y: seen.append(type(x + x)) or y)(x)
    assert seen[0] is not ArrayImpl


def test_settings_change_the_plan():
    x = to_array(np.ones(3, np.int32))
    assert (x / 2).dtype == np.float32
    with enable_x64(True):
        assert (x / 2).dtype == jit(lambda x: x / 2)(x).dtype
    bad = jnp.array([np.inf])
    assert np.isnan((bad - bad).item())
    with debug_nans(True), pytest.raises(FloatingPointError):
        bad - bad


def test_no_warnings(recwarn):
    x = jnp.array([0.0, 1.0])
    assert np.isinf((x / 0).tolist()[1])
    assert (x * 1e30 * 1e30).tolist()[1] == np.inf
    assert not recwarn.list


def test_deleted_operands():
    x, y = to_array(np.ones(3, np.float32)), to_array(np.ones(3, np.float32))
    y.delete()
    for use in (lambda: x + y, lambda: y + x, lambda: -y, lambda: y[0]):
        with pytest.raises(RuntimeError, match="Array has been deleted"):
            use()
