"""Random numbers from explicit keys, as in `jax.random`."""

from curta._base.on_demand import without_parts as _without_parts
from curta.control.primitives import random_gamma_p as random_gamma_p
from curta.random.counts import (
    binomial as binomial,
    multinomial as multinomial,
    poisson as poisson,
)
from curta.random.discrete import (
    categorical as categorical,
    choice as choice,
    geometric as geometric,
)
from curta.random.gamma import (
    ball as ball,
    beta as beta,
    chisquare as chisquare,
    dirichlet as dirichlet,
    f as f,
    gamma as gamma,
    generalized_normal as generalized_normal,
    loggamma as loggamma,
    t as t,
)
from curta.random.keys import (
    Key as Key,
    PRNGKey as PRNGKey,
    clone as clone,
    fold_in as fold_in,
    key as key,
    key_data as key_data,
    key_dtype as key_dtype,
    key_impl as key_impl,
    split as split,
    wrap_key_data as wrap_key_data,
)
from curta.random.linear import (
    multivariate_normal as multivariate_normal,
    orthogonal as orthogonal,
)
from curta.random.parametrised import (
    double_sided_maxwell as double_sided_maxwell,
    lognormal as lognormal,
    pareto as pareto,
    rayleigh as rayleigh,
    triangular as triangular,
    truncated_normal as truncated_normal,
    wald as wald,
    weibull_min as weibull_min,
)
from curta.random.samplers import (
    bernoulli as bernoulli,
    bits as bits,
    normal as normal,
    permutation as permutation,
    randint as randint,
    uniform as uniform,
)
from curta.random.transformed import (
    cauchy as cauchy,
    exponential as exponential,
    gumbel as gumbel,
    laplace as laplace,
    logistic as logistic,
    maxwell as maxwell,
    rademacher as rademacher,
)

__dir__ = _without_parts(__name__)
