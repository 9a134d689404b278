"""Indices read from data: divided by sizes of a reshape, of rows, of slices."""

import numpy as np
import pytest

import curta
from curta import lax

RNG = np.random.default_rng(1)
X = np.random.default_rng(0).uniform(-1, 1, (3, 4)).astype(np.float32)


def rows(x):
    """A reshape of a transpose of x: its elements are not contiguous."""
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


@pytest.mark.parametrize("width", [7, 64, 301])
def test_sums_of_rows_read_at_data_go_along_the_rows(width, monkeypatch, capsys):
    w = RNG.integers(-9, 9, (500, width)).astype("float32")
    i = RNG.integers(0, 500, (60, 20))
    monkeypatch.setenv("CURTA_DUMP", "kernels")
    found = curta.jit(lambda w, i: w[i].sum(1))(w, i)
    assert "lanes of i1" in capsys.readouterr().err
    np.testing.assert_array_equal(found, w[i].sum(1))


def test_slices_are_set_by_vectors(monkeypatch, capsys):
    x = RNG.integers(-9, 9, (100, 301)).astype("int8")
    monkeypatch.setenv("CURTA_DUMP", "kernels")
    found = curta.jit(lambda x: x.at[5:50, 2:].add(3))(x)
    assert "for i1:299 by" in capsys.readouterr().err
    wanted = x.copy()
    wanted[5:50, 2:] += 3
    np.testing.assert_array_equal(found, wanted)
