"""Digits: learn to read 1,797 handwritten digits in a few seconds.

**Problem.** Classify real images of 8 x 8 pixels.

**Model.** A multilayer perceptron with a softmax.

**Method.** `value_and_grad` and `jit` make the training step, with Adam written out as
functions of trees. `vmap(grad(...))` gives the gradient of every example: the images
with the largest norms are the unusual ones.

**To try.** The same file runs under JAX: replace `curta` by `jax` in the two import
lines below.

    python examples/digits.py [--epochs 40] [--out examples/out]
"""

import argparse
import time
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")  # draw into files; no window system needed
import matplotlib.pyplot as plt
import numpy as np
from tqdm import tqdm

import curta as jax
import curta.numpy as jnp

HERE = Path(__file__).parent
HELD_OUT = 360  # a fifth of the images is never trained on
BATCH = 64
SIZES = (64, 256, 10)
PEAK_RATE = 4e-3
NOISE = 0.12  # standard deviation, in units of full ink


# --- the model: a pytree of parameters and a function of one image -------------------


def init_params(key, sizes=SIZES):
    """A list of layers, each a dict of weights and biases (He's initialization)."""
    layers = []
    keys = jax.random.split(key, len(sizes) - 1)
    for layer_key, n_in, n_out in zip(keys, sizes[:-1], sizes[1:]):
        weights = jax.random.normal(layer_key, (n_in, n_out)) * jnp.sqrt(2 / n_in)
        layers.append({"weights": weights, "biases": jnp.zeros(n_out)})
    return layers


def logits(params, image):
    """Scores of the ten digits for one image of shape (64,)."""
    *hidden, last = params
    for layer in hidden:
        image = jax.nn.relu(image @ layer["weights"] + layer["biases"])
    return image @ last["weights"] + last["biases"]


def example_loss(params, image, label):
    """Cross-entropy of one image."""
    return -jax.nn.log_softmax(logits(params, image))[label]


def batch_loss(params, images, labels):
    """Mean loss of a batch: `vmap` takes care of the batch dimension."""
    losses = jax.vmap(example_loss, in_axes=(None, 0, 0))(params, images, labels)
    return jnp.mean(losses)


# --- Adam (Kingma & Ba, 2015), on trees -----------------------------------------------


class AdamState(NamedTuple):
    step: jax.Array
    mean: list
    square: list


def init_adam(params):
    zeros = jax.tree.map(jnp.zeros_like, params)
    return AdamState(jnp.zeros(()), zeros, zeros)


def adam(params, grads, state, rate, decay=0.9, square_decay=0.999):
    count = state.step + 1
    mean = jax.tree.map(lambda m, g: decay * m + (1 - decay) * g, state.mean, grads)
    square = jax.tree.map(
        lambda s, g: square_decay * s + (1 - square_decay) * g**2, state.square, grads
    )
    mean_scale = 1 / (1 - decay**count)
    square_scale = 1 / (1 - square_decay**count)
    params = jax.tree.map(
        lambda p, m, s: p - rate * m * mean_scale / (jnp.sqrt(s * square_scale) + 1e-8),
        params,
        mean,
        square,
    )
    return params, AdamState(count, mean, square)


# --- training -------------------------------------------------------------------------


@jax.jit
def train_step(params, state, key, images, labels, progress):
    """One step on one batch; `progress` runs from 0 to 1 over the whole training."""
    noisy = images + NOISE * jax.random.normal(key, images.shape)
    loss, grads = jax.value_and_grad(batch_loss)(params, noisy, labels)
    rate = PEAK_RATE * 0.5 * (1 + jnp.cos(jnp.pi * progress))
    params, state = adam(params, grads, state, rate)
    return params, state, loss


@jax.jit
def predict(params, images):
    scores = jax.vmap(logits, in_axes=(None, 0))(params, images)
    return jnp.argmax(scores, axis=1)


@jax.jit
def gradient_norms(params, images, labels):
    """How much each image alone would change the parameters: one norm per image."""

    def norm(image, label):
        grads = jax.grad(example_loss)(params, image, label)
        return jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)))

    return jax.vmap(norm)(images, labels)


def load(key):
    """(train images, train labels), (held-out images, held-out labels), shuffled."""
    with np.load(HERE / "data" / "digits.npz") as data:
        images = data["images"].reshape(-1, 64).astype(np.float32) / 16
        labels = data["labels"].astype(np.int32)
    order = jax.random.permutation(key, len(images))
    images, labels = jnp.asarray(images)[order], jnp.asarray(labels)[order]
    train_set = images[HELD_OUT:], labels[HELD_OUT:]
    held_out = images[:HELD_OUT], labels[:HELD_OUT]
    return train_set, held_out


