"""Initial value problems against closed forms and SciPy."""

import numpy as np
import pytest
import scipy.integrate

import curta
import curta.numpy as jnp
from curta.experimental.ode import odeint
from curta.test_util import check_grads


@pytest.fixture(autouse=True)
def double():
    with curta.enable_x64(True):
        yield


T = np.linspace(0.0, 2.0, 7)


def pendulum(y, t, friction, weight):
    angle, speed = y
    return speed, -friction * speed - weight * jnp.sin(angle)


def test_against_closed_forms():
    y = odeint(lambda y, t: -y, np.array([1.0, 2.0]), T)
    np.testing.assert_allclose(y, np.exp(-T)[:, None] * [1, 2], rtol=1e-7)
    z = odeint(lambda y, t: 1j * y, np.array(1 + 0j), T)
    np.testing.assert_allclose(z, np.exp(1j * T), rtol=1e-6)
    forced = odeint(lambda y, t: 3 * t**2, np.array(0.0), T)
    np.testing.assert_allclose(forced, T**3, rtol=1e-7, atol=1e-9)


def test_pytrees_and_arguments():
    start = (np.array(np.pi - 0.1), np.array(0.0))
    angle, speed = curta.jit(lambda y: odeint(pendulum, y, T, 0.25, 9.8))(start)
    want = scipy.integrate.odeint(
        lambda y, t: [y[1], -0.25 * y[1] - 9.8 * np.sin(y[0])],
        [np.pi - 0.1, 0.0],
        T,
        rtol=1e-9,
        atol=1e-9,
    )
    np.testing.assert_allclose(angle, want[:, 0], rtol=1e-5)
    np.testing.assert_allclose(speed, want[:, 1], rtol=1e-5)


def test_derivatives():
    def end(y, t, friction, weight):
        return odeint(pendulum, y, t, friction, weight)

    args = ((np.array(0.4), np.array(0.1)), T[:3], 0.25, 2.0)
    check_grads(end, args, 1, modes=["rev"], rtol=1e-4, atol=1e-4)


def test_closures_have_derivatives():
    def area(rate):
        return odeint(lambda y, t: -rate * y, jnp.array(1.0), T)[-1]

    np.testing.assert_allclose(curta.grad(area)(0.7), -2 * np.exp(-1.4), rtol=1e-5)


def test_vmap():
    rates = np.array([0.5, 1.0, 2.0])
    y = curta.vmap(lambda r: odeint(lambda y, t: -r * y, jnp.array(1.0), T))(rates)
    np.testing.assert_allclose(y, np.exp(-rates[:, None] * T), rtol=1e-6)


def test_limits():
    calls = odeint(lambda y, t: -50 * y, np.array(1.0), T, mxstep=3)
    assert calls.shape == (7,)
    slow = odeint(lambda y, t: -y, np.array(1.0), T, hmax=0.01)
    np.testing.assert_allclose(slow, np.exp(-T), rtol=1e-9)


def test_mistakes():
    with pytest.raises(TypeError, match="contents of odeint .args must be arrays"):
        odeint(lambda y, t, s: y, 1.0, T, "text")
    with pytest.raises(TypeError, match="t must be an array of floats"):
        odeint(lambda y, t: y, 1.0, np.arange(3))
