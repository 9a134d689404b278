"""Tracers that are asked for what only values have."""

import operator

import numpy as np
import pytest

import curta
import curta.numpy


@pytest.mark.parametrize("convert", [int, float, complex, operator.index, bool])
@pytest.mark.parametrize("shape", [(10,), (0,), (1, 1)])
def test_what_is_no_scalar_converts_to_none_traced_or_not(convert, shape):
    x = curta.numpy.ones(shape, int)
    if convert is bool and shape == (1, 1):
        return
    errors = []
    for fun in convert, curta.jit(convert):
        with pytest.raises((TypeError, ValueError)) as info:
            fun(x)
        errors.append((type(info.value), str(info.value).split(";")[0]))
    assert errors[0] == errors[1]


def test_only_integers_are_indices():
    with pytest.raises(TypeError, match="Only integer scalar arrays can be converted"):
        curta.jit(lambda x: [1, 2][x])(1.0)


@pytest.mark.parametrize("fun", [curta.jit, curta.make_jaxpr, curta.vmap])
def test_bytes_in_the_order_of_another_machine_are_refused(fun):
    x = np.arange(3).astype(np.dtype(np.int32).newbyteorder())
    with pytest.raises(TypeError, match="valid JAX array type|abstract array"):
        fun(lambda x: x + 1)(x)
