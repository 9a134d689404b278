"""Seeing by sound: find the speed of waves in a body from sounds around it.

**Problem.** Microphones at the edge of a square record eight sources. Find the speed of
sound inside (full waveform inversion).

**Model.** The wave equation on a grid.

**Method.** One `scan` over time simulates the waves. The gradient of the misfit passes
back through the simulation; `checkpoint` bounds its memory. Gradient descent starts
from a constant speed.

**Result.** The reconstruction shows the two discs.

**To try.** Fewer sources, or noise in the recordings.

    python examples/wave.py [--steps 60] [--out examples/out]
"""

import argparse
import functools
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from tqdm import tqdm

import curta as jax
import curta.numpy as jnp

HERE = Path(__file__).parent
EDGE = 6  # sources and microphones lie so far inside


def body(size):
    """The squares of speeds: a disc that is faster than the rest, and a slower one."""
    y, x = jnp.mgrid[:size, :size] / size
    fast = (x - 0.36) ** 2 + (y - 0.4) ** 2 < 0.13**2
    slow = (x - 0.66) ** 2 + (y - 0.62) ** 2 < 0.11**2
    return 1 + 0.35 * fast - 0.3 * slow


def ring(size, count):
    """Places near the edge, evenly spaced: (count, 2)."""
    turns = jnp.arange(count) * (2 * jnp.pi / count)
    directions = jnp.stack([jnp.sin(turns), jnp.cos(turns)], axis=1)
    reach = (size / 2 - EDGE) / jnp.max(jnp.abs(directions), axis=1)
    return (size / 2 + reach[:, None] * directions).astype(int)


@functools.partial(jax.jit, static_argnames="ticks")
def record(speeds, source, ears, ticks):
    """The recordings at `ears` of a short sound at `source`: (ticks, ears)."""
    size = len(speeds)
    y, x = jnp.mgrid[:size, :size]
    outside = jnp.maximum(jnp.abs(y - size / 2), jnp.abs(x - size / 2)) - size / 2 + 8
    damping = 1 - 0.02 * jnp.clip(outside, 0) ** 2 / 8  # waves leave by the edges

    @jax.checkpoint
    def tick(fields, t):
        now, before = fields
        around = sum(jnp.roll(now, s, axis) for s in (1, -1) for axis in (0, 1))
        later = 2 * now - before + 0.25 * speeds * (around - 4 * now)
        sound = (1 - 2 * (0.12 * (t - 20)) ** 2) * jnp.exp(-((0.12 * (t - 20)) ** 2))
        later = later.at[source[0], source[1]].add(0.25 * sound)
        return (later * damping, now * damping), later[ears[:, 0], ears[:, 1]]

    silence = jnp.zeros((size, size))
    times = jnp.arange(ticks, dtype="float32")
    return jax.lax.scan(tick, (silence, silence), times)[1]


def misfit(speeds, sources, ears, heard):
    hear = jax.vmap(lambda s: record(speeds, s, ears, heard.shape[1]))
    return jnp.mean((hear(sources) - heard) ** 2)


@jax.jit
def descend(speeds, mean, square, t, sources, ears, heard):
    """A step of Adam with smoothed gradients; speeds stay in what is possible."""
    value, grads = jax.value_and_grad(misfit)(speeds, sources, ears, heard)
    for _ in range(3):
        near = [jnp.roll(grads, s, axis) for s in (1, -1) for axis in (0, 1)]
        grads = (2 * grads + sum(near)) / 6
    mean, square = 0.8 * mean + 0.2 * grads, 0.95 * square + 0.05 * grads**2
    size = jnp.sqrt(jnp.max(square) / (1 - 0.95**t)) + 1e-12
    speeds = speeds - 0.03 * mean / (1 - 0.8**t) / size
    return jnp.clip(speeds, 0.5, 1.6), mean, square, value


def draw(file, truth, found, heard):
    figure, axes = plt.subplots(1, 3, figsize=(12, 4))
    for axis, speeds, title in zip(axes, (truth, found), ("true speeds", "found")):
        axis.imshow(speeds, vmin=0.6, vmax=1.4, cmap="RdBu")
        axis.set_title(title)
        axis.axis("off")
    axes[2].imshow(heard[0].T, aspect="auto", cmap="gray")
    axes[2].set(title="heard of one source", xlabel="time", ylabel="microphone")
    figure.savefig(file, dpi=100, bbox_inches="tight")


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args(arguments)
    truth = body(options.size)
    sources, ears = ring(options.size, 8), ring(options.size, 48)
    ticks = 3 * options.size
    heard = jax.vmap(lambda s: record(truth, s, ears, ticks))(sources)

    speeds = jnp.ones_like(truth)
    mean = square = jnp.zeros_like(truth)
    values = []
    for i in tqdm(range(options.steps), unit="step"):
        given = i + 1.0, sources, ears, heard
        speeds, mean, square, value = descend(speeds, mean, square, *given)
        values.append(float(value))
    before = float(jnp.mean(jnp.abs(1 - truth)))
    after = float(jnp.mean(jnp.abs(speeds - truth)))
    print(f"misfit: {values[0]:.2e} -> {values[-1]:.2e}")
    print(f"mean error of the speeds: {before:.4f} -> {after:.4f}")
    options.out.mkdir(parents=True, exist_ok=True)
    draw(options.out / "wave.png", truth, speeds, heard)


if __name__ == "__main__":
    main()
