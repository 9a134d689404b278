"""Random numbers from explicit keys, as in `jax.random`."""

from curta.random.keys import (
    PRNGKey as PRNGKey,
    fold_in as fold_in,
    key as key,
    key_data as key_data,
    key_impl as key_impl,
    split as split,
    wrap_key_data as wrap_key_data,
)
from curta.random.samplers import (
    bernoulli as bernoulli,
    bits as bits,
    normal as normal,
    permutation as permutation,
    randint as randint,
    uniform as uniform,
)
