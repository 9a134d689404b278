"""Differential equations by Diffrax."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from benchmarks.programs import Program


def lotka_volterra() -> Program:
    """The gradient of a solution with steps of chosen size."""

    def field(t, y, args):
        a, b, c, d = args
        return jnp.stack([a * y[0] - b * y[0] * y[1], d * y[0] * y[1] - c * y[1]])

    def end(args):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            diffrax.Tsit5(),
            t0=0.0,
            t1=20.0,
            dt0=0.01,
            y0=jnp.array([10.0, 5.0]),
            args=args,
            stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-6),
            max_steps=4096,
        )
        return solution.ys[-1].sum()

    grad = jax.jit(jax.grad(end))
    args = jnp.array([0.8, 0.04, 0.5, 0.02])
    # A change that makes each call one of new values.
    return Program(
        (args, args),
        lambda state: (state[0] * 1.0001, grad(state[0])),
        lambda state: state[1],
        rtol=1e-2,
    )


def brownian() -> Program:
    """A stochastic equation along a virtual Brownian tree."""

    @jax.jit
    def solve(key):
        motion = diffrax.VirtualBrownianTree(0.0, 1.0, 1e-3, (), key)
        drift = diffrax.ODETerm(lambda t, y, args: -y)
        noise = diffrax.ControlTerm(lambda t, y, args: 0.1 * t, motion)
        solution = diffrax.diffeqsolve(
            diffrax.MultiTerm(drift, noise),
            diffrax.Euler(),
            t0=0.0,
            t1=1.0,
            dt0=0.005,
            y0=1.0,
            saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 1.0, 11)),
        )
        return solution.ys

    def step(state):
        key, own = jax.random.split(state[0])
        return key, solve(own)

    return Program((jax.random.key(0), None), step, lambda state: state[1])


def neural_ode() -> Program:
    class Field(eqx.Module):
        net: eqx.nn.MLP

        def __call__(self, t, y, args):
            return self.net(y)

    field = Field(eqx.nn.MLP(2, 2, 32, 2, jax.nn.softplus, key=jax.random.key(0)))
    ts = jnp.linspace(0.0, 2.0, 20)
    y0 = jax.random.normal(jax.random.key(1), (32, 2))
    target = jnp.stack([y0 * jnp.exp(-t) for t in ts], 1)
    optimiser = optax.adam(3e-3)

    def loss(field):
        def one(y):
            solution = diffrax.diffeqsolve(
                diffrax.ODETerm(field),
                diffrax.Tsit5(),
                ts[0],
                ts[-1],
                dt0=0.1,
                y0=y,
                saveat=diffrax.SaveAt(ts=ts),
                max_steps=64,
            )
            return solution.ys

        return ((jax.vmap(one)(y0) - target) ** 2).mean()

    @eqx.filter_jit
    def step(state):
        field, moments, _ = state
        value, grads = eqx.filter_value_and_grad(loss)(field)
        updates, moments = optimiser.update(grads, moments)
        return eqx.apply_updates(field, updates), moments, value

    moments = optimiser.init(eqx.filter(field, eqx.is_array))
    return Program((field, moments, jnp.zeros(())), step, lambda state: state[2])
