"""Samplers of BlackJAX."""

from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.programs import Program

_RANDOM = np.random.default_rng(0)


def _sampling(kernel: Any, count: int) -> Program:
    start = kernel.init(jnp.zeros(10))

    @jax.jit
    def run(state):
        key, own = jax.random.split(state[0])
        keys = jax.random.split(own, count)
        last, positions = jax.lax.scan(
            lambda s, k: ((s := kernel.step(k, s)[0]), s.position), state[1], keys
        )
        return key, last, positions.mean(0)

    state = jax.random.key(0), start, None
    return Program(state, run, lambda state: state[2], rtol=0.3)


def _density(x):
    scales = jnp.linspace(0.5, 2.0, 10)
    return -0.5 * (((x - 1.0) / scales) ** 2).sum()


def hmc() -> Program:
    masses = jnp.ones(10)
    return _sampling(blackjax.hmc(_density, 0.1, masses, 20), 500)


def nuts() -> Program:
    return _sampling(blackjax.nuts(_density, 0.2, jnp.ones(10)), 200)
