"""Ray marching: render a scene that is one function of a point.

**Problem.** Render shapes with light, shadows and highlights.

**Model.** `distance(p)` is the distance from a point to the nearest surface. Its
gradient is the normal of the surface.

**Method.** A ray moves forward by this distance until it hits a surface. `grad` of the
scene gives the normals for light and shadow. The program is written for one ray; `vmap`
maps it over all pixels.

**To try.** Add a shape: `jnp.minimum` joins it to the scene.

    python examples/ray_marching.py [--height 360] [--out examples/out]
"""

import argparse
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import curta as jax
import curta.numpy as jnp

HERE = Path(__file__).parent
FAR = 20.0
LIGHT = jnp.array([0.6, 0.7, -0.4])


def length(v):
    return jnp.sqrt(jnp.sum(v * v) + 1e-12)


def unit(v):
    return v / length(v)


def smooth_min(a, b, k=0.3):
    """A minimum whose edge is rounded, so that shapes melt into each other."""
    h = jnp.clip(0.5 + 0.5 * (b - a) / k, 0.0, 1.0)
    return b + h * (a - b) - k * h * (1.0 - h)


def sphere(p, centre, radius):
    return length(p - centre) - radius


def torus(p, radius, thickness):
    ring = length(p[jnp.array([0, 2])]) - radius
    return length(jnp.array([ring, p[1]])) - thickness


def distance(p):
    """The scene: a ring, three balls that melt into it, and waves below them."""
    scene = torus(p - jnp.array([0.0, 0.3, 0.0]), 1.2, 0.35)
    for centre in ([1.2, 0.7, 0.0], [-0.6, 0.8, 1.0], [-0.6, 0.9, -1.0]):
        scene = smooth_min(scene, sphere(p, jnp.array(centre), 0.5))
    floor = p[1] + 0.6 + 0.05 * jnp.sin(3 * p[0]) * jnp.sin(3 * p[2])
    return jnp.minimum(scene, 0.8 * floor)


def march(origin, direction, steps=96):
    """How far the ray goes before it hits something."""

    def step(_, t):
        return jnp.minimum(t + distance(origin + t * direction), FAR)

    return jax.lax.fori_loop(0, steps, step, 0.01)


def color(origin, direction):
    """The color of one ray, (3,)."""
    t = march(origin, direction)
    p = origin + t * direction
    normal = unit(jax.grad(distance)(p))
    light = unit(LIGHT)
    shadow = march(p + 0.02 * normal, light, 48) >= FAR
    diffuse = jnp.maximum(normal @ light, 0.0) * shadow
    half = unit(light - direction)
    shine = jnp.maximum(normal @ half, 0.0) ** 40 * shadow
    surface = 0.5 + 0.5 * jnp.cos(jnp.array([0.0, 0.6, 1.2]) + 2 * p[1])
    lit = surface * (0.2 + 0.8 * diffuse) + 0.4 * shine
    sky = jnp.array([0.55, 0.7, 0.9]) * (0.7 + 0.5 * direction[1])
    fog = jnp.exp(-0.005 * t**2)
    return jnp.clip(jnp.where(t < FAR, fog * lit + (1 - fog) * sky, sky), 0, 1)


@jax.jit
def render(directions, origin):
    """The colors of rays (rows, columns, 3) from one point."""
    return jax.vmap(jax.vmap(color, (None, 0)), (None, 0))(origin, directions)


def camera(origin, target, height, width):
    forward = unit(target - origin)
    right = unit(jnp.cross(jnp.array([0.0, 1.0, 0.0]), forward))
    up = jnp.cross(forward, right)
    y = jnp.linspace(0.6, -0.6, height)[:, None, None]
    x = jnp.linspace(-0.6, 0.6, width)[None, :, None] * width / height
    rays = forward + x * right + y * up
    return rays / jnp.linalg.norm(rays, axis=-1, keepdims=True)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--height", type=int, default=360)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args(arguments)
    height, width = options.height, options.height * 16 // 9
    origin = jnp.array([2.6, 2.2, -3.2])
    rays = camera(origin, jnp.array([0.0, 0.2, 0.0]), height, width)
    jax.block_until_ready(render(rays, origin))  # compiles
    start = time.perf_counter()
    picture = jax.block_until_ready(render(rays, origin))
    seconds = time.perf_counter() - start
    print(f"{width} x {height} pixels: {height * width / seconds:,.0f} rays a second")
    options.out.mkdir(parents=True, exist_ok=True)
    plt.imsave(options.out / "ray_marching.png", picture)


if __name__ == "__main__":
    main()
