"""Neural ODE: learn an equation of motion from noisy orbits.

**Problem.** Given noisy orbits of the Van der Pol oscillator, find the vector field
that generates them.

**Model.** A network gives the velocity at each position (Chen et al., 2018).

**Method.** A Runge-Kutta method integrates the network. The error of the orbit is
differentiated through the integration.

**Result.** The learned field is integrated for a much longer time, from positions that
are not in the data.

**To try.** More noise, or fewer orbits.

    python examples/neural_ode.py [--steps 1500] [--out examples/out]
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from tqdm import tqdm

import curta as jax
import curta.numpy as jnp

HERE = Path(__file__).parent
DT = 0.1


def van_der_pol(y):
    return jnp.array([y[1], (1 - y[0] ** 2) * y[1] - y[0]])


def init(key, sizes=(2, 64, 64, 2)):
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"w": jax.random.normal(k, (m, n)) / jnp.sqrt(m), "b": jnp.zeros(n)}
        for k, m, n in zip(keys, sizes, sizes[1:])
    ]


def network(params, y):
    *hidden, last = params
    for layer in hidden:
        y = jnp.tanh(y @ layer["w"] + layer["b"])
    return y @ last["w"] + last["b"]


def integrate(field, y, steps):
    """Places after each of `steps` steps of the classical Runge-Kutta method."""

    def step(y, _):
        a = field(y)
        b = field(y + DT / 2 * a)
        c = field(y + DT / 2 * b)
        d = field(y + DT * c)
        y = y + DT / 6 * (a + 2 * b + 2 * c + d)
        return y, y

    return jax.lax.scan(step, y, None, steps)[1]


def loss(params, starts, orbits):
    steps = orbits.shape[1]
    run = jax.vmap(lambda y: integrate(lambda y: network(params, y), y, steps))
    return jnp.mean((run(starts) - orbits) ** 2)


@jax.jit
def train_step(params, mean, square, t, starts, orbits, rate):
    """A step of Adam."""
    value, grads = jax.value_and_grad(loss)(params, starts, orbits)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, grads)

    def move(p, m, s):
        return p - rate * (m / (1 - 0.9**t)) / (jnp.sqrt(s / (1 - 0.999**t)) + 1e-8)

    return jax.tree.map(move, params, mean, square), mean, square, value


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args(arguments)
    start_key, noise_key, init_key = jax.random.split(jax.random.key(0), 3)
    starts = jax.random.uniform(start_key, (64, 2), minval=-3.0, maxval=3.0)
    orbits = jax.vmap(lambda y: integrate(van_der_pol, y, 20))(starts)
    orbits = orbits + 0.02 * jax.random.normal(noise_key, orbits.shape)

    params = init(init_key)
    mean = square = jax.tree.map(jnp.zeros_like, params)
    values = []
    for i in tqdm(range(options.steps), unit="step"):
        rate = 3e-3 * (1 - i / options.steps)
        state = params, mean, square, i + 1.0, starts, orbits, rate
        params, mean, square, value = train_step(*state)
        values.append(value)
    print(f"mean squared error: {float(values[0]):.4f} -> {float(values[-1]):.5f}")

    fresh = jnp.array([[0.5, 0.5], [-2.5, 2.0], [2.8, -2.5]])
    truth = jax.vmap(lambda y: integrate(van_der_pol, y, 300))(fresh)
    learned = jax.vmap(lambda y: integrate(lambda y: network(params, y), y, 300))(fresh)
    errors = jnp.abs(truth - learned).max(axis=(0, 2))
    print(f"error after 2 time units: {float(errors[19]):.3f}, as long as the data")
    print(f"after 10: {float(errors[99]):.3f}, after 30: {float(errors[299]):.3f}")
    figure, axes = plt.subplots(1, 2, figsize=(11, 4))
    axes[0].semilogy(jnp.stack(values))
    axes[0].set_title("training error")
    for a, b in zip(truth, learned):
        axes[1].plot(*a.T, "k", linewidth=2.5, alpha=0.25)
        axes[1].plot(*b.T, linewidth=1)
    axes[1].set_title("orbits: true (gray) and learned")
    options.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out / "neural_ode.png", dpi=100, bbox_inches="tight")


if __name__ == "__main__":
    main()
