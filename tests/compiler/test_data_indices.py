"""Indices read from data, divided by the sizes of a reshape that is not made."""

import numpy as np
import pytest

import curta
from curta import lax

X = np.random.default_rng(0).uniform(-1, 1, (3, 4)).astype(np.float32)


def rows(x):
    """What a reshape of a transpose makes of x: its elements lie apart."""
    return lax.reshape(lax.transpose(x, (1, 0)), (3, 4))


@pytest.mark.parametrize("start", [-9, -1, 0, 1, 2, 9])
def test_slices_at_places_read_from_data(start):
    def fun(x, start):
        return lax.dynamic_slice(rows(x), (start, start * 0), (1, 4))

    for kind in np.int64, np.int32, np.int8:
        got = curta.jit(fun)(X, kind(start))
        np.testing.assert_array_equal(got, fun(X, kind(start)))


@pytest.mark.parametrize("mode", ["clip", "fill", "promise_in_bounds"])
def test_gathers_at_places_read_from_data(mode):
    def fun(x, places):
        return rows(x).at[places].get(mode=mode)

    for places in np.int32([2, 0, 1, 2]), np.int32([-1, -3, 1]):
        got = curta.jit(fun)(curta.numpy.asarray(X), places)
        np.testing.assert_array_equal(got, fun(curta.numpy.asarray(X), places))
