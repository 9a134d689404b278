"""Training steps of Haiku's modules."""

from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.programs import Program

_RANDOM = np.random.default_rng(0)


def _training(net: Any, x: Any, labels: Any) -> Program:
    transformed = hk.without_apply_rng(hk.transform(net))
    params = transformed.init(jax.random.key(0), x)
    optimiser = optax.sgd(1e-2, momentum=0.9)

    def loss(params):
        logits = transformed.apply(params, x)
        each = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return each.mean()

    @jax.jit
    def step(state):
        params, moments, _ = state
        value, grads = jax.value_and_grad(loss)(params)
        updates, moments = optimiser.update(grads, moments)
        return optax.apply_updates(params, updates), moments, value

    state = params, optimiser.init(params), jnp.zeros(())
    return Program(state, step, lambda state: state[2])


def mlp() -> Program:
    x = jnp.asarray(_RANDOM.normal(size=(256, 64)).astype(np.float32))
    labels = jnp.asarray(_RANDOM.integers(0, 10, 256))
    return _training(lambda x: hk.nets.MLP([300, 100, 10])(x), x, labels)


def lstm() -> Program:
    text = jnp.asarray(_RANDOM.integers(0, 64, (40, 32)))

    def net(text):
        core = hk.LSTM(64)
        x = hk.Embed(64, 32)(text)
        x, _ = hk.dynamic_unroll(core, x, core.initial_state(text.shape[1]))
        return hk.BatchApply(hk.Linear(64))(x)

    return _training(net, text, jnp.roll(text, -1, 0))


def attention() -> Program:
    text = jnp.asarray(_RANDOM.integers(0, 64, (8, 64)))

    def net(text):
        x = hk.Embed(64, 64)(text)
        start = hk.initializers.VarianceScaling(1.0)
        for _ in range(3):
            y = hk.LayerNorm(-1, True, True)(x)
            x = x + hk.MultiHeadAttention(4, 16, w_init=start)(y, y, y)
            y = hk.LayerNorm(-1, True, True)(x)
            x = x + hk.Linear(64)(jax.nn.gelu(hk.Linear(256)(y)))
        return hk.Linear(64)(x)

    return _training(net, text, jnp.roll(text, -1, 1))
