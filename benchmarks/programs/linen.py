"""Training steps of Flax's linen modules with Optax."""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.programs import Program

_RANDOM = np.random.default_rng(0)


def _training(model: nn.Module, x: Any, loss: Any, **options: Any) -> Program:
    """Adam on one batch; what it answers is the loss."""
    key = jax.random.key(0)
    variables = model.init(key, x, **options)
    params = variables.pop("params")
    optimiser = optax.adam(1e-3)

    @jax.jit
    def step(state):
        params, rest, moments, key, _ = state
        key, own = jax.random.split(key)

        def of(params):
            rngs = {"noise": own}
            given = {"params": params, **rest}
            mutable = list(rest)
            out = model.apply(given, x, rngs=rngs, mutable=mutable, **options)
            return loss(out[0]), out[1]

        (value, rest), grads = jax.value_and_grad(of, has_aux=True)(params)
        updates, moments = optimiser.update(grads, moments)
        return optax.apply_updates(params, updates), rest, moments, key, value

    state = params, variables, optimiser.init(params), key, jnp.zeros(())
    return Program(state, step, lambda state: state[4])


def _cross_entropy(labels: Any) -> Any:
    def loss(logits):
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    return loss


def _images(count: int, size: int, channels: int) -> Any:
    shape = count, size, size, channels
    return jnp.asarray(_RANDOM.normal(size=shape).astype(np.float32))


def _labels(*shape: int) -> Any:
    return jnp.asarray(_RANDOM.integers(0, 10, shape))


class _MLP(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width in (256, 256):
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(10)(x)


def mlp() -> Program:
    x = jnp.asarray(_RANDOM.normal(size=(128, 784)).astype(np.float32))
    return _training(_MLP(), x, _cross_entropy(_labels(128)))


class _CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        for features in (16, 32):
            x = nn.relu(nn.Conv(features, (3, 3))(x))
            x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = x.reshape(x.shape[0], -1)
        return nn.Dense(10)(nn.relu(nn.Dense(128)(x)))


def cnn() -> Program:
    return _training(_CNN(), _images(64, 28, 1), _cross_entropy(_labels(64)))


class _Residual(nn.Module):
    features: int
    stride: int

    @nn.compact
    def __call__(self, x):
        strides = (self.stride, self.stride)
        y = nn.Conv(self.features, (3, 3), strides, use_bias=False)(x)
        y = nn.relu(nn.BatchNorm(use_running_average=False)(y))
        y = nn.Conv(self.features, (3, 3), use_bias=False)(y)
        y = nn.BatchNorm(use_running_average=False)(y)
        if y.shape != x.shape:
            x = nn.Conv(self.features, (1, 1), strides, use_bias=False)(x)
        return nn.relu(x + y)


class _ResNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(16, (3, 3), use_bias=False)(x))
        for features, stride in ((16, 1), (32, 2), (64, 2)):
            x = _Residual(features, stride)(x)
        return nn.Dense(10)(x.mean((1, 2)))


def resnet() -> Program:
    return _training(_ResNet(), _images(16, 32, 3), _cross_entropy(_labels(16)))


class _UNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        skips = []
        for features in (8, 16):
            x = nn.relu(nn.GroupNorm(4)(nn.Conv(features, (3, 3))(x)))
            skips.append(x)
            x = nn.avg_pool(x, (2, 2), strides=(2, 2))
        x = nn.relu(nn.Conv(32, (3, 3))(x))
        for features in (16, 8):
            size = x.shape[1] * 2
            x = jax.image.resize(x, (x.shape[0], size, size, x.shape[3]), "nearest")
            x = jnp.concatenate([x, skips.pop()], axis=-1)
            x = nn.relu(nn.GroupNorm(4)(nn.Conv(features, (3, 3))(x)))
        return nn.Conv(1, (1, 1))(x)


def unet() -> Program:
    x = _images(8, 32, 1)
    return _training(_UNet(), x, lambda y: ((y - x) ** 2).mean())


class _VAE(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.relu(nn.Dense(256)(x))
        mean, log_variance = nn.Dense(16)(h), nn.Dense(16)(h)
        noise = jax.random.normal(self.make_rng("noise"), mean.shape)
        z = mean + jnp.exp(0.5 * log_variance) * noise
        logits = nn.Dense(x.shape[1])(nn.relu(nn.Dense(256)(z)))
        divergence = 0.5 * (jnp.exp(log_variance) + mean**2 - 1.0 - log_variance)
        return logits, divergence.sum(1)


def vae() -> Program:
    x = jnp.asarray(_RANDOM.uniform(size=(128, 784)).astype(np.float32))

    def loss(out):
        logits, divergence = out
        each = optax.sigmoid_binary_cross_entropy(logits, x).sum(1)
        return (each + divergence).mean()

    model = _VAE()
    key = jax.random.key(1)
    variables = model.init({"params": key, "noise": key}, x)
    optimiser = optax.adam(1e-3)

    @jax.jit
    def step(state):
        params, moments, key, _ = state
        key, own = jax.random.split(key)
        of = lambda p: loss(model.apply({"params": p}, x, rngs={"noise": own}))  # noqa: E731
        value, grads = jax.value_and_grad(of)(params)
        updates, moments = optimiser.update(grads, moments)
        return optax.apply_updates(params, updates), moments, key, value

    params = variables["params"]
    state = params, optimiser.init(params), key, jnp.zeros(())
    return Program(state, step, lambda state: state[3])


class _GRU(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Embed(64, 32)(x)
        return nn.Dense(64)(nn.RNN(nn.GRUCell(64))(x))


def gru() -> Program:
    text = jnp.asarray(_RANDOM.integers(0, 64, (32, 50)))
    return _training(_GRU(), text, _cross_entropy(jnp.roll(text, -1, 1)))
