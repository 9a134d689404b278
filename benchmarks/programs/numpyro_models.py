"""Posteriors by NumPyro: NUTS, chains side by side, a variational guide."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

from benchmarks.programs import Program

_RANDOM = np.random.default_rng(0)
_X = _RANDOM.normal(size=(500, 8)).astype(np.float32)
_Y = (_RANDOM.uniform(size=500) < 1 / (1 + np.exp(-_X @ np.arange(8) / 4))).astype(int)


def _logistic() -> None:
    w = numpyro.sample("w", dist.Normal(0, 1).expand([8]).to_event(1))
    b = numpyro.sample("b", dist.Normal(0, 1))
    numpyro.sample("y", dist.Bernoulli(logits=jnp.asarray(_X) @ w + b), obs=_Y)


def _schools() -> None:
    effects = jnp.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = jnp.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    mean = numpyro.sample("mean", dist.Normal(0, 5))
    scale = numpyro.sample("scale", dist.HalfCauchy(5))
    with numpyro.plate("schools", 8):
        raw = numpyro.sample("raw", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mean + scale * raw, errors), obs=effects)


def _sampling(model: Any, name: str, **options: Any) -> Program:
    mcmc = MCMC(
        NUTS(model), num_warmup=200, num_samples=200, progress_bar=False, **options
    )

    def step(state):
        key, own = jax.random.split(state[0])
        mcmc.run(own)
        return key, mcmc.get_samples()[name]

    # Chains part from each other by rounding: what is alike are their means.
    return Program(
        (jax.random.key(0), None), step, lambda state: state[1].mean(0), rtol=0.3
    )


def logistic_nuts() -> Program:
    return _sampling(_logistic, "w")


def schools_chains() -> Program:
    return _sampling(_schools, "mean", num_chains=4, chain_method="vectorized")


def guide() -> Program:
    svi = SVI(_logistic, AutoNormal(_logistic), numpyro.optim.Adam(1e-2), Trace_ELBO())
    update = jax.jit(svi.update)
    start = svi.init(jax.random.key(0))
    return Program(
        (start, None), lambda state: update(state[0]), lambda state: state[1]
    )
