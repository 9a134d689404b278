"""Options with Greeks: differentiate the price of an option.

**Problem.** Compute prices of options and their sensitivities, the Greeks.

**Model.** The Black-Scholes formula prices a European call. An Asian option, which pays
by the mean of the path, has no such formula; its price is a mean over simulated paths.

**Method.** `grad` of the formula gives delta and gamma (spot), vega (volatility) and
theta (time), and `vmap` evaluates them for many spots. The same `grad` differentiates
the simulation.

**To try.** A barrier option: multiply the payoff by a smooth indicator.

    python examples/options.py [--paths 100000] [--out examples/out]
"""

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import curta as jax
import curta.numpy as jnp
from curta.scipy.stats import norm

HERE = Path(__file__).parent
STRIKE, RATE, DAYS = 100.0, 0.03, 64


def call(spot, volatility, years):
    """The price of a European call (Black & Scholes, 1973)."""
    deviation = volatility * jnp.sqrt(years)
    d1 = (jnp.log(spot / STRIKE) + (RATE + volatility**2 / 2) * years) / deviation
    discount = jnp.exp(-RATE * years)
    return spot * norm.cdf(d1) - STRIKE * discount * norm.cdf(d1 - deviation)


def greeks(spot, volatility, years):
    delta, vega, slope = jax.grad(call, (0, 1, 2))(spot, volatility, years)
    gamma = jax.grad(jax.grad(call))(spot, volatility, years)
    return {"delta": delta, "gamma": gamma, "vega": vega, "theta": -slope}


def path(spot, volatility, years, noise):
    """Prices along one path of a geometric Brownian motion."""
    dt = years / DAYS
    steps = (RATE - volatility**2 / 2) * dt + volatility * jnp.sqrt(dt) * noise
    return spot * jnp.exp(jnp.cumsum(steps))


def asian_payoff(spot, volatility, years, noise):
    mean = jnp.mean(path(spot, volatility, years, noise))
    return jnp.exp(-RATE * years) * jnp.maximum(mean - STRIKE, 0.0)


@jax.jit
def asian(spot, volatility, years, noise):
    """Price, its standard error, and delta and vega of the same paths."""
    one = jax.value_and_grad(asian_payoff, (0, 1))
    each = jax.vmap(one, (None, None, None, 0))
    prices, slopes = each(spot, volatility, years, noise)
    error = jnp.std(prices) / jnp.sqrt(len(noise))
    return jnp.mean(prices), error, jnp.mean(slopes[0]), jnp.mean(slopes[1])


def draw(file, spots, prices, values, paths):
    figure, axes = plt.subplots(2, 3, figsize=(11, 6))
    panels = {"price of a European call": prices} | values
    for axis, (name, value) in zip(axes.flat, panels.items()):
        axis.plot(spots, value)
        axis.axvline(STRIKE, color="gray", linewidth=0.5)
        axis.set_title(name)
    axes.flat[-1].plot(paths.T, linewidth=0.7)
    axes.flat[-1].set_title("paths")
    figure.tight_layout()
    figure.savefig(file, dpi=100)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--paths", type=int, default=100_000)
    parser.add_argument("--out", type=Path, default=HERE / "out")
    options = parser.parse_args(arguments)

    spots = jnp.linspace(60, 140, 400)
    prices = jax.jit(jax.vmap(call, (0, None, None)))(spots, 0.2, 1.0)
    values = jax.jit(jax.vmap(greeks, (0, None, None)))(spots, 0.2, 1.0)
    at_strike = jax.jit(greeks)(STRIKE, 0.2, 1.0)
    print(f"European call at the strike: {float(call(STRIKE, 0.2, 1.0)):.3f}")
    print("  " + ", ".join(f"{k} {float(v):.4f}" for k, v in at_strike.items()))

    noise = jax.random.normal(jax.random.key(0), (options.paths, DAYS))
    price, error, delta, vega = map(float, asian(STRIKE, 0.2, 1.0, noise))
    print(f"Asian call, {options.paths} paths: {price:.3f} +- {error:.3f}")
    print(f"  delta {delta:.4f}, vega {vega:.4f}")
    few = jax.vmap(path, (None, None, None, 0))(STRIKE, 0.2, 1.0, noise[:40])
    options.out.mkdir(parents=True, exist_ok=True)
    draw(options.out / "options.png", spots, prices, values, few)


if __name__ == "__main__":
    main()
