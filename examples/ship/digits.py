"""A digit classifier as a C library: train it, build it, read a picture with C.

**Problem.** Put a trained network into a C program that has no Python.

**Method.** `curta.aot.build` compiles the forward pass. The weights are constants that
the function closes over, so that they are in the library. `digits.c` reads a picture in
the PGM format and prints the digit.

    python examples/ship/digits.py --out dist
    cc examples/ship/digits.c -Idist -Ldist -ldigits -o dist/digits
    dist/digits dist/seven.pgm
"""

import argparse
from pathlib import Path

import numpy as np

import curta as jax
import curta.numpy as jnp
from curta import aot

DATA = Path(__file__).parents[1] / "data" / "digits.npz"
SIZES = (64, 64, 10)


def init_params(key):
    """Weights and biases of the layers."""
    keys = jax.random.split(key, len(SIZES) - 1)
    shapes = zip(SIZES[:-1], SIZES[1:])
    return [
        {"w": jax.random.normal(k, s) * jnp.sqrt(2 / s[0]), "b": jnp.zeros(s[1])}
        for k, s in zip(keys, shapes)
    ]


def logits(params, image):
    """Scores of the ten digits for one image of 64 pixels."""
    *hidden, last = params
    for layer in hidden:
        image = jax.nn.relu(image @ layer["w"] + layer["b"])
    return image @ last["w"] + last["b"]


def loss(params, images, labels):
    """Mean cross-entropy."""
    scores = jax.vmap(logits, in_axes=(None, 0))(params, images)
    return -jnp.mean(jax.nn.log_softmax(scores)[jnp.arange(len(labels)), labels])


@jax.jit
def train_step(params, images, labels):
    """A step of gradient descent."""
    grads = jax.grad(loss)(params, images, labels)
    return jax.tree.map(lambda p, g: p - 0.5 * g, params, grads)


def classifier(params):
    """The function that is built: an image of bytes to probabilities and a digit."""

    def digits(image):
        scores = logits(params, image.reshape(64) / 255)
        return {"probabilities": jax.nn.softmax(scores), "digit": jnp.argmax(scores)}

    return digits


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("dist"))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--target", default="host")
    options = parser.parse_args()
    data = np.load(DATA)
    images = data["images"].reshape(-1, 64).astype(np.float32) / data["images"].max()
    labels = data["labels"].astype(np.int32)
    params = init_params(jax.random.key(0))
    for _ in range(options.steps):
        params = train_step(params, images, labels)
    fun = classifier(params)
    bytes_ = np.round(images * 255).astype(np.uint8)
    right = jax.vmap(fun)(bytes_)["digit"] == labels
    print(f"images read correctly: {100 * right.mean():.1f} %")
    library = aot.build(
        fun, bytes_[0].reshape(8, 8), directory=options.out, target=options.target
    )
    print(library)
    seven = bytes_[np.flatnonzero(labels == 7)[0]]
    (options.out / "seven.pgm").write_bytes(b"P5\n8 8\n255\n" + seven.tobytes())


if __name__ == "__main__":
    main()
