"""Interpolation on grids and images, vector quantization, against SciPy."""

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.interpolate
import scipy.ndimage

import curta
from curta.scipy.cluster.vq import vq
from curta.scipy.integrate import trapezoid
from curta.scipy.interpolate import RegularGridInterpolator
from curta.scipy.ndimage import map_coordinates
from curta.test_util import check_grads

RNG = np.random.default_rng(0)
GRID = (np.array([0.0, 1, 2.5]), np.array([-1.0, 0, 0.5, 3]))
VALUES = RNG.normal(size=(3, 4, 2))


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("fill", [np.nan, -7.0, None])
@pytest.mark.parametrize("shape", [(2,), (5, 2), (3, 5, 2)])
def test_regular_grid(method, fill, shape):
    points = RNG.uniform(-2, 4, shape)
    want = scipy.interpolate.RegularGridInterpolator(
        GRID, VALUES, method, bounds_error=False, fill_value=fill
    )(points)
    mine = RegularGridInterpolator(GRID, VALUES, method, fill_value=fill)
    for f in mine, curta.jit(lambda x: mine(x)):
        np.testing.assert_allclose(f(points), want, rtol=1e-5, atol=1e-5)
    traced = curta.jit(lambda f, x: f(x))(mine, points)
    np.testing.assert_allclose(traced, want, rtol=1e-5, atol=1e-5)


def test_regular_grid_on_separate_coordinates():
    f = RegularGridInterpolator(GRID, VALUES)
    x, y = RNG.uniform(0, 2, (2, 7))
    np.testing.assert_allclose(f((x, y)), f(np.stack([x, y], -1)), rtol=1e-6)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: RegularGridInterpolator(GRID, VALUES, "cubic"),
            "'cubic' is not defined",
        ),
        (lambda: RegularGridInterpolator(GRID * 2, VALUES), "there are 4 point arrays"),
        (
            lambda: RegularGridInterpolator(GRID, VALUES, fill_value=1j),
            "fill_value must",
        ),
        (
            lambda: RegularGridInterpolator(GRID, VALUES)(np.ones((2, 3))),
            "requested sample points xi have dimension 3",
        ),
    ],
)
def test_mistakes_with_grids(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("mode", ["constant", "nearest", "wrap", "mirror", "reflect"])
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_map_coordinates(mode, order, dtype):
    image = (10 * RNG.normal(size=(5, 7))).astype(dtype)
    # Beyond the edge itself, where SciPy lets a constant bleed in.
    low, high = (-6, 12) if mode != "constant" else (0, 4)
    places = RNG.uniform(low, high, (2, 60)).astype(np.float32)
    names = {"wrap": "grid-wrap"}
    want = scipy.ndimage.map_coordinates(
        image, places, order=order, mode=names.get(mode, mode), cval=3
    )
    got = map_coordinates(image, list(places), order, mode, 3)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 if dtype == "f" else 1)


def test_map_coordinates_has_derivatives():
    image, places = RNG.normal(size=(4, 5)), RNG.uniform(0.1, 2.9, (2, 6))
    with curta.enable_x64(True):
        check_grads(lambda i, p: map_coordinates(i, list(p), 1), (image, places), 1)


def test_mistakes_with_images():
    with pytest.raises(ValueError, match="sequence of length input.ndim, but 1 != 2"):
        map_coordinates(np.ones((2, 2)), [np.ones(3)], 1)
    with pytest.raises(NotImplementedError, match="requires order<=1"):
        map_coordinates(np.ones(2), [np.ones(3)], 3)
    with pytest.raises(NotImplementedError, match="does not yet support mode magic"):
        map_coordinates(np.ones(2), [np.ones(3)], 1, "magic")


@pytest.mark.parametrize("shapes", [((9,), (4,)), ((9, 3), (4, 3))])
def test_vq(shapes):
    obs, codes = (RNG.normal(size=s).astype(np.float32) for s in shapes)
    want = scipy.cluster.vq.vq(obs, codes)
    got = vq(obs, codes)
    np.testing.assert_array_equal(got[0], want[0])
    np.testing.assert_allclose(got[1], want[1], rtol=1e-5)
    with pytest.raises(ValueError, match="should have the same rank"):
        vq(obs, codes[None])


def test_trapezoid():
    y = RNG.normal(size=(3, 8)).astype(np.float32)
    np.testing.assert_allclose(trapezoid(y, dx=0.5), np.trapezoid(y, dx=0.5), rtol=1e-4)