def batches(key, images, labels):
    """One epoch in a new order, cut into whole batches."""
    count = len(images) // BATCH
    order = jax.random.permutation(key, len(images))[: count * BATCH]
    images, labels = images[order], labels[order]
    return images.reshape(count, BATCH, -1), labels.reshape(count, BATCH)


def train(key, epochs, train_set, held_out):
    """Returns the parameters, the curves and the seconds spent in training steps."""
    init_key, key = jax.random.split(key)
    params = init_params(init_key)
    state = init_adam(params)
    steps = epochs * (len(train_set[0]) // BATCH)
    losses, accuracies, seconds, step = [], [], 0.0, 0
    with tqdm(total=steps, unit="step") as bar:
        for _ in range(epochs):
            key, order_key, noise_key = jax.random.split(key, 3)
            images, labels = batches(order_key, *train_set)
            noise_keys = jax.random.split(noise_key, len(images))
            epoch_losses = []
            start = time.perf_counter()
            for batch in zip(noise_keys, images, labels):
                params, state, loss = train_step(params, state, *batch, step / steps)
                epoch_losses.append(loss)
                step += 1
            losses.append(float(jnp.mean(jnp.stack(epoch_losses))))
            seconds += time.perf_counter() - start
            accuracies.append(accuracy(params, *held_out))
            bar.update(len(images))
            bar.set_postfix(
                loss=f"{losses[-1]:.3f}", held_out=f"{100 * accuracies[-1]:.1f}%"
            )
    return params, losses, accuracies, seconds


def accuracy(params, images, labels):
    return float(jnp.mean(predict(params, images) == labels))


def compile_all(key, train_set, held_out):
    """Call each compiled function a first time; returns the seconds that takes."""
    params = init_params(key)
    images, labels = (x[:BATCH] for x in train_set)
    start = time.perf_counter()
    results = (
        train_step(params, init_adam(params), key, images, labels, 0.0),
        predict(params, held_out[0]),
        gradient_norms(params, *held_out),
    )
    jax.block_until_ready(results)
    return time.perf_counter() - start


# --- pictures -------------------------------------------------------------------------


def draw_curve(path, losses, accuracies):
    figure, axis = plt.subplots(figsize=(7, 4))
    epochs = np.arange(1, len(losses) + 1)
    axis.semilogy(epochs, losses, color="tab:blue")
    axis.set_xlabel("epoch")
    axis.set_ylabel("training loss", color="tab:blue")
    right = axis.twinx()
    right.plot(epochs, 100 * np.array(accuracies), color="tab:orange")
    right.set_ylabel("held-out accuracy, %", color="tab:orange")
    right.set_ylim(90, 100)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_mistakes(path, params, images, labels):
    """Every held-out image read wrongly, the one most at odds with the model first."""
    guesses = np.asarray(predict(params, images))
    norms = np.asarray(gradient_norms(params, images, labels))
    images, labels = np.asarray(images), np.asarray(labels)
    wrong = np.flatnonzero(guesses != labels)
    wrong = wrong[np.argsort(-norms[wrong])]
    columns = 6
    rows = max(1, -(-len(wrong) // columns))
    figure, axes = plt.subplots(rows, columns, figsize=(9, 1.9 * rows), squeeze=False)
    for axis in axes.flat:
        axis.axis("off")
    for axis, i in zip(axes.flat, wrong):
        axis.imshow(images[i].reshape(8, 8), cmap="gray_r", vmin=0, vmax=1)
        title = f"{labels[i]} read as {guesses[i]}\n|grad| {norms[i]:.0f}"
        axis.set_title(title, size=9)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args(arguments)

    data_key, train_key = jax.random.split(jax.random.key(0))
    train_set, held_out = load(data_key)
    compile_seconds = compile_all(train_key, train_set, held_out)
    params, losses, accuracies, seconds = train(
        train_key, options.epochs, train_set, held_out
    )

    options.out.mkdir(parents=True, exist_ok=True)
    draw_curve(options.out / "learning_curve.png", losses, accuracies)
    draw_mistakes(options.out / "mistakes.png", params, *held_out)

    steps = options.epochs * (len(train_set[0]) // BATCH)
    print(f"accuracy on {HELD_OUT} held-out images: {100 * accuracies[-1]:.2f} %")
    print(f"steps per second: {steps / seconds:,.0f}")
    print(f"compile time (first calls): {compile_seconds:.2f} s")
    print(f"pictures: {options.out}/learning_curve.png, {options.out}/mistakes.png")
    if hasattr(jax, "kernel_cache_statistics"):  # Curta's own
        kernels = jax.kernel_cache_statistics()
        print(f"kernels compiled: {kernels.compiles}, from the cache: {kernels.hits}")


if __name__ == "__main__":
    main()
