"""Associated Legendre functions against derivatives of Legendre polynomials."""

import math

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.scipy import special

Z = np.linspace(-0.9, 0.9, 7)
BOUND = 6


def expected(order, degree, z):
    """P_l^k(z) = (-1)^k sqrt(1 - z²)^k dᵏ/dzᵏ P_l(z)."""
    series = np.polynomial.Legendre.basis(degree).deriv(order)
    return (-1) ** order * (1 - z * z) ** (order / 2) * series(z)


pytestmark = pytest.mark.filterwarnings("ignore:.*lpmn:DeprecationWarning")


def test_values_and_derivatives():
    values, slopes = special.lpmn(BOUND, BOUND, jnp.asarray(Z, jnp.float32))
    assert values.shape == slopes.shape == (BOUND + 1, BOUND + 1, Z.size)
    step = 1e-6
    for order in range(BOUND + 1):
        for degree in range(BOUND + 1):
            want = expected(order, degree, Z)
            above, below = (expected(order, degree, Z + s) for s in (step, -step))
            np.testing.assert_allclose(values[order, degree], want, 2e-4, 2e-4)
            np.testing.assert_allclose(
                slopes[order, degree], (above - below) / (2 * step), 1e-3, 1e-3
            )


def test_normalised():
    values = special.lpmn_values(BOUND, BOUND, jnp.asarray(Z, jnp.float32), True)
    for order in range(BOUND + 1):
        for degree in range(order, BOUND + 1):
            ratio = math.factorial(degree - order) / math.factorial(degree + order)
            scale = math.sqrt((2 * degree + 1) / (4 * math.pi) * ratio)
            want = scale * expected(order, degree, Z)
            np.testing.assert_allclose(values[order, degree], want, 1e-5, 1e-5)


def test_slopes_at_the_ends():
    _, slopes = special.lpmn(3, 3, jnp.array([1.0, -1.0]))
    np.testing.assert_allclose(slopes[0, :, 0], [0, 1, 3, 6], 1e-6)
    ends = [np.inf, -np.inf]
    assert slopes[1, 1:].tolist() == [ends, [np.inf, np.inf], ends]
    assert slopes[3].tolist() == [[0, 0]] * 4


def test_bad_arguments():
    with pytest.raises(TypeError, match="z.dtype=int32 is not supported"):
        special.lpmn(1, 1, jnp.arange(3))
    with pytest.raises(ValueError, match="z must be a 1D array"):
        special.lpmn_values(1, 1, jnp.ones((2, 2)), True)
    with pytest.raises(NotImplementedError, match="m!=n are not yet supported"):
        special.lpmn(1, 2, jnp.ones(3))
    with pytest.raises(curta.errors.ConcretizationTypeError):
        curta.jit(lambda m: special.lpmn(m, m, jnp.ones(3)))(1)
    with pytest.raises(AttributeError, match="Use curta.scipy.special.sph_harm_y"):
        _ = special.sph_harm
