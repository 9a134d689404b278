"""Fits of curves by Optimistix' Levenberg-Marquardt, written for JAX.

    curta run -m tests.stress.fits_models --fits 25 --seed 0

Run by `tests.stress.fits` over Curta and over JAX. Prints the steps of each fit as
JSON: a list for every combination of model, points, dtype and tolerance.
"""

import argparse
import json

import jax
import jax.numpy as jnp
import numpy as np
import optimistix

MAX_STEPS = 256

MODELS = {
    "decay": (lambda p, x: p[0] * jnp.exp(-p[1] * x) + p[2], (2.0, 1.3, 0.5), (0, 4)),
    "two decays": (
        lambda p, x: p[0] * jnp.exp(-p[1] * x) + p[2] * jnp.exp(-p[3] * x),
        (2.0, 0.4, 1.0, 3.0),
        (0, 5),
    ),
    "bell": (
        lambda p, x: p[0] * jnp.exp(-(((x - p[1]) / p[2]) ** 2)),
        (1.5, 0.3, 0.8),
        (-2, 2),
    ),
    "sinusoid": (
        lambda p, x: p[0] * jnp.sin(p[1] * x + p[2]),
        (1.0, 2.0, 0.3),
        (0, 5),
    ),
    "logistic": (
        lambda p, x: p[0] / (1 + jnp.exp(-p[1] * (x - p[2]))),
        (2.0, 1.5, 0.2),
        (-4, 4),
    ),
    "rational": (
        lambda p, x: (p[0] + p[1] * x) / (1 + p[2] * x**2),
        (1.0, 0.5, 0.7),
        (-3, 3),
    ),
}
"""Functions of parameters and points, the true parameters, and the range of points."""

POINTS = (20, 77, 500)
TOLERANCES = {"float32": (1e-4, 1e-6, 1e-7), "float64": (1e-6, 1e-10)}


def fit_of(model, x):
    """Return a compiled function of start, data, tolerance: parameters and steps."""

    @jax.jit
    def fit(start, y, tolerance):
        solution = optimistix.least_squares(
            lambda p, _: model(p, x) - y,
            optimistix.LevenbergMarquardt(rtol=tolerance, atol=tolerance),
            start,
            max_steps=MAX_STEPS,
            throw=False,
        )
        return solution.value, solution.stats["num_steps"]

    return fit


def steps_of(dtype, tolerances, count, random):
    """Return the steps of `count` fits of each combination, by its description."""
    found = {}
    for name, (model, true, (low, high)) in MODELS.items():
        for points in POINTS:
            x = np.linspace(low, high, points).astype(dtype)
            noise = 0.05 * random.standard_normal((count, points))
            spread = 1 + 0.2 * random.standard_normal((count, len(true)))
            data = (np.asarray(model(np.array(true, dtype), x)) + noise).astype(dtype)
            starts = (np.array(true) * spread).astype(dtype)
            fit = fit_of(model, jnp.asarray(x))
            for tolerance in tolerances:
                found[f"{name}, {points} points, {dtype}, {tolerance:g}"] = [
                    int(fit(p, y, np.array(tolerance, dtype))[1])
                    for p, y in zip(starts, data, strict=True)
                ]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=14, help="of each combination")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found, random = {}, np.random.default_rng(options.seed)
    for dtype, tolerances in TOLERANCES.items():
        # Optimistix mixes dtypes where float64 is enabled and parameters are float32.
        jax.config.update("jax_enable_x64", dtype == "float64")
        found |= steps_of(dtype, tolerances, options.fits, random)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
