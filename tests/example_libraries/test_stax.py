"""Layers give the shapes that they announce, and the values that they should."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import random
from curta.example_libraries import stax

KEY = random.key(0)
X = np.random.default_rng(0).normal(size=(2, 8, 9, 3)).astype(np.float32)

LAYERS = {
    "Dense": stax.Dense(4),
    "Conv": stax.Conv(5, (3, 2), (2, 1), "SAME"),
    "ConvTranspose": stax.ConvTranspose(5, (3, 3), (2, 2)),
    "BatchNorm": stax.BatchNorm(),
    "BatchNorm, scaled only": stax.BatchNorm(center=False),
    "MaxPool": stax.MaxPool((2, 3), (2, 2)),
    "SumPool": stax.SumPool((2, 3), padding="SAME"),
    "AvgPool": stax.AvgPool((3, 3), (1, 2), "SAME"),
    "Flatten": stax.Flatten,
    "Identity": stax.Identity,
    "Dropout": stax.Dropout(0.5),
    "serial": stax.serial(stax.Conv(2, (3, 3)), stax.Relu, stax.Flatten, stax.Dense(3)),
    "shape_dependent": stax.shape_dependent(lambda shape: stax.Dense(shape[-1])),
    **{
        name: getattr(stax, name)
        for name in (
            *("Tanh", "Relu", "Exp", "LogSoftmax", "Softmax", "Softplus", "Sigmoid"),
            *("Elu", "LeakyRelu", "Selu", "Gelu"),
        )
    },
}


@pytest.mark.parametrize("name", LAYERS)
def test_shapes(name):
    init, apply = LAYERS[name]
    shape, params = init(KEY, X.shape)
    out = curta.jit(apply)(params, X, rng=KEY)
    assert out.shape == tuple(shape)
    assert np.isfinite(out).all()


def test_pooling():
    _, apply = stax.AvgPool((2, 2), padding="SAME")
    ones = apply((), np.ones((1, 3, 3, 1), np.float32))
    np.testing.assert_allclose(ones, 1.0)  # also where windows leave the image
    _, apply = stax.MaxPool((8, 9))
    np.testing.assert_array_equal(apply((), X)[:, 0, 0], X.max((1, 2)))


def test_fans():
    layer = stax.serial(
        stax.FanOut(2), stax.parallel(stax.Identity, stax.Dense(3)), stax.FanInConcat()
    )
    shape, params = layer[0](KEY, (5, 4))
    out = layer[1](params, np.ones((5, 4), np.float32))
    assert shape == out.shape == (5, 7)
    layer = stax.serial(stax.FanOut(3), stax.FanInSum)
    _, params = layer[0](KEY, (5, 4))
    assert np.all(layer[1](params, np.ones((5, 4))) == 3)


def test_batch_norm():
    init, apply = stax.BatchNorm()
    out = apply(init(KEY, X.shape)[1], X)
    np.testing.assert_allclose(out.mean((0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(out.std((0, 1, 2)), 1, atol=1e-3)


def test_dropout():
    _, apply = stax.Dropout(0.8, mode="test")
    assert apply((), X, rng=KEY) is X
    _, apply = stax.Dropout(0.8)
    out = apply((), np.ones(10000, np.float32), rng=KEY)
    np.testing.assert_allclose(out.mean(), 1, atol=0.05)
    with pytest.raises(ValueError, match="requires apply_fun to be called with a PRNG"):
        apply((), X)


def test_training():
    init, apply = stax.serial(stax.Dense(16), stax.Tanh, stax.Dense(1))
    _, params = init(KEY, (-1, 1))
    x = jnp.linspace(-2, 2, 64)[:, None]

    def loss(params):
        return jnp.mean((apply(params, x) - jnp.sin(x)) ** 2)

    before = loss(params)
    step = curta.jit(curta.grad(loss))
    for _ in range(200):
        params = curta.tree.map(lambda p, g: p - 0.1 * g, params, step(params))
    assert loss(params) < 0.1 * before
