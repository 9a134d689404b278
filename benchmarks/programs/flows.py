"""A normalizing flow by Distrax."""

import distrax
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.programs import Program


def real_nvp() -> Program:
    random = np.random.default_rng(0)
    angles = random.uniform(0, np.pi, 512)
    moons = (
        np.stack([np.cos(angles), np.sin(angles)], 1)
        + random.normal(size=(512, 2)) / 20
    )
    x = jnp.asarray(moons.astype(np.float32))

    def flow():
        layers = []
        for i in range(6):
            net = hk.Sequential(
                [hk.nets.MLP([32, 32], activate_final=True), hk.Linear(4)]
            )

            def affine(params):
                shift, scale = jnp.split(params, 2, -1)
                return distrax.ScalarAffine(shift, log_scale=jnp.tanh(scale))

            mask = jnp.arange(2) % 2 == i % 2
            layers.append(distrax.MaskedCoupling(mask, net, affine))
        base = distrax.MultivariateNormalDiag(jnp.zeros(2), jnp.ones(2))
        return distrax.Transformed(base, distrax.Inverse(distrax.Chain(layers)))

    transformed = hk.without_apply_rng(hk.transform(lambda x: flow().log_prob(x)))
    params = transformed.init(jax.random.key(0), x)
    optimiser = optax.adam(1e-3)

    @jax.jit
    def step(state):
        params, moments, _ = state
        loss = lambda p: -transformed.apply(p, x).mean()  # noqa: E731
        value, grads = jax.value_and_grad(loss)(params)
        updates, moments = optimiser.update(grads, moments)
        return optax.apply_updates(params, updates), moments, value

    state = params, optimiser.init(params), jnp.zeros(())
    return Program(state, step, lambda state: state[2])
