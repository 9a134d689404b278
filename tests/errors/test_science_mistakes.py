"""Linear algebra, statistics, rotations and images: mistakes and answers."""

import numpy as np
import pytest
from tests.errors.checks import check_message

import curta.numpy as jnp
from curta import image
from curta.scipy import linalg, special, stats
from curta.scipy.spatial.transform import Rotation

M = jnp.eye(3)
PHOTO = jnp.ones((3, 3))
NOT_HASHABLE = "Non-hashable static arguments are not supported."

MISTAKES = {
    "unknown operand": (
        lambda: linalg.cholesky("abc"),
        TypeError,
        "Error interpreting argument to <function _cholesky",
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
        "Error interpreting argument to <function _eigh",
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
    "axis of the mode": (
        lambda: stats.mode(jnp.ones(3), axis=[0]),
        ValueError,
        NOT_HASHABLE,
    ),
    "truncated normal": (
        lambda: stats.truncnorm.cdf("x", 0.0, 1.0),
        TypeError,
        "Error interpreting argument to <function cdf",
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
