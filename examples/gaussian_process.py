"""Gaussian process: regression with a measure of its own uncertainty.

**Problem.** Fit a function to a few noisy observations, and say how certain the fit is.

**Model.** The prior is a kernel with five parameters: a smooth part and a periodic one
(Rasmussen & Williams, 2006, chapter 2).

**Method.** Gradient ascent on the marginal likelihood finds the parameters. The
gradient passes through a Cholesky factorization. The posterior is a mean and a
deviation for each position. Its samples are functions.

**To try.** Remove the periodic part of the kernel, and see how the forecast changes.

    python examples/gaussian_process.py [--steps 600] [--out examples/out]
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import curta as jax
import curta.numpy as jnp
from curta.scipy.linalg import cho_solve, solve_triangular

HERE = Path(__file__).parent


def kernel(params, x, y):
    """Covariance of the function's values at two places."""
    p = {name: jnp.exp(value) for name, value in params.items()}
    gap = x - y
    smooth = p["size"] * jnp.exp(-0.5 * (gap / p["scale"]) ** 2)
    wave = jnp.sin(jnp.pi * gap / p["period"])
    return smooth + p["wave_size"] * jnp.exp(-2 * wave**2)


def covariance(params, xs, ys):
    return jax.vmap(lambda x: jax.vmap(lambda y: kernel(params, x, y))(ys))(xs)


def factor(params, xs):
    """The Cholesky factor of the covariance of noisy observations."""
    noise = (jnp.exp(params["noise"]) + 1e-5) * jnp.eye(len(xs))
    return jnp.linalg.cholesky(covariance(params, xs, xs) + noise)


def loss(params, xs, ys):
    """Minus the log of the marginal likelihood, for each observation."""
    lower = factor(params, xs)
    fit = ys @ cho_solve((lower, True), ys)
    return (0.5 * fit + jnp.sum(jnp.log(jnp.diag(lower)))) / len(xs)


@jax.jit
def fit(params, xs, ys, rates):
    """Gradient descent with momentum, all steps in one program."""

    def step(carry, rate):
        params, speed = carry
        value, grads = jax.value_and_grad(loss)(params, xs, ys)
        speed = jax.tree.map(lambda s, g: 0.9 * s - rate * g, speed, grads)
        return (jax.tree.map(jnp.add, params, speed), speed), value

    start = params, jax.tree.map(jnp.zeros_like, params)
    (params, _), losses = jax.lax.scan(step, start, rates)
    return params, losses


@jax.jit
def posterior(params, xs, ys, places):
    """Mean and covariance of the function at `places`."""
    lower = factor(params, xs)
    cross = covariance(params, xs, places)
    half = solve_triangular(lower, cross, lower=True)
    mean = cross.T @ cho_solve((lower, True), ys)
    return mean, covariance(params, places, places) - half.T @ half


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args(arguments)
    x_key, noise_key, sample_key = jax.random.split(jax.random.key(3), 3)
    xs = jnp.sort(8 * jax.random.uniform(x_key, (60,)) ** 0.8)
    truth = lambda x: jnp.sin(2 * jnp.pi * x / 1.7) + 0.05 * (x - 3) ** 2  # noqa: E731
    ys = truth(xs) + 0.15 * jax.random.normal(noise_key, xs.shape)

    start = {"size": 0.0, "scale": 1.0, "wave_size": 0.0, "period": 0.6, "noise": -2.0}
    start = jax.tree.map(jnp.float32, start)
    params, losses = fit(start, xs, ys, jnp.full(options.steps, 0.004))
    found = {name: round(float(jnp.exp(p)), 3) for name, p in params.items()}
    print(f"loss {float(losses[0]):.3f} -> {float(losses[-1]):.3f}")
    print(f"parameters: {found} (the true period is 1.7)")

    places = jnp.linspace(-1, 12, 300)
    mean, cov = posterior(params, xs, ys, places)
    deviation = jnp.sqrt(jnp.maximum(jnp.diag(cov), 0))
    root = jnp.linalg.cholesky(cov + 1e-3 * jnp.eye(len(places)))
    samples = mean + jax.random.normal(sample_key, (4, len(places))) @ root.T

    figure, axis = plt.subplots(figsize=(10, 4))
    axis.fill_between(places, mean - 2 * deviation, mean + 2 * deviation, alpha=0.2)
    axis.plot(places, samples.T, linewidth=0.6, color="tab:blue")
    axis.plot(places, mean, color="tab:blue", label="mean, two deviations, samples")
    axis.plot(places, truth(places), "k--", linewidth=0.8, label="truth")
    axis.plot(xs, ys, "k.", label="observations")
    axis.set_ylim(-4, 6)
    axis.legend()
    options.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out / "gaussian_process.png", dpi=100, bbox_inches="tight")


if __name__ == "__main__":
    main()
