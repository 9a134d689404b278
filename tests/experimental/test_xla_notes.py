"""What programs tell XLA is taken, and its transformations are those of identities."""

import numpy as np

import curta
import curta.numpy as jnp
from curta.config import config
from curta.experimental.compilation_cache import compilation_cache
from curta.experimental.xla_metadata import set_xla_metadata


def tagged(x):
    with set_xla_metadata(block=True):
        return set_xla_metadata({"y": jnp.sin(x)}, key=1)["y"]


def test_notes_change_nothing():
    x = jnp.arange(3.0)
    for wrap in curta.jit, curta.vmap, set_xla_metadata(function=1):
        np.testing.assert_allclose(wrap(tagged)(x), np.sin(x), rtol=3e-7)
    assert curta.grad(tagged)(0.0) == 1.0
    text = str(curta.make_jaxpr(curta.grad(tagged))(0.0))
    assert "xla_metadata_value[xla_metadata_kvs=(('key', 1),)]" in text


def test_the_folder_of_kernels(tmp_path):
    before = config.jax_compilation_cache_dir
    try:
        compilation_cache.set_cache_dir(tmp_path)
        compilation_cache.reset_cache()
        assert config.jax_compilation_cache_dir == str(tmp_path)
        curta.jit(lambda x: x * 2.5 + 17.25)(jnp.arange(3.0))
    finally:
        compilation_cache.set_cache_dir(before)
