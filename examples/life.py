"""Game of Life and reaction-diffusion: cells that depend on their neighbors.

**Problem.** In Conway's Game of Life, a cell with three living neighbors is alive in
the next step, and a living cell with two stays alive. In the Gray-Scott model (Pearson,
1993) two substances diffuse at different speeds and react. Stripes and spots grow.

**Method.** Both models are sums of shifted arrays, written with `jnp.roll`. A
`fori_loop` compiles all steps to one program.

**To try.** Change `feed` and `kill`: 0.03 and 0.062 give waves, 0.025 and 0.06 spots
that divide. A larger `--size` shows how the rate depends on the caches.

    python examples/life.py [--size 256] [--out examples/out]
"""

import argparse
import time
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.animation import FuncAnimation

import curta as jax
import curta.numpy as jnp

HERE = Path(__file__).parent
FRAMES = 60


def neighbors(cells):
    """The sum of the eight neighbors of each cell, on a torus."""
    rows = jnp.roll(cells, 1, 0) + cells + jnp.roll(cells, -1, 0)
    return jnp.roll(rows, 1, 1) + rows + jnp.roll(rows, -1, 1) - cells


def life_step(cells):
    count = neighbors(cells)
    return ((count == 3) | ((cells == 1) & (count == 2))).astype(cells.dtype)


def laplacian(u):
    """The nine-point stencil: 0.2 for direct neighbors, 0.05 for diagonal ones."""
    ends = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0)
    sides = jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
    corners = jnp.roll(ends, 1, 1) + jnp.roll(ends, -1, 1)
    return 0.2 * (ends + sides) + 0.05 * corners - u


def reaction_step(state, feed=0.037, kill=0.06):
    u, v = state
    reaction = u * v * v
    u = u + 1.0 * laplacian(u) - reaction + feed * (1 - u)
    v = v + 0.5 * laplacian(v) + reaction - (feed + kill) * v
    return u, v


@partial(jax.jit, static_argnums=0)
def run(step, state, steps):
    return jax.lax.fori_loop(0, steps, lambda _, state: step(state), state)


def seeds(key, size):
    """Substance u everywhere, and squares of v."""
    corners = jax.random.randint(key, (12, 2), 0, size - 10)
    rows = jnp.arange(size)

    def square(corner):
        inside = (rows[:, None] >= corner) & (rows[:, None] < corner + 10)
        return inside[:, 0][:, None] & inside[:, 1][None, :]

    v = 0.5 * jnp.any(jax.vmap(square)(corners), axis=0)
    return 1.0 - v, v


def timed(name, step, state, steps, cells):
    jax.block_until_ready(run(step, state, 1))  # compiles
    start = time.perf_counter()
    state = jax.block_until_ready(run(step, state, steps))
    rate = cells * steps / (time.perf_counter() - start)
    print(f"{name}: {rate / 1e6:,.0f} million cells a second")
    return state


def animate(path, frames, **style):
    """Save arrays as the frames of an animation that repeats."""
    height, width = frames[0].shape
    figure = plt.figure(figsize=(width / 64, height / 64))
    image = figure.add_axes((0, 0, 1, 1)).imshow(frames[0], **style)
    image.axes.axis("off")
    film = FuncAnimation(figure, lambda i: image.set_data(frames[i]), len(frames))
    film.save(path, writer="pillow", fps=20, dpi=64)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args(arguments)
    size = options.size
    life_key, seed_key = jax.random.split(jax.random.key(0))
    cells = jax.random.bernoulli(life_key, 0.3, (size, size)).astype(jnp.int8)
    cells = timed("life", life_step, cells, options.steps // 10, size**2)
    state = seeds(seed_key, size)
    _, v = timed("reaction", reaction_step, state, options.steps, size**2)
    print(f"living cells: {int(jnp.sum(cells, dtype=jnp.int32))}")

    figure, axes = plt.subplots(1, 2, figsize=(10, 5))
    axes[0].imshow(cells, cmap="gray_r")
    axes[0].set_title(f"Game of Life, {options.steps // 10} steps")
    axes[1].imshow(v, cmap="magma")
    axes[1].set_title(f"Gray-Scott, {options.steps} steps")
    for axis in axes:
        axis.axis("off")
    options.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out / "life.png", dpi=100, bbox_inches="tight")

    frames = [seeds(seed_key, size)]
    for _ in range(FRAMES):
        frames.append(run(reaction_step, frames[-1], options.steps // FRAMES))
    animate(options.out / "life.webp", [v for _, v in frames], cmap="magma", vmax=0.4)


if __name__ == "__main__":
    main()
