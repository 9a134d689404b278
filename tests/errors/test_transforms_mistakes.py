"""Signals, images, rotations and solvers: mistakes and answers."""

import numpy as np
import pytest
from tests.errors.checks import check_message

import curta
import curta.numpy as jnp
from curta import image, ops
from curta.scipy import ndimage, signal
from curta.scipy.optimize import minimize
from curta.scipy.sparse.linalg import cg, gmres
from curta.scipy.spatial.transform import Rotation

M = jnp.eye(3)
TWO = [jnp.ones(2), jnp.ones(2)]
NOT_HASHABLE = "Non-hashable static arguments are not supported."


def square(x):
    return jnp.sum(x**2)


MISTAKES = {
    "too few angles": (
        lambda: Rotation.from_euler("xyz", 2.5),
        ValueError,
        "inconsistent size for core dimension: angles must have shape (..., 3)",
    ),
    "a plane vector": (
        lambda: Rotation.from_rotvec([1.0, 2.0]),
        ValueError,
        "inconsistent size for core dimension: rotvec must have shape (..., 3)",
    ),
    "a number for a quaternion": (
        lambda: Rotation.from_quat(1.0),
        ValueError,
        "inconsistent size for core dimension: quat must have shape (..., 4)",
    ),
    "no unit": (
        lambda: Rotation.from_rotvec(jnp.ones(3), degrees=None),
        TypeError,
        "where requires ndarray or scalar arguments, got <class 'NoneType'>",
    ),
    "unit in words": (
        lambda: Rotation.from_quat(jnp.ones(4)).as_rotvec(degrees="x"),
        TypeError,
        "where requires ndarray or scalar arguments, got <class 'str'>",
    ),
    "splines": (
        lambda: ndimage.map_coordinates(M, TWO, 3),
        NotImplementedError,
        "jax.scipy.ndimage.map_coordinates currently requires order<=1",
    ),
    "mode of an image": (
        lambda: ndimage.map_coordinates(M, TWO, 1, mode="x"),
        NotImplementedError,
        "jax.scipy.ndimage.map_coordinates does not yet support mode x.",
    ),
    "orders in a list": (
        lambda: ndimage.map_coordinates(M, TWO, [1]),
        ValueError,
        NOT_HASHABLE,
    ),
    "a list of values outside": (
        lambda: ndimage.map_coordinates(M, TWO, 1, cval=[1.0]),
        ValueError,
        NOT_HASHABLE,
    ),
    "many values outside": (
        lambda: ndimage.map_coordinates(M, TWO, 1, cval=jnp.ones(2)),
        ValueError,
        "map_coordinates takes cval as one number",
    ),
    "coordinates of two lengths": (
        lambda: ndimage.map_coordinates(M, [jnp.ones(3), jnp.ones(2)], 1),
        TypeError,
        "and got incompatible shapes for broadcasting: (3,), (2,)",
    ),
    "name of a window": (
        lambda: signal.stft(jnp.ones(16), window="nope", nperseg=8),
        ValueError,
        "Invalid window name 'nope' in parameter window='nope'!",
    ),
    "window without a name": (
        lambda: signal.welch(jnp.ones(16), window=(1, 2), nperseg=8),
        ValueError,
        "First tuple entry of parameter window=(1, 2) is not a str!",
    ),
    "trend of nothing": (
        lambda: signal.detrend(jnp.ones(0)),
        ValueError,
        "detrend takes at least one element",
    ),
    "break between two samples": (
        lambda: signal.detrend(jnp.ones(5), bp=1.5),
        TypeError,
        "detrend takes the break points bp as integers",
    ),
    "no length": (
        lambda: jnp.fft.fftfreq(None),
        TypeError,
        "jax.numpy.fft.fftfreq requires ndarray or scalar arguments",
    ),
    "boolean frequencies": (
        lambda: jnp.fft.rfftfreq(4, dtype=bool),
        TypeError,
        "rfftfreq does not accept dtype bool",
    ),
    "arguments in a list": (
        lambda: minimize(square, jnp.ones(2), [], method="BFGS"),
        TypeError,
        "args argument to jax.scipy.optimize.minimize must be a tuple",
    ),
    "options in words": (
        lambda: minimize(square, jnp.ones(2), method="BFGS", options="x"),
        TypeError,
        "options argument to minimize must be a mapping",
    ),
    "unknown option": (
        lambda: minimize(square, jnp.ones(2), method="BFGS", options={"nope": 1}),
        TypeError,
        "minimize_bfgs() got an unexpected keyword argument 'nope'",
    ),
    "a matrix to begin with": (
        lambda: minimize(square, M, method="BFGS"),
        TypeError,
        "minimize takes x0 of shape (n,), got the shape (3, 3)",
    ),
    "tolerances of a minimum": (
        lambda: minimize(square, jnp.ones(2), method="BFGS", tol=jnp.ones(2)),
        TypeError,
        "minimize takes tol as one number",
    ),
    "no tolerance": (
        lambda: cg(M, jnp.ones(3), tol=None),
        TypeError,
        "cg requires ndarray or scalar arguments, got <class 'NoneType'>",
    ),
    "text to begin with": (
        lambda: cg(M, jnp.ones(3), x0="abc"),
        TypeError,
        "Value 'abc' with dtype <U3 is not a valid JAX array type.",
    ),
    "negative restart": (
        lambda: gmres(M, jnp.ones(3), restart=-1),
        ValueError,
        "gmres takes restart >= 0, got -1",
    ),
    "no segments": (
        lambda: ops.segment_sum(jnp.ones(3), jnp.zeros(0, int)),
        ValueError,
        "zero-size array to reduction operation max which has no identity",
    ),
    "modes in a list": (
        lambda: ops.segment_sum(jnp.ones(1), jnp.zeros(1, int), 1, mode=["x"]),
        ValueError,
        "Unknown gather mode \"['x']\"",
    ),
    "smoothing as an array": (
        lambda: image.resize(M, (2, 2), "linear", antialias=jnp.ones(2)),
        ValueError,
        NOT_HASHABLE,
    ),
    "a dim scaled twice": (
        lambda: image.scale_and_translate(
            M, (3, 3), (0, 0), jnp.ones(2), jnp.ones(2), "linear"
        ),
        ValueError,
        "duplicate value in 'axis': (0, 0)",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake(name):
    mistake, kind, opening = MISTAKES[name]
    check_message(mistake, kind, opening, "")


def test_flags_of_rotations_may_be_traced_and_differ_within_a_batch():
    vectors = np.array([[0.0, 0.0, 90.0], [0.0, 0.0, 0.5]], np.float32)
    turn = Rotation.from_rotvec(vectors, degrees=jnp.array([True, False]))
    want = np.array([np.pi / 2, 0.5], np.float32)
    np.testing.assert_allclose(turn.magnitude(), want, rtol=1e-6)
    x = np.array([1.0, 2.0, 3.0], np.float32)
    for inverse in True, False:
        traced = curta.jit(lambda flag: turn.apply(x, inverse=flag))(inverse)
        np.testing.assert_allclose(traced, turn.apply(x, inverse), rtol=1e-5)
        angles = curta.jit(lambda flag: turn.as_euler("xyz", degrees=flag))(inverse)
        np.testing.assert_allclose(angles, turn.as_euler("xyz", inverse), atol=1e-3)


def test_a_solution_has_the_dtype_of_both_its_beginning_and_the_right_side():
    start = jnp.array([1.0 + 1j, 0.0, 0.0])
    x, _ = cg(M, jnp.ones(3), x0=start)
    assert x.dtype == np.complex64
    np.testing.assert_allclose(x, np.ones(3), atol=1e-5)


def test_the_convolution_of_numbers_is_their_product():
    assert signal.fftconvolve(jnp.array(2.0), jnp.array(3.0)) == 6.0


def test_a_restart_is_an_integer():
    x, _ = gmres(2 * M, jnp.ones(3), restart=True)
    np.testing.assert_allclose(x, np.full(3, 0.5), rtol=1e-6)
    with pytest.raises(TypeError, match="'float' object cannot be interpreted"):
        gmres(M, jnp.ones(3), restart=2.5)


def test_the_solution_for_a_weak_right_side_is_weak():
    x, _ = gmres(lambda x: x, 1.0)
    assert x.weak_type
