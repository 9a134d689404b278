"""Transformer of characters: learn a text letter by letter, then continue it.

**Problem.** Predict the next character from the previous 64. The text is the license of
this repository.

**Model.** Two blocks of causal self-attention with learned positions.

**Method.** A training step is one compiled program. Sampling is a compiled loop: its
carry is the window of the last characters, and a random key draws each next character
from the network's distribution.

**To try.** Train longer with `--steps 2000`, or replace the text by your own.

    python examples/characters.py [--steps 300] [--out examples/out]
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
WINDOW, WIDTH, HEADS, BLOCKS, BATCH = 64, 64, 4, 2, 32


def init(key, letters):
    shapes = {"letters": (letters, WIDTH), "places": (WINDOW, WIDTH)}
    for i in range(BLOCKS):
        shapes |= {
            f"qkv{i}": (WIDTH, 3 * WIDTH),
            f"out{i}": (WIDTH, WIDTH),
            f"up{i}": (WIDTH, 4 * WIDTH),
            f"down{i}": (4 * WIDTH, WIDTH),
        }
    keys = jax.random.split(key, len(shapes))
    params = {}
    for k, (name, shape) in zip(keys, shapes.items()):
        scale = 0.1 if name in ("letters", "places") else 1 / shape[0] ** 0.5
        params[name] = scale * jax.random.normal(k, shape)
    return params


def standardized(x):
    return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(qkv):
    """Each place looks at itself and those before it; `qkv` is (WINDOW, 3 WIDTH)."""
    q, k, v = jnp.split(qkv.reshape(WINDOW, HEADS, -1), 3, axis=2)
    scores = jnp.einsum("qhd,khd->hqk", q, k) / jnp.sqrt(WIDTH // HEADS)
    later = jnp.triu(jnp.ones((WINDOW, WINDOW), bool), 1)
    weights = jax.nn.softmax(jnp.where(later, -jnp.inf, scores))
    return jnp.einsum("hqk,khd->qhd", weights, v).reshape(WINDOW, WIDTH)


def logits(params, text):
    """Of the letter after each place of a window of letters (WINDOW,)."""
    x = params["letters"][text] + params["places"]
    for i in range(BLOCKS):
        x = x + attention(standardized(x) @ params[f"qkv{i}"]) @ params[f"out{i}"]
        hidden = jax.nn.gelu(standardized(x) @ params[f"up{i}"])
        x = x + hidden @ params[f"down{i}"]
    return standardized(x) @ params["letters"].T


def loss(params, texts):
    """The mean surprise, in nats, of the letters that came next (batch, WINDOW + 1)."""
    scores = jax.nn.log_softmax(jax.vmap(logits, (None, 0))(params, texts[:, :-1]))
    return -jnp.mean(jnp.take_along_axis(scores, texts[:, 1:, None], axis=2))


@jax.jit
def train_step(params, mean, square, key, t, text, rate):
    """A step of Adam on windows from random places of the text."""
    starts = jax.random.randint(key, (BATCH, 1), 0, len(text) - WINDOW)
    texts = text[starts + jnp.arange(WINDOW + 1)]
    value, grads = jax.value_and_grad(loss)(params, texts)
    mean = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, mean, grads)
    square = jax.tree.map(lambda s, g: 0.99 * s + 0.01 * g * g, square, grads)

    def move(p, m, s):
        return p - rate * (m / (1 - 0.9**t)) / (jnp.sqrt(s / (1 - 0.99**t)) + 1e-8)

    return jax.tree.map(move, params, mean, square), mean, square, value


@jax.jit
def write(params, window, key):
    """400 letters after those of the window, each drawn given the last ones."""

    def next_letter(window, key):
        scores = logits(params, window)[-1]
        letter = jax.random.categorical(key, scores / 0.7)
        return jnp.append(window[1:], letter), letter

    return jax.lax.scan(next_letter, window, jax.random.split(key, 400))[1]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args(arguments)
    source = " ".join((HERE.parent / "LICENSE").read_text().split())
    alphabet = sorted({*source})
    text = jnp.array([alphabet.index(c) for c in source])

    init_key, key, sample_key = jax.random.split(jax.random.key(0), 3)
    params = init(init_key, len(alphabet))
    mean = square = jax.tree.map(jnp.zeros_like, params)
    values = []
    for i in (meter := tqdm(range(options.steps), unit="step")):
        rate = 3e-3 * (1 - i / options.steps)
        given = jax.random.fold_in(key, i), i + 1.0, text, rate
        params, mean, square, value = train_step(params, mean, square, *given)
        values.append(value)
        if i % 20 == 0:
            meter.set_postfix(nats=f"{float(value):.2f}")
    print(f"nats for a letter: {float(values[0]):.2f} -> {float(values[-1]):.2f}")
    letters = np.asarray(write(params, text[:WINDOW], sample_key))
    print(source[:WINDOW] + "|" + "".join(alphabet[i] for i in letters))

    options.out.mkdir(parents=True, exist_ok=True)
    figure, axis = plt.subplots(figsize=(7, 4))
    axis.plot(jnp.stack(values))
    axis.set(xlabel="step", ylabel="nats for a letter", ylim=(0, None))
    figure.savefig(options.out / "characters.png", dpi=100, bbox_inches="tight")


if __name__ == "__main__":
    main()
