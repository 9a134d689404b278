"""The curves of the front page's plot, computed by Curta while the site is built."""

import json

import curta
import curta.numpy as jnp

SPEEDS, TIMES = 41, 81
GRAVITY = 9.81


def height(time, speed):
    """The height in meters of a ball that is thrown upwards."""
    return 2 + speed * time - 0.5 * GRAVITY * time**2


def script() -> str:
    """Heights and velocities at each time (columns) for each initial speed (rows)."""
    speeds, times = jnp.linspace(4, 14, SPEEDS), jnp.linspace(0, 2.5, TIMES)
    along = curta.vmap(curta.value_and_grad(height), in_axes=(0, None))
    heights, velocities = curta.jit(curta.vmap(along, in_axes=(None, 0)))(times, speeds)
    data = {
        "speeds": speeds.tolist(),
        "times": times.tolist(),
        "heights": heights.round(3).tolist(),
        "velocities": velocities.round(3).tolist(),
    }
    return f"window.liveData={json.dumps(data, separators=(',', ':'))};\n"
