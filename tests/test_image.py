"""Resized and moved images, against their definition."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import image
from curta.test_util import check_grads

RNG = np.random.default_rng(0)
METHODS = ["linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area"]


@pytest.mark.parametrize("method", ["nearest", *METHODS])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("shape", [(8, 3), (2, 9), (4, 6), (1, 1)])
def test_constant_images_stay_so(method, antialias, shape):
    x = np.full((4, 6), 3.0, np.float32)
    got = image.resize(x, shape, method, antialias)
    np.testing.assert_allclose(got, np.full(shape, 3.0), rtol=1e-5)


def test_nearest():
    x = np.arange(6, dtype=np.int32)
    np.testing.assert_array_equal(image.resize(x, (3,), "nearest"), [1, 3, 5])
    twice = image.resize(x, (12,), "nearest")
    np.testing.assert_array_equal(twice, np.repeat(x, 2))


def test_linear_and_area():
    x = np.array([0.0, 8.0, 4.0, 2.0], np.float32)
    np.testing.assert_allclose(image.resize(x, (2,), "area"), [4, 3])
    plain = image.resize(x, (2,), "bilinear", antialias=False)
    np.testing.assert_allclose(plain, [4, 3])
    # Averaged over twice the width, of which the image covers a part at the ends.
    smooth = image.resize(x, (2,), "linear", antialias=True)
    weights = np.array([[0.75, 0.75, 0.25, 0], [0, 0.25, 0.75, 0.75]])
    np.testing.assert_allclose(smooth, weights @ x / weights.sum(1), rtol=1e-6)


@pytest.mark.parametrize("method", ["cubic", "lanczos3"])
def test_smooth_kernels_keep_lines(method):
    x = np.linspace(0, 1, 40, dtype=np.float32)
    got = np.asarray(image.resize(x, (80,), method))[20:-20]
    want = (np.arange(80) + 0.5) / 2 / 39 - 0.5 / 39
    np.testing.assert_allclose(got, want[20:-20], atol=2e-3)


@pytest.mark.parametrize("method", METHODS)
def test_scale_and_translate_as_resize(method):
    x = RNG.normal(size=(5, 4, 3)).astype(np.float32)
    scale = np.array([8 / 5, 2 / 4], np.float32)
    got = image.scale_and_translate(
        x, (8, 2, 3), (0, 1), scale, np.zeros(2, np.float32), method
    )
    np.testing.assert_allclose(got, image.resize(x, (8, 2, 3), method), atol=1e-5)


def test_derivatives():
    x = RNG.normal(size=(4, 5))
    scale, move = np.array([1.3, 0.8]), np.array([0.4, -0.3])
    with curta.enable_x64(True):
        check_grads(curta.jit(lambda x: image.resize(x, (6, 3), "cubic")), (x,), 1)

        def moved(x, scale, move):
            return image.scale_and_translate(
                x, (4, 5), (0, 1), scale, move, "cubic", antialias=False
            )

        check_grads(curta.jit(moved), (x, scale, move), 1, rtol=1e-3)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (
            lambda x: image.resize(x, (3,), "linear"),
            ValueError,
            "shape must have length",
        ),
        (
            lambda x: image.resize(x, (3, 3), "x"),
            ValueError,
            'Unknown resize method "x"',
        ),
        (lambda x: image.resize(x, (3.0, 3), "linear"), TypeError, "integer"),
        (
            lambda x: image.scale_and_translate(
                x, (2, 2), (0,), jnp.ones(1), jnp.zeros(1), "nearest"
            ),
            ValueError,
            "Nearest neighbor resampling is not currently supported",
        ),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call(np.ones((2, 2), np.float32))
