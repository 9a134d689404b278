"""Every optimizer finds a minimum, inside jit as outside; states are pytrees."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.example_libraries import optimizers

MAKERS = {
    "sgd": (0.1,),
    "momentum": (0.05, 0.8),
    "nesterov": (0.05, 0.8),
    "adagrad": (0.5,),
    "rmsprop": (0.05,),
    "rmsprop_momentum": (0.02,),
    "adam": (0.1,),
    "adamax": (0.1,),
    "sm3": (0.5,),
}


def loss(params):
    a, b = params["a"], params["b"][0]
    return jnp.sum((a - 2) ** 2) + jnp.sum((b + 1) ** 2)


@pytest.mark.parametrize("name", MAKERS)
def test_minimises(name):
    init, update, params = getattr(optimizers, name)(*MAKERS[name])
    state = init({"a": jnp.zeros(3), "b": [jnp.zeros((2, 2))]})

    @curta.jit
    def step(i, state):
        return update(i, curta.grad(loss)(params(state)), state)

    for i in range(250):
        state = step(i, state)
    found = params(state)
    np.testing.assert_allclose(found["a"], np.full(3, 2.0), atol=0.1)
    np.testing.assert_allclose(found["b"][0], np.full((2, 2), -1.0), atol=0.1)


def test_scalars_and_schedules():
    init, update, params = optimizers.sgd(optimizers.exponential_decay(0.5, 2, 0.25))
    state = init(8.0)
    state = update(2, 4.0, state)  # the step size is 0.125
    assert params(state) == 7.5


@pytest.mark.parametrize(
    "schedule, at, value",
    [
        (optimizers.constant(0.3), 9, 0.3),
        (optimizers.inverse_time_decay(1.0, 4, 2.0), 6, 0.25),
        (optimizers.inverse_time_decay(1.0, 4, 2.0, staircase=True), 6, 1 / 3),
        (optimizers.polynomial_decay(1.0, 10, 0.2), 5, 0.6),
        (optimizers.polynomial_decay(1.0, 10, 0.2, 2.0), 99, 0.2),
        (optimizers.piecewise_constant([5, 8], [1.0, 0.5, 0.1]), 6, 0.5),
    ],
)
def test_schedules(schedule, at, value):
    np.testing.assert_allclose(schedule(at), value, rtol=1e-6)
    np.testing.assert_allclose(curta.jit(schedule)(at), value, rtol=1e-6)


def test_clipping():
    grads = {"x": jnp.array([3.0, 0.0]), "y": jnp.array(4.0)}
    assert optimizers.l2_norm(grads) == 5
    clipped = optimizers.clip_grads(grads, 1.0)
    np.testing.assert_allclose(clipped["x"], [0.6, 0.0])
    assert optimizers.clip_grads(grads, 10.0)["y"] == 4


def test_packing():
    init, update, params = optimizers.momentum(0.1, 0.9)
    state = init([jnp.ones(2), jnp.zeros(3)])
    marked = optimizers.unpack_optimizer_state(state)
    assert isinstance(marked[0], optimizers.JoinPoint)
    again = optimizers.pack_optimizer_state(marked)
    np.testing.assert_array_equal(params(again)[0], [1, 1])


def test_mistakes():
    init, update, _ = optimizers.sgd(0.1)
    with pytest.raises(TypeError, match="gradient tree that did not match"):
        update(0, [1.0], init((1.0, 2.0)))
    with pytest.raises(TypeError):
        optimizers.make_schedule([0.1, 0.2])
    with pytest.raises(ValueError, match="one shorter than values length"):
        optimizers.piecewise_constant([1], [1.0])
