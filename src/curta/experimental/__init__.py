"""What JAX keeps under `jax.experimental`, as far as it is here."""

from curta.api.callbacks import io_callback as io_callback
from curta.experimental import checkify as checkify, pjit as pjit
