"""Variational autoencoder: digits from two latent numbers, without labels.

**Problem.** Find a two-dimensional map of images without knowing their classes.

**Model.** The encoder gives a normal distribution of two latent numbers for an image.
The decoder reconstructs the image (Kingma & Welling, 2014).

**Method.** Both are trained on a lower bound of the likelihood. Its gradient passes
through the random draws.

**Result.** On the left, images of the decoder over the latent plane. On the right, the
data in this plane.

**To try.** A larger weight of the divergence gives a smoother map.

    python examples/vae.py [--epochs 200] [--out examples/out]
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from tqdm import tqdm

import curta as jax
import curta.numpy as jnp

HERE = Path(__file__).parent
BATCH, HIDDEN = 128, 2


def init(key):
    sizes = {"encoder": (64, 256, 2 * HIDDEN), "decoder": (HIDDEN, 256, 64)}
    params = {}
    for name, layers in sizes.items():
        params[name] = []
        for n_in, n_out in zip(layers[:-1], layers[1:]):
            key, layer_key = jax.random.split(key)
            weights = jax.random.normal(layer_key, (n_in, n_out)) / jnp.sqrt(n_in)
            params[name].append((weights, jnp.zeros(n_out)))
    return params


def network(layers, x):
    *hidden, (weights, biases) = layers
    for w, b in hidden:
        x = jnp.tanh(x @ w + b)
    return x @ weights + biases


def loss(params, key, image):
    """Minus the bound for one image: how far the copy is off, and the prior's price."""
    mean, log_deviation = jnp.split(network(params["encoder"], image), 2)
    hidden = mean + jnp.exp(log_deviation) * jax.random.normal(key, mean.shape)
    scores = network(params["decoder"], hidden)
    likelihood = image * jax.nn.log_sigmoid(scores)
    likelihood += (1 - image) * jax.nn.log_sigmoid(-scores)
    spread = jnp.exp(2 * log_deviation)
    price = 0.5 * jnp.sum(mean**2 + spread - 1) - jnp.sum(log_deviation)
    return price - jnp.sum(likelihood)


@jax.jit
def epoch(state, key, images, rate):
    """A pass over the images by batches, with Adam; the mean loss."""
    order_key, noise_key = jax.random.split(key)
    count = len(images) // BATCH
    order = jax.random.permutation(order_key, len(images))
    batches = order[: count * BATCH].reshape(count, BATCH)

    def batch_loss(params, keys, images):
        return jnp.mean(jax.vmap(loss, (None, 0, 0))(params, keys, images))

    def step(state, given):
        params, mean, square, t = state
        chosen, key = given
        keys = jax.random.split(key, BATCH)
        value, grads = jax.value_and_grad(batch_loss)(params, keys, images[chosen])
        mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
        square = jax.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, square, grads)
        rates = rate / (1 - 0.9**t), 1 / (1 - 0.999**t)

        def move(p, m, s):
            return p - rates[0] * m / (jnp.sqrt(rates[1] * s) + 1e-8)

        return (jax.tree.map(move, params, mean, square), mean, square, t + 1), value

    keys = jax.random.split(noise_key, count)
    state, values = jax.lax.scan(step, state, (batches, keys))
    return state, jnp.mean(values)


def draw(file, params, images, labels):
    side = 16
    places = jnp.linspace(-2.2, 2.2, side)
    grid = jnp.stack(jnp.meshgrid(places, places), axis=-1)
    tiles = jax.nn.sigmoid(network(params["decoder"], grid)).reshape(side, side, 8, 8)
    figure, axes = plt.subplots(1, 2, figsize=(12, 5.5))
    axes[0].imshow(tiles.swapaxes(1, 2).reshape(8 * side, 8 * side), cmap="gray")
    axes[0].axis("off")
    means = network(params["encoder"], images)[:, :HIDDEN]
    dots = axes[1].scatter(*means.T, c=labels, cmap="tab10", s=6)
    figure.colorbar(dots, ax=axes[1], label="digit")
    figure.savefig(file, dpi=100, bbox_inches="tight")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args(arguments)
    with np.load(HERE / "data" / "digits.npz") as data:
        images = jnp.asarray(data["images"].reshape(-1, 64) / 16, "float32")
        labels = np.asarray(data["labels"])

    init_key, key = jax.random.split(jax.random.key(0))
    params = init(init_key)
    zeros = jax.tree.map(jnp.zeros_like, params)
    state, values = (params, zeros, zeros, jnp.float32(1)), []
    for k in (meter := tqdm(range(options.epochs), unit="epoch")):
        rate = 2e-3 * (1 - k / options.epochs)
        state, value = epoch(state, jax.random.fold_in(key, k), images, rate)
        values.append(float(value))
        meter.set_postfix(nats=f"{values[-1]:.2f}")
    print(f"nats for an image: {values[0]:.2f} -> {values[-1]:.2f}")
    options.out.mkdir(parents=True, exist_ok=True)
    draw(options.out / "vae.png", state[0], images, labels)


if __name__ == "__main__":
    main()
