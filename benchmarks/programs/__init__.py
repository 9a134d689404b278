"""Whole programs with libraries for JAX: each a function that gives a `Program`.

They are written for JAX, and run unchanged over `curta.as_jax`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class Program:
    """A program to measure: `state = step(state)`, repeatedly.

    `answer(state)`, after the first steps, must be alike over both libraries, up to
    `rtol`.
    """

    state: Any
    step: Callable[[Any], Any]
    answer: Callable[[Any], Any]
    rtol: float = 1e-3


# By module of this package, which imports one library.
PROGRAMS = {
    "linen": ("mlp", "cnn", "resnet", "unet", "vae", "gru"),
    "nnx": ("mlp", "transformer", "decode"),
    "haiku_nets": ("mlp", "lstm", "attention"),
    "equinox_nets": ("mlp", "cnn"),
    "diffrax_solves": ("lotka_volterra", "brownian", "neural_ode"),
    "numpyro_models": ("logistic_nuts", "schools_chains", "guide"),
    "blackjax_samplers": ("hmc", "nuts"),
    "solvers": ("levenberg_marquardt", "bfgs", "lbfgs"),
    "graphs": ("graph_net",),
    "flows": ("real_nvp",),
    "plain": ("adam_tree", "pendulums"),
}
