"""Flax's nnx: training steps, and decoding with a cache of keys and values."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

from benchmarks.programs import Program

_RANDOM = np.random.default_rng(0)


def _training(model: Any, inputs: Any, labels: Any) -> Program:
    optimiser = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)

    @nnx.jit
    def train(model, optimiser):
        def of(model):
            logits = model(inputs)
            each = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
            return each.mean()

        value, grads = nnx.value_and_grad(of)(model)
        optimiser.update(model, grads)
        return value

    return Program(None, lambda _: train(model, optimiser), lambda value: value)


class _MLP(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(784, 256, rngs=rngs)
        self.norm = nnx.LayerNorm(256, rngs=rngs)
        self.last = nnx.Linear(256, 10, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.relu(self.norm(self.first(x))))


def mlp() -> Program:
    x = jnp.asarray(_RANDOM.normal(size=(128, 784)).astype(np.float32))
    labels = jnp.asarray(_RANDOM.integers(0, 10, 128))
    return _training(_MLP(nnx.Rngs(0)), x, labels)


class _Block(nnx.Module):
    def __init__(self, width, rngs):
        self.norms = nnx.List([nnx.LayerNorm(width, rngs=rngs) for _ in range(2)])
        self.attention = nnx.MultiHeadAttention(4, width, decode=False, rngs=rngs)
        self.wide = nnx.Linear(width, 4 * width, rngs=rngs)
        self.narrow = nnx.Linear(4 * width, width, rngs=rngs)

    def __call__(self, x, mask=None):
        x = x + self.attention(self.norms[0](x), mask=mask)
        return x + self.narrow(nnx.gelu(self.wide(self.norms[1](x))))


class _Transformer(nnx.Module):
    def __init__(self, words, width, depth, rngs):
        self.embed = nnx.Embed(words, width, rngs=rngs)
        self.blocks = nnx.List([_Block(width, rngs) for _ in range(depth)])
        self.head = nnx.Linear(width, words, rngs=rngs)

    def __call__(self, text, causal=True):
        x = self.embed(text)
        mask = nnx.make_causal_mask(text) if causal else None
        for block in self.blocks:
            x = block(x, mask)
        return self.head(x)


def transformer() -> Program:
    text = jnp.asarray(_RANDOM.integers(0, 128, (8, 64)))
    model = _Transformer(128, 64, 4, nnx.Rngs(0))
    return _training(model, text, jnp.roll(text, -1, 1))


def decode() -> Program:
    """Sixty-four words, one by one, for sixteen beginnings."""
    model = _Transformer(128, 64, 2, nnx.Rngs(0))
    for block in model.blocks:
        block.attention.set_attributes(decode=True)
        block.attention.init_cache((16, 64, 64))
    graph, params, cache = nnx.split(model, nnx.Param, ...)

    @jax.jit
    def generate(state):
        first, _ = state

        def one(carry, _):
            cache, word = carry
            model = nnx.merge(graph, params, cache)
            logits = model(word[:, None], causal=False)[:, 0]
            _, _, cache = nnx.split(model, nnx.Param, ...)
            word = logits.argmax(-1)
            return (cache, word), word

        _, text = jax.lax.scan(one, (cache, first), length=64)
        return text[-1], text

    first = jnp.arange(16)
    return Program((first, None), generate, lambda state: state[1], rtol=0)
