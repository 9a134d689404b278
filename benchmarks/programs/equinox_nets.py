"""Training steps of Equinox's modules."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.programs import Program

_RANDOM = np.random.default_rng(0)


def _training(model: Any, x: Any, labels: Any) -> Program:
    optimiser = optax.adam(1e-3)

    def loss(model):
        logits = jax.vmap(model)(x)
        each = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return each.mean()

    @eqx.filter_jit
    def step(state):
        model, moments, _ = state
        value, grads = eqx.filter_value_and_grad(loss)(model)
        updates, moments = optimiser.update(grads, moments)
        return eqx.apply_updates(model, updates), moments, value

    moments = optimiser.init(eqx.filter(model, eqx.is_array))
    return Program((model, moments, jnp.zeros(())), step, lambda state: state[2])


def mlp() -> Program:
    x = jnp.asarray(_RANDOM.normal(size=(128, 64)).astype(np.float32))
    labels = jnp.asarray(_RANDOM.integers(0, 10, 128))
    model = eqx.nn.MLP(64, 10, 128, 4, key=jax.random.key(0))
    return _training(model, x, labels)


def cnn() -> Program:
    x = jnp.asarray(_RANDOM.normal(size=(64, 1, 28, 28)).astype(np.float32))
    labels = jnp.asarray(_RANDOM.integers(0, 10, 64))
    keys = jax.random.split(jax.random.key(0), 2)
    model = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(1, 8, 4, key=keys[0]),
            eqx.nn.MaxPool2d(2, 2),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(8 * 12 * 12, 10, key=keys[1]),
        ]
    )
    return _training(model, x, labels)
