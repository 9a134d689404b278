"""Long cumulative reductions: in blocks, native, and as accurate as their blocks."""

import numpy as np
import pytest
from tests.compiler.programs import native

import curta
from curta import lax

SCANS = {
    lax.cumsum: np.add,
    lax.cumprod: np.multiply,
    lax.cummax: np.maximum,
    lax.cummin: np.minimum,
    lax.cumlogsumexp: np.logaddexp,
}


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("scan", SCANS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("shape", [(40_001,), (2, 32_768)])
def test_long_rows(scan, reverse, shape):
    x = np.random.default_rng(0).normal(size=shape)
    if scan is lax.cumprod:
        x = 1 + x * 1e-4
    with curta.enable_x64(True):
        axis = len(shape) - 1
        found = native(lambda x: scan(x, axis=axis, reverse=reverse), x)
    turned = x[..., ::-1] if reverse else x
    expected = SCANS[scan].accumulate(turned, -1)
    expected = expected[..., ::-1] if reverse else expected
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_sums_are_as_accurate_as_their_blocks():
    x = np.random.default_rng(0).uniform(-3, 3, 1_000_000).astype(np.float32)
    exact = np.cumsum(x.astype(np.float64))
    assert abs(np.asarray(curta.jit(lax.cumsum)(x)) - exact).max() < 2e-3
    exact = np.logaddexp.accumulate(x[:100_000].astype(np.float64))
    found = curta.jit(lax.cumlogsumexp)(x[:100_000])
    assert abs(np.asarray(found) - exact).max() < 1e-5


def test_integers_wrap_and_nan_stays():
    x = np.random.default_rng(0).integers(-(2**31), 2**31, 50_000).astype(np.int32)
    np.testing.assert_array_equal(
        curta.jit(lax.cumsum)(x), np.cumsum(x, dtype=np.int32)
    )
    y = np.zeros(50_000, np.float32)
    y[20_000] = np.nan
    for scan in (lax.cummax, lax.cumsum, lax.cumlogsumexp):
        found = np.asarray(curta.jit(scan)(y))
        assert np.isnan(found[20_000:]).all() and np.isfinite(found[:20_000]).all()


def test_log_sums_of_nothing():
    x = np.full(40_000, -np.inf, np.float32)
    x[30_000] = 1.0
    found = np.asarray(curta.jit(lax.cumlogsumexp)(x))
    assert np.isneginf(found[:30_000]).all() and (found[30_000:] == 1.0).all()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_complex_sums_of_exponentials(axis, reverse):
    x = (np.arange(12).reshape(3, 4) * (0.1 + 0.2j)).astype(np.complex64)
    found = curta.jit(lambda x: lax.cumlogsumexp(x, axis, reverse))(x)
    order = slice(None, None, -1 if reverse else 1)
    rows = np.moveaxis(np.exp(x), axis, 0)[order]
    want = np.moveaxis(np.cumsum(rows, 0)[order], 0, axis)
    np.testing.assert_allclose(np.exp(found), want, rtol=1e-5)
