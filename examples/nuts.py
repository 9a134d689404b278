# pyright: reportMissingImports=false
"""Stochastic volatility: sample 503 unknowns with NUTS of NumPyro.

**Problem.** Given the returns of 500 days, estimate the volatility of each day.

**Model.** Returns have a Student distribution. The logarithm of its scale is a random
walk. Unknown are the scale of every day, the step size of the walk, and the tails of
the distribution.

**Method.** NumPyro's No-U-Turn sampler runs four chains at once (`vmap`). NumPyro is
written for JAX; after `import curta.as_jax` it runs on Curta.

**To try.** More draws (`--draws 1000`), and compare the intervals.

    python examples/nuts.py [--days 500] [--draws 400] [--out examples/out]

It needs NumPyro, which `make gallery` installs.
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
# Before NumPyro, which imports jax.
import curta.as_jax  # isort: skip  # noqa: F401
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import effective_sample_size
from numpyro.infer import MCMC, NUTS

HERE = Path(__file__).parent
CHAINS = 4
STEP, TAILS, SCALE = 0.15, 8.0, 0.01  # with which the returns are made


def simulate(key, days):
    """The daily returns of a share, and the scales that they were drawn with."""
    walk, noise = jax.random.split(key)
    scales = SCALE * jnp.exp(jnp.cumsum(STEP * jax.random.normal(walk, (days,))))
    return scales * jax.random.t(noise, TAILS, (days,)), scales


def model(returns):
    """The prior, and the likelihood of the returns."""
    step = numpyro.sample("step", dist.Exponential(10.0))
    tails = numpyro.sample("tails", dist.Exponential(0.1))
    first = numpyro.sample("first", dist.Normal(jnp.log(0.01), 1.0))
    with numpyro.plate("days", len(returns)):
        moves = numpyro.sample("moves", dist.Normal(0.0, 1.0))
    scales = numpyro.deterministic("scales", jnp.exp(first + step * jnp.cumsum(moves)))
    numpyro.sample("returns", dist.StudentT(2 + tails, 0.0, scales), obs=returns)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--days", type=int, default=500)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args(arguments)
    returns, truth = simulate(jax.random.key(4), options.days)
    sampler = MCMC(
        NUTS(model),
        num_warmup=options.draws,
        num_samples=options.draws,
        num_chains=CHAINS,
        chain_method="vectorized",
    )
    sampler.run(jax.random.key(1), returns)
    draws = sampler.get_samples()
    sizes = effective_sample_size(sampler.get_samples(group_by_chain=True)["scales"])
    low, middle, high = jnp.quantile(draws["scales"], jnp.array([0.05, 0.5, 0.95]), 0)
    inside = jnp.mean((low < truth) & (truth < high))
    step = draws["step"]
    print(f"{CHAINS * options.draws} draws of {options.days + 3} unknowns")
    print(f"smallest effective sample size of a day's scale: {sizes.min():.0f}")
    print(f"size of a step: {step.mean():.3f} +- {step.std():.3f} ({STEP} was used)")
    print(f"days whose scale is within its 90 % interval: {100 * inside:.0f} %")

    figure, axes = plt.subplots(2, 1, figsize=(11, 6), sharex=True)
    days = jnp.arange(options.days)
    axes[0].bar(days, 100 * returns, width=1.0)
    axes[0].set_ylabel("return, %")
    axes[1].fill_between(days, 100 * low, 100 * high, alpha=0.3, label="90 % interval")
    axes[1].plot(days, 100 * middle, label="median")
    axes[1].plot(days, 100 * truth, "k", linewidth=0.8, label="the one used")
    axes[1].set(xlabel="day", ylabel="scale, %", yscale="log")
    axes[1].legend()
    options.out.mkdir(parents=True, exist_ok=True)
    figure.savefig(options.out / "nuts.png", dpi=100, bbox_inches="tight")


if __name__ == "__main__":
    main()
