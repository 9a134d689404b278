"""Linear algebra, statistics, rotations and images: mistakes and answers."""

import numpy as np
import pytest
from tests.errors.checks import check_message

import curta.numpy as jnp
from curta import image, nn, random
from curta.scipy import fft, linalg, ndimage, signal, special, stats
from curta.scipy.spatial.transform import Rotation

M = jnp.eye(3)
PHOTO = jnp.ones((3, 3))
NOT_HASHABLE = "Non-hashable static arguments are not supported."

MISTAKES = {
    "unknown operand": (
        lambda: linalg.cholesky("abc"),
        TypeError,
        "Error interpreting argument to cholesky as",
    ),
    "array as a flag": (
        lambda: linalg.solve(M, jnp.ones(3), lower=jnp.array(True)),
        ValueError,
        NOT_HASHABLE,
    ),
    "list as a flag": (lambda: linalg.lu(M, permute_l=[]), ValueError, NOT_HASHABLE),
    "text as a second matrix": (
        lambda: linalg.eigh(M, "abc"),
        TypeError,
        "Error interpreting argument to eigh as",
    ),
    "integers": (
        lambda: linalg.schur(jnp.eye(2, dtype=int)),
        TypeError,
        "schur does not accept dtype int32",
    ),
    "booleans": (
        lambda: linalg.hadamard(4, dtype=bool),
        TypeError,
        "neg does not accept dtype bool",
    ),
    "list": (lambda: linalg.det([1.0]), TypeError, "jnp.linalg.det requires ndarray"),
    "complex direction": (
        lambda: linalg.expm_frechet(M * 1j, M),
        TypeError,
        "primal and tangent arguments to jax.jvp do not match",
    ),
    "blocks": (
        lambda: linalg.block_diag(jnp.ones((2, 2, 2))),
        ValueError,
        "Arguments to jax.scipy.linalg.block_diag must have at most 2 dimensions",
    ),
    "transposition": (
        lambda: linalg.lu_solve((M, jnp.arange(3)), jnp.ones(3), trans=5),
        ValueError,
        "'trans' value must be 0, 1, or 2, got 5",
    ),
    "diagonals that do not fit": (
        lambda: linalg.eigh_tridiagonal(jnp.ones(3), jnp.ones(5)),
        TypeError,
        "eigh_tridiagonal got incompatible shapes",
    ),
    "two diagonals of a batch": (
        lambda: linalg.eigh_tridiagonal(jnp.ones((3, 3)), jnp.ones(2)),
        TypeError,
        "eigh_tridiagonal got incompatible shapes",
    ),
    "tolerances": (
        lambda: linalg.eigh_tridiagonal(jnp.ones(3), jnp.ones(2), tol=jnp.ones(2)),
        TypeError,
        "eigh_tridiagonal takes tol as one real number",
    ),
    "text as a key": (
        lambda: linalg.eigh_tridiagonal(jnp.ones(3), jnp.ones(2), key="x"),
        TypeError,
        "Error interpreting argument to eigh_tridiagonal as",
    ),
    "eigenvalues that are not there": (
        lambda: linalg.eigh_tridiagonal(
            jnp.ones(3), jnp.ones(2), select="i", select_range=(0, 9)
        ),
        ValueError,
        "select_range=(0, 9) has indices outside of 0 ... 2",
    ),
    "steps as text": (
        lambda: linalg.polar(M, max_iterations="x"),
        ValueError,
        "invalid literal for int()",
    ),
    "precision of nothing": (
        lambda: linalg.polar(M, eps=0.0),
        ValueError,
        "qdwh expects eps > 0",
    ),
    "numbers as matrices": (
        lambda: linalg.sqrtm(2.5),
        TypeError,
        "Input 0 to schur must have rank at least 2",
    ),
    "eight-bit exponential": (
        lambda: linalg.expm(jnp.ones((3, 3), jnp.float8_e4m3fn)),
        TypeError,
        "A.dtype=float8_e4m3fn is not supported",
    ),
    "no size": (
        lambda: linalg.dft(None),
        TypeError,
        "dft takes the size n as a number, got None",
    ),
    "size as text": (
        lambda: linalg.invpascal("2"),
        TypeError,
        "pascal takes the size n as a number",
    ),
    "right side of another length": (
        lambda: linalg.solve(M, jnp.ones(4), assume_a="pos"),
        ValueError,
        "The arguments to solve must have shapes",
    ),
    "vectors as matrices": (
        lambda: jnp.linalg.solve(jnp.ones((5, 3, 3)), jnp.ones((5, 3))),
        ValueError,
        "Invalid shapes for solve: (5, 3, 3), (5, 3).",
    ),
    "one axis for a sequence": (
        lambda: jnp.linalg.tensorsolve(jnp.eye(4).reshape(2, 2, 4), M[:2, :2], axes=2),
        TypeError,
        "tensorsolve takes axes as a sequence of integers, got 2",
    ),
    "an axis twice": (
        lambda: jnp.linalg.norm(M, "fro", axis=(0, 0)),
        ValueError,
        "duplicate value in 'axis'",
    ),
    "keys as numbers": (
        lambda: jnp.linalg.vector_norm(random.key(0)),
        TypeError,
        "Cannot interpret 'key<fry>' as a data type of numbers",
    ),
    "nothing to transform": (
        lambda: fft.dct(jnp.ones(0)),
        ValueError,
        "jax.scipy.fft.dct takes at least one element along the axes",
    ),
    "norm of a transform": (
        lambda: fft.idctn(M, norm="nope"),
        ValueError,
        "jax.scipy.fft.idctn: norm='nope' is not implemented",
    ),
    "transform of a number": (
        lambda: fft.dct(2.5, n=4),
        ValueError,
        "axis -1 is out of bounds for array of dimension 0",
    ),
    "lengths that are no integers": (
        lambda: fft.dctn(M, s=(2.0,)),
        TypeError,
        "Shapes must be 1D sequences of concrete values of integer type",
    ),
    "axis of the mode": (
        lambda: stats.mode(jnp.ones(3), axis=[0]),
        ValueError,
        NOT_HASHABLE,
    ),
    "truncated normal": (
        lambda: stats.truncnorm.cdf("x", 0.0, 1.0),
        TypeError,
        "Error interpreting argument to cdf as",
    ),
    "order": (lambda: special.bessel_jn(1.0, v=[1]), ValueError, NOT_HASHABLE),
    "rotation matrix": (
        lambda: Rotation.from_matrix(jnp.ones((2, 3, 4))),
        ValueError,
        "inconsistent size for core dimension",
    ),
    "angles": (
        lambda: Rotation.from_euler("xyz", [1.0, 2.0, 3.0]),
        TypeError,
        "atleast_1d requires ndarray or scalar arguments",
    ),
    "size of an image": (
        lambda: image.resize(PHOTO, 5, "linear"),
        ValueError,
        "shape must have length equal to the number of dimensions of x",
    ),
    "method": (
        lambda: image.resize(PHOTO, (2, 2), 1),
        AssertionError,
        "method must be a ResizeMethod",
    ),
    "scales": (
        lambda: image.scale_and_translate(
            PHOTO, (2, 2), (0,), np.ones(2), np.ones(2), "linear"
        ),
        AssertionError,
        "scale_and_translate takes a scale and a translation for each",
    ),
    "no limit of a survival function": (
        lambda: stats.truncnorm.logsf(0.5, None, 1.0),
        TypeError,
        "truncnorm.logsf requires ndarray or scalar arguments",
    ),
    "counts in a list": (
        lambda: stats.multinomial.pmf([1, 2], 3, jnp.ones(2) / 2),
        TypeError,
        "multinomial.logpmf requires ndarray or scalar arguments",
    ),
    "counts of other categories": (
        lambda: stats.multinomial.pmf(jnp.arange(3), 3, jnp.ones(2) / 2),
        TypeError,
        "or got incompatible shapes for broadcasting: (3,), (2,)",
    ),
    "text beyond": (
        lambda: stats.expon.sf("abc"),
        TypeError,
        "expon.sf requires ndarray or scalar arguments",
    ),
    "no parameter": (
        lambda: special.expn(2, None),
        TypeError,
        "expn requires ndarray or scalar arguments",
    ),
    "covariance of another size": (
        lambda: stats.multivariate_normal.logpdf(jnp.ones(3), jnp.ones(4), jnp.eye(3)),
        ValueError,
        "multivariate_normal.logpdf got incompatible shapes",
    ),
    "complex share": (
        lambda: stats.beta.sf(1j, 1.0, 2.0),
        ValueError,
        "beta.sf does not support complex-valued inputs.",
    ),
    "integral quantile": (
        lambda: stats.norm.ppf(1),
        TypeError,
        "x.dtype=int32 is not supported",
    ),
    "list of quantiles": (
        lambda: special.ndtri([0.1, 0.2]),
        TypeError,
        "Cannot determine dtype of [0.1, 0.2]",
    ),
    "order of a symbol": (
        lambda: special.poch(2.0, None),
        TypeError,
        "poch requires ndarray or scalar arguments",
    ),
    "fractional degree": (
        lambda: special.sph_harm_y(jnp.ones(1), 1, 0.5, 0.5, n_max=2),
        TypeError,
        "Indexer must have integer or boolean type, got indexer with type float32",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_message(name):
    mistake, kind, opening = MISTAKES[name]
    check_message(mistake, kind, opening, "")


def test_nothing_has_no_mode():
    assert stats.mode(jnp.ones((0, 3))).mode.shape == (3,)
    assert np.isnan(stats.mode(jnp.ones(0)).mode)


def test_angles_in_degrees_by_a_traced_flag():
    quat = Rotation.from_euler("x", jnp.array([90.0]), degrees=jnp.array(True))
    np.testing.assert_allclose(quat.as_quat()[0], np.sqrt(0.5), rtol=1e-6)


@pytest.mark.parametrize(
    "distribution, comparison",
    [
        (stats.expon, "lt"), (stats.uniform, "gt"), (stats.gumbel_l, "gt"),
        (stats.gumbel_r, "gt"), (stats.bernoulli, "lt"), (stats.geom, "le"),
        (stats.laplace, "le"), (stats.pareto, "lt"), (stats.wrapcauchy, "gt"),
    ],
)  # fmt: skip
def test_complex_numbers_have_no_order(distribution, comparison):
    name = "cdf" if distribution is stats.laplace else "logpdf"
    function = getattr(distribution, name, None) or distribution.logpmf
    parameters = (0.5,) if distribution in (
        stats.bernoulli, stats.geom, stats.pareto, stats.wrapcauchy
    ) else ()  # fmt: skip
    with pytest.raises(
        TypeError, match=f"{comparison} does not accept dtype complex64"
    ):
        function(1j, *parameters)


def test_one_count_stands_for_all_categories():
    assert stats.multinomial.pmf(1, 2, jnp.ones(2) / 2) == 0.5


@pytest.mark.parametrize(
    ("mistake", "kind", "opening", "help"),
    [
        (
            lambda: linalg.lu_solve(3, jnp.ones(3)),
            TypeError,
            "cannot unpack non-iterable int object",
            "lu_solve takes lu_and_piv as a pair",
        ),
        (
            lambda: linalg.cho_solve((1, 2, 3), jnp.ones(3)),
            ValueError,
            "too many values to unpack",
            "cho_solve takes c_and_lower as a pair",
        ),
        (
            lambda: ndimage.map_coordinates(jnp.ones((3, 3)), 3, 1),
            TypeError,
            "iteration over a 0-d array",
            "one array for each dim of input",
        ),
        (
            lambda: stats.gaussian_kde(jnp.arange(6.0), bw_method=object()),
            ValueError,
            "`bw_method` should be 'scott', 'silverman', a scalar, or a callable",
            "",
        ),
        (
            lambda: stats.gaussian_kde(jnp.arange(6.0)).integrate_box_1d("x", 1),
            TypeError,
            "gaussian_kde.integrate_box_1d requires ndarray or scalar arguments",
            "",
        ),
        (
            lambda: nn.scaled_dot_general(
                jnp.ones((4, 32)),
                jnp.ones((32, 4)),
                (((1,), (0,)), ((), ())),
                configs=["x"],
            ),
            TypeError,
            "scaled_dot_general takes configs as a sequence of BlockScaleConfig",
            "",
        ),
        (
            lambda: nn.initializers.normal()((2, 3)),
            TypeError,
            "normal.<locals>.init() missing 1 required positional argument: 'shape'",
            "",
        ),
    ],
)
def test_what_functions_take(mistake, kind, opening, help):
    check_message(mistake, kind, opening, help)


@pytest.mark.parametrize("function", [stats.sem, signal.detrend])
def test_an_axis_that_is_not_there_is_named(function):
    name = f"{function.__name__} axis"
    with pytest.raises(IndexError, match=rf"{name} 5 is out of range .* \(3,\)"):
        function(jnp.ones(3), axis=5)
    with pytest.raises(TypeError, match=name):
        function(jnp.ones(3), axis="a")


@pytest.mark.parametrize("axes", [np.array([0]), jnp.array([0]), [0], 0])
def test_axes_of_a_convolution_may_be_an_array(axes):
    x = jnp.ones((3, 2))
    assert signal.fftconvolve(x, x, axes=axes).shape == (5, 2)


def test_coordinates_are_broadcast():
    x, rows = jnp.arange(9.0).reshape(3, 3), jnp.array([0, 1])
    assert ndimage.map_coordinates(x, [rows, 2.0], 1).tolist() == [2.0, 5.0]
