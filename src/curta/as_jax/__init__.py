"""`import jax` as Curta, for libraries that are written for JAX.

>>> import curta.as_jax
>>> import jax, jax.numpy as jnp
>>> jax.grad(jnp.sin)(0.0)
Array(1., dtype=float32, weak_type=True)

A program's own imports are better changed; this is for those of Optax, Haiku, NumPyro
and others. Import it before them. The names of `jax` are those of `curta`; of JAX's
private modules there are such as Curta has itself (`jax._src.core`, `jax._src.dtypes`,
`jax._src.flatten_util` ...), with public names alone.

Raises ImportError if JAX itself has been imported already.
"""

from curta.as_jax import finder as finder
