"""Normalizing flow: transform a normal distribution into the data's distribution.

**Problem.** Estimate a density from samples, exactly and with a way to draw new ones.

**Model.** Eight layers. Each shifts and scales one coordinate by a small network of the
other coordinate (Real NVP, Dinh et al., 2017). A layer is invertible and its change of
volume is known, so the exact likelihood is available.

**Method.** Maximize the likelihood by Adam, with a `scan` over layers. New points are
normal draws sent through the inverse layers.

**Result.** The picture shows the data, new points, and the density.

**To try.** Other data: write a function that draws points in the plane.

    python examples/flow.py [--steps 1500] [--out examples/out]
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
LAYERS, WIDTH, BATCH = 8, 64, 512


def moons(key, count):
    """Points of two half circles that reach into each other."""
    turn_key, noise_key = jax.random.split(key)
    turns = jax.random.uniform(turn_key, (count,)) * jnp.pi
    upper = jnp.arange(count) % 2 == 0
    x = jnp.where(upper, jnp.cos(turns), 1 - jnp.cos(turns)) - 0.5
    y = jnp.where(upper, jnp.sin(turns), 0.5 - jnp.sin(turns)) - 0.25
    return jnp.stack([x, y], 1) + 0.06 * jax.random.normal(noise_key, (count, 2))


def init(key):
    """All layers in arrays with a leading dim, as `scan` takes them."""
    k1, k2 = jax.random.split(key)
    return {
        "w1": jax.random.normal(k1, (LAYERS, 1, WIDTH)),
        "b1": jax.random.uniform(k2, (LAYERS, WIDTH), minval=-1.0, maxval=1.0),
        "w2": jnp.zeros((LAYERS, WIDTH, 2)),
        "b2": jnp.zeros((LAYERS, 2)),
    }


def bend(layer, other):
    """By how much the logarithm stretches, and how far it shifts."""
    hidden = jnp.tanh(other @ layer["w1"] + layer["b1"])
    stretch, shift = hidden @ layer["w2"] + layer["b2"]
    return 1.5 * jnp.tanh(stretch), shift


def to_normal(params, point):
    """Where a point comes from, and the logarithm of the volume's change."""

    def layer(carry, weights):
        (x, y), volume = carry
        stretch, shift = bend(weights, x[None])
        # The coordinates change places after each layer.
        return (jnp.stack([(y - shift) * jnp.exp(-stretch), x]), volume - stretch), None

    return jax.lax.scan(layer, (point, 0.0), params)[0]


def from_normal(params, point):
    """The inverse of `to_normal`."""

    def layer(point, weights):
        changed, x = point
        stretch, shift = bend(weights, x[None])
        return jnp.stack([x, changed * jnp.exp(stretch) + shift]), None

    return jax.lax.scan(layer, point, params, reverse=True)[0]


def log_density(params, point):
    source, volume = to_normal(params, point)
    return volume - 0.5 * jnp.sum(source**2) - jnp.log(2 * jnp.pi)


@jax.jit
def train_step(params, mean, square, t, key, rate):
    """A step of Adam on fresh points."""

    def loss(params):
        points = moons(key, BATCH)
        return -jnp.mean(jax.vmap(log_density, (None, 0))(params, points))

    value, grads = jax.value_and_grad(loss)(params)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, grads)

    def move(p, m, s):
        return p - rate * (m / (1 - 0.9**t)) / (jnp.sqrt(s / (1 - 0.999**t)) + 1e-8)

    return jax.tree.map(move, params, mean, square), mean, square, value


def draw(file, params, key):
    reach = jnp.linspace(-2, 2, 200)
    grid = jnp.stack(jnp.meshgrid(reach, reach), axis=-1).reshape(-1, 2)
    density = jnp.exp(jax.jit(jax.vmap(log_density, (None, 0)))(params, grid))
    normal = jax.random.normal(key, (2000, 2))
    drawn = jax.jit(jax.vmap(from_normal, (None, 0)))(params, normal)
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), sharex=True, sharey=True)
    axes[0].scatter(*moons(key, 2000).T, s=2)
    axes[1].scatter(*drawn.T, s=2)
    axes[2].imshow(density.reshape(200, 200), origin="lower", extent=(-2, 2, -2, 2))
    for axis, title in zip(axes, ("data", "drawn by the flow", "density")):
        axis.set(title=title, aspect="equal", xlim=(-2, 2), ylim=(-2, 2))
    figure.savefig(file, dpi=100, bbox_inches="tight")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args(arguments)
    init_key, key, draw_key = jax.random.split(jax.random.key(0), 3)
    params = init(init_key)
    mean = square = jax.tree.map(jnp.zeros_like, params)
    values = []
    for i in (meter := tqdm(range(options.steps), unit="step")):
        rate = 3e-3 * (1 - i / options.steps)
        given = i + 1.0, jax.random.fold_in(key, i), rate
        params, mean, square, value = train_step(params, mean, square, *given)
        values.append(value)
        if i % 50 == 0:
            meter.set_postfix(nats=f"{float(value):.2f}")
    print(f"nats for a point: {float(values[0]):.2f} -> {float(values[-1]):.2f}")
    back = from_normal(params, to_normal(params, jnp.array([0.3, -0.2]))[0])
    print(f"there and back again: {float(back[0]):.3f}, {float(back[1]):.3f}")
    options.out.mkdir(parents=True, exist_ok=True)
    draw(options.out / "flow.png", params, draw_key)


if __name__ == "__main__":
    main()
