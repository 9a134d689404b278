"""`curta.random` and `curta.nn.initializers`: what is drawn, by which distribution."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.stats as st
from tests.functions.rows import FLOAT

COUNT = 1500


@dataclass(frozen=True)
class Draw:
    """A function of a key, and the distribution of what it draws.

    arguments: those after the key, before the shape.
    distribution: SciPy's, frozen.
    seen: takes numbers of that distribution from the draws, of shape (COUNT, ...).
    options: further keywords.
    dtypes: those that it draws in, as `dtype=`; empty if it has no such argument.
    shaped: whether it takes `shape=`.
    """

    name: str
    arguments: tuple[Any, ...]
    distribution: Any
    seen: Callable[[np.ndarray], np.ndarray] = np.ravel
    options: tuple[tuple[str, Any], ...] = ()
    dtypes: tuple[str, ...] = FLOAT
    shaped: bool = True

    def of(self, function, key, shape=(COUNT,), **options):
        options = {**dict(self.options), **options}
        return function(
            key, *self.arguments, **({"shape": shape} if self.shaped else {}), **options
        )


def first(x):
    return x[..., 0]


WHOLE = ("int32",)
VECTOR = np.array([0.2, 0.5, 0.3], np.float32)
CENTRE = np.array([1.0, -2.0], np.float32)
SPREAD = np.array([[2.0, 0.5], [0.5, 1.0]], np.float32)
weights = st.rv_discrete(values=([0, 1, 2], [0.2, 0.5, 0.3]))
DRAWS = [
    Draw("uniform", (), st.uniform()),
    Draw("normal", (), st.norm()),
    Draw("cauchy", (), st.cauchy()),
    Draw("exponential", (), st.expon()),
    Draw("gumbel", (), st.gumbel_r()),
    Draw("laplace", (), st.laplace()),
    Draw("logistic", (), st.logistic()),
    Draw("maxwell", (), st.maxwell()),
    Draw("lognormal", (0.5,), st.lognorm(0.5)),
    Draw("beta", (2.0, 0.7), st.beta(2, 0.7)),
    Draw("chisquare", (3.0,), st.chi2(3)),
    Draw("f", (3.0, 5.0), st.f(3, 5)),
    Draw("gamma", (1.7,), st.gamma(1.7)),
    Draw("loggamma", (1.7,), st.loggamma(1.7)),
    Draw("pareto", (2.5,), st.pareto(2.5)),
    Draw("rayleigh", (1.5,), st.rayleigh(scale=1.5)),
    Draw("t", (4.0,), st.t(4)),
    Draw("triangular", (-1.0, 0.5, 2.0), st.triang(0.5, -1, 3)),
    Draw("truncated_normal", (-1.0, 2.0), st.truncnorm(-1, 2)),
    Draw("wald", (1.3,), st.invgauss(1.3, scale=1)),
    Draw("weibull_min", (1.5, 2.0), st.weibull_min(2.0, scale=1.5)),
    Draw("generalized_normal", (1.5,), st.gennorm(1.5)),
    Draw(
        "double_sided_maxwell",
        (0.5, 2.0),
        st.dgamma(1.5),
        lambda x: ((x - 0.5) / 2) ** 2 / 2 * np.sign(x - 0.5),
    ),
    Draw("bernoulli", (0.3,), st.bernoulli(0.3), dtypes=()),
    Draw("binomial", (5.0, 0.4), st.binom(5, 0.4), dtypes=("float32",)),
    Draw("geometric", (0.3,), st.geom(0.3), dtypes=WHOLE),
    Draw("poisson", (3.5,), st.poisson(3.5), dtypes=WHOLE),
    Draw(
        "rademacher",
        (),
        st.rv_discrete(values=([-1, 1], [0.5, 0.5])),
        dtypes=(*WHOLE, "float32", "int8"),
    ),
    Draw(
        "randint",
        (),
        st.randint(-2, 5),
        options=(("minval", -2), ("maxval", 5)),
        dtypes=("int32", "int8", "int64"),
    ),
    Draw(
        "bits",
        (),
        st.randint(0, 256),
        lambda x: x.astype("uint64") % 256,
        dtypes=("uint32", "uint8", "uint16", "uint64"),
    ),
    Draw("categorical", (np.log(VECTOR),), weights, dtypes=()),
    Draw("choice", (3,), weights, options=(("p", VECTOR),), dtypes=()),
    Draw("permutation", (COUNT,), st.randint(0, COUNT), dtypes=(), shaped=False),
    Draw("dirichlet", (np.array([1.0, 2.0, 3.0], np.float32),), st.beta(1, 5), first),
    Draw(
        "multinomial",
        (5.0, VECTOR),
        st.binom(5, 0.2),
        first,
        options=(("shape", (COUNT, 3)),),
        dtypes=(),
        shaped=False,
    ),
    Draw(
        "multivariate_normal",
        (CENTRE, SPREAD),
        st.norm(1, np.sqrt(2)),
        first,
        dtypes=("float32",),
    ),
    Draw("ball", (3,), st.uniform(), lambda x: np.linalg.norm(x, axis=-1) ** 3),
    Draw(
        "orthogonal",
        (3,),
        st.uniform(-1, 2),
        lambda x: x[:, 0, 0],
        dtypes=("float32", "float64"),
    ),
]
BELL = st.truncnorm(-2, 2)
FAN_IN, FAN_OUT = 40, 60


def bell(variance):
    return st.truncnorm(-2, 2, scale=np.sqrt(variance) / BELL.std())


def flat(variance):
    half = np.sqrt(3 * variance)
    return st.uniform(-half, 2 * half)


AVERAGE = (FAN_IN + FAN_OUT) / 2
INITIALIZERS = {
    "normal": ((0.2,), st.norm(scale=0.2)),
    "uniform": ((0.2,), st.uniform(0, 0.2)),
    "truncated_normal": ((0.2,), st.truncnorm(-2, 2, scale=0.2)),
    "glorot_normal": ((), bell(1 / AVERAGE)),
    "xavier_normal": ((), bell(1 / AVERAGE)),
    "glorot_uniform": ((), flat(1 / AVERAGE)),
    "xavier_uniform": ((), flat(1 / AVERAGE)),
    "he_normal": ((), bell(2 / FAN_IN)),
    "kaiming_normal": ((), bell(2 / FAN_IN)),
    "he_uniform": ((), flat(2 / FAN_IN)),
    "kaiming_uniform": ((), flat(2 / FAN_IN)),
    "lecun_normal": ((), bell(1 / FAN_IN)),
    "lecun_uniform": ((), flat(1 / FAN_IN)),
    "variance_scaling": (
        (3.0, "fan_out", "normal"),
        st.norm(scale=np.sqrt(3 / FAN_OUT)),
    ),
}
EXACT = {"zeros": 0.0, "ones": 1.0}
ORTHOGONAL = {"orthogonal": (4, 3), "delta_orthogonal": (3, 2, 4)}
NAMES = [
    "nn.initializers.constant",
    *(f"random.{draw.name}" for draw in DRAWS),
    *(f"nn.initializers.{name}" for name in [*INITIALIZERS, *EXACT, *ORTHOGONAL]),
]
