"""A Kalman filter for a controller: a step as a library for C++.

**Problem.** Estimate position and velocity from noisy measurements, 10,000 times a
second, in a program that must not allocate or wait.

**Method.** One step of the filter (Kalman, 1960) is built twice in one library: `start`
makes the first state, `update` overwrites it in place. `kalman.cpp` calls `update` in
a loop and prints the longest time that a call took.

    python examples/ship/kalman.py --out dist
    c++ -std=c++17 -O2 examples/ship/kalman.cpp -Idist -Ldist -lkalman -o dist/kalman
    dist/kalman
"""

import argparse
from pathlib import Path

import curta as jax
import curta.numpy as jnp
from curta import aot

STEP = 1e-4  # seconds
MOVE = jnp.array([[1.0, STEP], [0.0, 1.0]])
NOISE = 1e-3 * jnp.array([[STEP**3 / 3, STEP**2 / 2], [STEP**2 / 2, STEP]])
SPREAD = 0.05**2  # the variance of a measurement


def start(position):
    """The state at the first measurement."""
    return {"mean": jnp.array([position, 0.0]), "covariance": jnp.eye(2)}


def update(state, position):
    """The state after a measurement."""
    mean = MOVE @ state["mean"]
    covariance = MOVE @ state["covariance"] @ MOVE.T + NOISE
    gain = covariance[:, 0] / (covariance[0, 0] + SPREAD)
    return {
        "mean": mean + gain * (position - mean[0]),
        "covariance": covariance - jnp.outer(gain, covariance[0]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("dist"))
    parser.add_argument("--target", default="host")
    options = parser.parse_args()
    state = jax.eval_shape(start, 0.0)
    functions = {
        "start": (start, 0.0),
        "update": (jax.jit(update, donate_argnums=0), state, 0.0),
    }
    print(
        aot.build(
            functions, directory=options.out, name="kalman", target=options.target
        )
    )


if __name__ == "__main__":
    main()
