"""Programs with JAX and Optax alone."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.programs import Program


def adam_tree() -> Program:
    """Adam over three hundred donated arrays."""
    random = np.random.default_rng(0)
    shapes = [(3 + i % 50,) for i in range(300)]
    params = [jnp.asarray(random.normal(size=s).astype(np.float32)) for s in shapes]
    optimiser = optax.adam(1e-2)

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state):
        params, moments = state
        grads = jax.grad(lambda p: sum((x**2).sum() for x in p))(params)
        updates, moments = optimiser.update(grads, moments)
        return optax.apply_updates(params, updates), moments

    state = params, optimiser.init(params)
    return Program(state, step, lambda state: state[0])


def pendulums() -> Program:
    """Policy gradients of 1,024 pendulums, 100 steps each."""
    keys = jax.random.split(jax.random.key(0), 1024)
    sizes = (3, 32, 1)
    random = np.random.default_rng(0)
    params = [
        (jnp.asarray(random.normal(size=(n, m)).astype(np.float32)) * 0.3, jnp.zeros(m))
        for n, m in zip(sizes, sizes[1:])
    ]
    optimiser = optax.adam(1e-3)

    def policy(params, x):
        for w, b in params[:-1]:
            x = jnp.tanh(x @ w + b)
        w, b = params[-1]
        return jnp.tanh(x @ w + b)[0]

    def reward(params, key):
        angle, speed = jax.random.uniform(key, (2,), minval=-1.0)

        def turn(state, _):
            angle, speed = state
            x = jnp.stack([jnp.cos(angle), jnp.sin(angle), speed])
            push = 2.0 * policy(params, x)
            cost = angle**2 + 0.1 * speed**2 + 0.001 * push**2
            speed = jnp.clip(speed + 0.05 * (15.0 * jnp.sin(angle) + 3.0 * push), -8, 8)
            return (angle + 0.05 * speed, speed), -cost

        return jax.lax.scan(turn, (angle, speed), None, 100)[1].mean()

    @jax.jit
    def step(state):
        params, moments, _ = state
        of = lambda p: -jax.vmap(reward, (None, 0))(p, keys).mean()  # noqa: E731
        value, grads = jax.value_and_grad(of)(params)
        clipped = jax.tree.map(lambda g: jnp.clip(g, -1, 1), grads)
        updates, moments = optimiser.update(clipped, moments)
        return optax.apply_updates(params, updates), moments, value

    state = params, optimiser.init(params), jnp.zeros(())
    return Program(state, step, lambda state: state[2], rtol=1e-2)
