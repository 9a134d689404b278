"""Convolutional network: classify shifted digits with two layers of 3 x 3 filters.

**Problem.** Recognize handwritten digits at any position.

**Model.** Two convolutional layers, and a linear layer.

**Method.** In every epoch each image is shifted by up to one pixel, at random, so the
network cannot memorize positions. The shift is a gather with traced offsets inside the
compiled step. The training loop is a `scan` over the batches of an epoch.

**Result.** The picture shows the first filters, and their outputs for one image.

**To try.** Shift by two pixels, or add a third layer.

    python examples/cnn.py [--epochs 40] [--out examples/out]
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
HELD_OUT, BATCH, RATE = 360, 64, 0.02


def init(key):
    shapes = {"first": (3, 3, 1, 16), "second": (3, 3, 16, 32), "last": (128, 10)}
    keys = jax.random.split(key, len(shapes))
    layers = {}
    for layer_key, (name, shape) in zip(keys, shapes.items()):
        spread = jnp.sqrt(2 / np.prod(shape[:-1]))
        weights = spread * jax.random.normal(layer_key, shape)
        layers[name] = {"weights": weights, "biases": jnp.zeros(shape[-1])}
    return layers


def convolve(layer, images):
    """Filters over images (batch, height, width, channels), then the positive part."""
    axes = ("NHWC", "HWIO", "NHWC")
    out = jax.lax.conv_general_dilated(
        images, layer["weights"], (1, 1), "SAME", dimension_numbers=axes
    )
    return jax.nn.relu(out + layer["biases"])


def halve(images):
    """The largest of each 2 x 2 pixels."""
    window = (1, 2, 2, 1)
    return jax.lax.reduce_window(images, -jnp.inf, jax.lax.max, window, window, "VALID")


def logits(params, images):
    images = halve(convolve(params["first"], images))
    images = halve(convolve(params["second"], images))
    rows = images.reshape(len(images), -1)
    return rows @ params["last"]["weights"] + params["last"]["biases"]


def loss(params, images, labels):
    scores = jax.nn.log_softmax(logits(params, images))
    return -jnp.mean(jnp.take_along_axis(scores, labels[:, None], axis=1))


def shifted(key, images):
    """Each image moved by up to one pixel, to where `key` says."""
    places = jax.random.randint(key, (len(images), 2), 0, 3)
    wide = jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))

    def cut(image, place):
        return jax.lax.dynamic_slice(image, (place[0], place[1], 0), (8, 8, 1))

    return jax.vmap(cut)(wide, places)


@jax.jit
def epoch(params, momentum, key, images, labels):
    """One pass over the images in a new order, by batches."""
    order_key, *keys = jax.random.split(key, len(images) // BATCH + 1)
    order = jax.random.permutation(order_key, len(images))
    batches = order[: len(keys) * BATCH].reshape(len(keys), BATCH)

    def step(state, given):
        params, momentum = state
        chosen, shift_key = given
        batch = shifted(shift_key, images[chosen])
        value, grads = jax.value_and_grad(loss)(params, batch, labels[chosen])
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        params = jax.tree.map(lambda p, m: p - RATE * m, params, momentum)
        return (params, momentum), value

    state, values = jax.lax.scan(step, (params, momentum), (batches, jnp.stack(keys)))
    return *state, jnp.mean(values)


@jax.jit
def accuracy(params, images, labels):
    return jnp.mean(jnp.argmax(logits(params, images), axis=1) == labels)


def draw(file, params, image):
    seen = convolve(params["first"], image[None])[0]
    figure, axes = plt.subplots(4, 9, figsize=(11, 5))
    for i, axis in enumerate(axes.flat):
        axis.axis("off")
        row, column = divmod(i, 9)
        if column < 8:
            k = 8 * (row // 2) + column
            filters = params["first"]["weights"][:, :, 0, k]
            axis.imshow(filters if row % 2 == 0 else seen[:, :, k], cmap="gray")
    axes[0, 8].imshow(image[:, :, 0], cmap="gray")
    figure.suptitle("filters, and below each what it sees in the image at the right")
    figure.savefig(file, dpi=100, bbox_inches="tight")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args(arguments)
    with np.load(HERE / "data" / "digits.npz") as data:
        images = jnp.asarray(data["images"].reshape(-1, 8, 8, 1) / 16, "float32")
        labels = jnp.asarray(data["labels"], "int32")
    order = jax.random.permutation(jax.random.key(0), len(images))
    held_out, train = order[:HELD_OUT], order[HELD_OUT:]

    init_key, key = jax.random.split(jax.random.key(1))
    params = init(init_key)
    momentum = jax.tree.map(jnp.zeros_like, params)
    for k in (meter := tqdm(range(options.epochs), unit="epoch")):
        given = jax.random.fold_in(key, k), images[train], labels[train]
        params, momentum, value = epoch(params, momentum, *given)
        meter.set_postfix(loss=f"{float(value):.3f}")
    right = accuracy(params, images[held_out], labels[held_out])
    print(f"right on {HELD_OUT} held-out images: {100 * float(right):.2f} %")
    options.out.mkdir(parents=True, exist_ok=True)
    draw(options.out / "cnn.png", params, images[held_out[0]])


if __name__ == "__main__":
    main()
