"""`curta.scipy` but for `linalg`, `special` and `stats`."""

import numpy as np
import scipy.cluster.vq
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.optimize
import scipy.signal
import scipy.spatial.transform
from tests.functions.numpy_algebra import (
    SINGLE,
    symmetric,
)
from tests.functions.numpy_reductions import areas
from tests.functions.rows import LINEAR, Fixed, call, rows, within

ONE = {"rank": (1, 1)}


def transforms(source, shape):
    for axis in range(-len(shape), len(shape)):
        yield call(source(shape), axis=axis)
        yield call(source(shape), n=shape[axis] + 1, axis=axis)
    yield call(source(shape), norm="ortho")


def all_axes(source, shape):
    yield call(source(shape))
    yield call(source(shape), axes=(-1,), norm="ortho")
    yield call(source(shape), s=(3, 2), axes=(0, -1))


FFT = [
    *rows("dct idct", transforms, SINGLE, rank=(1, 3), least=2, tolerance=16),
    *rows("dctn idctn", all_axes, SINGLE, rank=(2, 3), least=2, tolerance=16),
]


def filters(source, shape):
    for mode in "full", "same", "valid":
        yield call(
            source(shape), source(tuple(max(1, n - 1) for n in shape)), mode=mode
        )


def planes(source, shape):
    for mode in "full", "same", "valid":
        yield call(source((4, 3)), source((2, 3)), mode)
    yield call(source((4, 3)), source((2, 3)), boundary="fill", fillvalue=0)


def trends(source, shape):
    for axis in range(-len(shape), len(shape)):
        yield call(source(shape), axis)
        yield call(source(shape), axis, type="constant")
    yield call(source((6,)), bp=Fixed([3]))


def spectra(source, shape):
    yield call(source((16,)), nperseg=8)
    yield call(source((2, 16)), 2.0, "hamming", 8, 2, scaling="spectrum")
    yield call(source((16, 2)), nperseg=8, axis=0, detrend="linear")


def cross_spectra(source, shape):
    yield call(source((16,)), source((16,)), nperseg=8)
    yield call(source((2, 16)), source((2, 16)), nperseg=8, average="median")


def short_transforms(source, shape):
    yield call(source((16,)), nperseg=8)
    yield call(source((2, 16)), nperseg=8, noverlap=2, padded=True)


def inverses(source, shape):
    z = source((5, 5)) + 1j * source((5, 5))
    yield call(
        z.astype({"float32": "complex64", "float64": "complex128"}[source.dtype]),
        nperseg=8,
    )


SIGNAL = [
    *rows("convolve correlate", filters, LINEAR, rank=(1, 2), least=1, tolerance=30),
    *rows("fftconvolve", filters, LINEAR, rank=(1, 2), least=1, tolerance=30),
    *rows("convolve2d correlate2d", planes, LINEAR, tolerance=30, **ONE),
    *rows("detrend", trends, SINGLE, rank=(1, 2), least=2, tolerance=16),
    *rows("welch", spectra, SINGLE, tolerance=30, **ONE),
    *rows("csd", cross_spectra, SINGLE, tolerance=30, **ONE),
    *rows("stft", short_transforms, SINGLE, tolerance=30, **ONE),
    *rows("istft", inverses, SINGLE, tolerance=30, **ONE),
]


def observations(source, shape):
    yield call(source((5, 2)), source((3, 2)))
    yield call(source((5,)), source((3,)))


def grids(source, shape):
    axes = (np.array([0.0, 1.0, 3.0]), np.array([-1.0, 0.5, 1.0, 2.0]))
    points = source((5, 2), low=-0.9, high=1.9).clip(0.05)
    for method in "linear", "nearest":
        yield call(
            tuple(a.astype(source.dtype) for a in axes), source((3, 4)), points, method
        )


def interpolator(scipy_):
    return lambda axes, values, points, method: (
        scipy_.interpolate.RegularGridInterpolator(
            axes, values, method, bounds_error=False, fill_value=None
        )(points)
    )


def rotations(source, shape):
    yield call(source((3,)), source((2, 3)))


def turned(scipy_):
    def function(rotvec, points):
        turn = scipy_.spatial.transform.Rotation.from_rotvec(rotvec)
        return [turn.as_matrix(), turn.as_quat(), turn.apply(points), turn.magnitude()]

    return function


def turns_between(transform, make):
    def function(rotvecs, times):
        turns = transform.Rotation.from_rotvec(rotvecs)
        return make(np.arange(2).astype(rotvecs.dtype), turns)(times).as_matrix()

    return function


def lattice(source, shape):
    a = symmetric(source, (3, 3))
    yield call(a, source((3,)))


def solver(name):
    return lambda p: (
        lambda a, b: getattr(p.scipy.sparse.linalg, name)(lambda x: a @ x, b, tol=1e-7)[
            0
        ]
    )


def valley(source, shape):
    yield call(np.array([0.5, -0.5], source.dtype), np.array([1.0, 2.0], source.dtype))


def minimum(p):
    def function(start, best):
        cost = lambda x: p.numpy.sum((x - best) ** 2 * p.numpy.array([1.0, 3.0]))  # noqa: E731
        return p.scipy.optimize.minimize(cost, start, method="BFGS").x

    return function


INSIDE = {"grad": "of its loop, in JAX, in forward mode only"}
OTHERS = [
    *rows("integrate.trapezoid", areas, LINEAR, rank=(1, 3), least=1, tolerance=8),
    *rows("cluster.vq.vq", observations, SINGLE, tolerance=8, **ONE),
    *rows(
        "interpolate.RegularGridInterpolator",
        grids,
        SINGLE,
        tolerance=8,
        rank=(1, 1),
        of=lambda p: interpolator(p.scipy),
        reference=interpolator(scipy),
        without={"vmap": "its grid is checked", "jit": "its grid is checked"},
    ),
    *rows(
        "spatial.transform.Rotation",
        rotations,
        SINGLE,
        tolerance=8,
        rank=(1, 1),
        of=lambda p: turned(p.scipy),
        reference=turned(scipy),
    ),
    *rows(
        "spatial.transform.Slerp",
        lambda s, shape: [call(s((2, 3)), s((4,), low=0.1, high=0.9))],
        SINGLE,
        tolerance=8,
        rank=(1, 1),
        reference=turns_between(scipy.spatial.transform, scipy.spatial.transform.Slerp),
        of=lambda p: turns_between(
            p.scipy.spatial.transform, p.scipy.spatial.transform.Slerp.init
        ),
    ),
    *rows(
        "sparse.linalg.cg",
        lattice,
        SINGLE,
        tolerance=200,
        of=solver("cg"),
        reference=np.linalg.solve,
        **ONE,
    ),
    *rows(
        "sparse.linalg.bicgstab",
        lattice,
        SINGLE,
        tolerance=200,
        of=solver("bicgstab"),
        reference=np.linalg.solve,
        **ONE,
    ),
    *rows(
        "sparse.linalg.gmres",
        lattice,
        SINGLE,
        tolerance=200,
        of=solver("gmres"),
        reference=np.linalg.solve,
        without={"grad": "that of `cg`, slowly"},
        **ONE,
    ),
    *rows(
        "optimize.minimize",
        valley,
        ("float32",),
        tolerance=1e3,
        of=minimum,
        reference=lambda start, best: best,
        without=INSIDE,
        **ONE,
    ),
]


TABLE = [
    *within("scipy.fft", FFT),
    *within("scipy.signal", SIGNAL),
    *within("scipy", OTHERS),
]
