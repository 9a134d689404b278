"""Functions of SciPy for arrays that can be traced, as in `jax.scipy`."""

from curta.scipy import special as special, stats as stats
