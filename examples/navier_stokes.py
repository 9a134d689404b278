"""Navier-Stokes: two-dimensional turbulence by Fourier transforms.

**Problem.** Simulate an incompressible fluid on a torus, starting from random eddies.

**Model.** The vorticity is transported by the velocity that follows from it, and decays
by viscosity.

**Method.** Derivatives are products in Fourier space. The product of velocity and
gradient is computed in space, without the upper third of the frequencies (dealiasing).
Time integration is a third-order Runge-Kutta method with an exact viscous term
(integrating factor). A `fori_loop` compiles all steps.

**Result.** Small eddies merge into larger ones.

**To try.** A larger `--size`; a viscosity ten times smaller.

    python examples/navier_stokes.py [--size 256] [--steps 1200] [--out examples/out]
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
VISCOSITY = 1e-3


def frequencies(size):
    ky = jnp.fft.fftfreq(size, 1 / size)[:, None]
    kx = jnp.fft.rfftfreq(size, 1 / size)[None, :]
    keep = (jnp.abs(kx) < size / 3) & (jnp.abs(ky) < size / 3)
    return kx, ky, keep.astype(jnp.float32)


def velocity(w, kx, ky):
    """The velocity, in space, of a vorticity given in Fourier space."""
    square = kx**2 + ky**2
    stream = w / jnp.where(square == 0, 1.0, square)
    return jnp.fft.irfft2(1j * ky * stream), jnp.fft.irfft2(-1j * kx * stream)


def advection(w, kx, ky, keep):
    u, v = velocity(w, kx, ky)
    slope_x, slope_y = jnp.fft.irfft2(1j * kx * w), jnp.fft.irfft2(1j * ky * w)
    return -keep * jnp.fft.rfft2(u * slope_x + v * slope_y)


def step(w, dt, kx, ky, keep):
    """Shu and Osher's method, with the viscous decay as an exact factor."""
    rate = -VISCOSITY * (kx**2 + ky**2) * dt
    full, half = jnp.exp(rate), jnp.exp(rate / 2)
    change = partial(advection, kx=kx, ky=ky, keep=keep)
    a = full * (w + dt * change(w))
    b = 0.75 * half * w + 0.25 * (a + dt * change(a)) / half
    return full * w / 3 + 2 / 3 * half * (b + dt * change(b))


@jax.jit
def run(w, steps, dt):
    """`steps` steps from a vorticity in space, and the energy at the end."""
    kx, ky, keep = frequencies(len(w))
    w = keep * jnp.fft.rfft2(w)
    w = jax.lax.fori_loop(0, steps, lambda _, w: step(w, dt, kx, ky, keep), w)
    u, v = velocity(w, kx, ky)
    return jnp.fft.irfft2(w), 0.5 * jnp.mean(u**2 + v**2)


def eddies(key, size):
    """Random vorticity with wavelengths around a tenth of the box."""
    kx, ky, keep = frequencies(size)
    k = jnp.sqrt(kx**2 + ky**2)
    noise = jnp.fft.rfft2(jax.random.normal(key, (size, size)))
    w = jnp.fft.irfft2(noise * keep * jnp.exp(-(((k - 10) / 3) ** 2)))
    return 8 * w / jnp.std(w)


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
    parser.add_argument("--steps", type=int, default=1200)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args(arguments)
    dt = 2 / options.size
    w = eddies(jax.random.key(0), options.size)
    pictures, times = [w], [0.0]
    _, energy = run(w, 0, dt)
    print(f"energy at the start: {float(energy):.4f}")
    start = time.perf_counter()
    for _ in range(3):
        w, energy = run(w, options.steps // 3, dt)
        pictures.append(w)
        times.append(times[-1] + options.steps // 3 * dt)
    print(f"energy at time {times[-1]:.1f}: {float(energy):.4f}")
    rate = (options.steps // 3) * 3 / (time.perf_counter() - start)
    print(f"{options.size} x {options.size} points: {rate:.0f} steps a second")

    figure, axes = plt.subplots(1, 4, figsize=(14, 3.8))
    for axis, picture, t in zip(axes, pictures, times):
        axis.imshow(picture, cmap="RdBu", vmin=-20, vmax=20)
        axis.set_title(f"vorticity, time {t:.1f}")
        axis.axis("off")
    options.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out / "navier_stokes.png", dpi=100, bbox_inches="tight")

    frames = pictures[:1]
    for _ in range(FRAMES):
        frames.append(run(frames[-1], options.steps // FRAMES, dt)[0])
    style = {"cmap": "RdBu", "vmin": -20, "vmax": 20}
    animate(options.out / "navier_stokes.webp", frames, **style)


if __name__ == "__main__":
    main()
