"""Arrays of strings: held and laid out over devices, refused by everything else."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import NamedSharding, P

STRING = np.dtypes.StringDType()
TEXT = np.array([["ab", "cd"], ["efgh", "i" * 40]], STRING)


def on_device():
    return curta.device_put(TEXT, curta.devices()[0])


@pytest.mark.parametrize("make", [curta.device_put, jnp.asarray])
def test_there_and_back(make):
    mesh = curta.sharding.Mesh(np.array(curta.devices()[:2]).reshape(2, 1), ("x", "y"))
    for place in (curta.devices()[1], NamedSharding(mesh, P("x", "y"))):
        x = make(TEXT, device=place)
        back = curta.device_get(x.block_until_ready())
        assert x.dtype == back.dtype == STRING
        np.testing.assert_array_equal(back, TEXT)
    assert repr(on_device()).startswith("Array([['ab', 'cd'],")
    with pytest.raises(TypeError, match="String arrays can only be sharded to CPU"):
        make(TEXT)


def test_other_dtypes():
    with pytest.raises(TypeError, match="Cannot make an array with dtype float32"):
        jnp.asarray(TEXT, jnp.float32, device=curta.devices()[0])
    with pytest.raises(TypeError, match=r"Cannot make an array with dtype StringDType"):
        jnp.asarray(np.arange(2), STRING, device=curta.devices()[0])
    with pytest.raises(TypeError, match="can only be made from NumPy arrays"):
        jnp.asarray(["a"], STRING)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: curta.jit(lambda x: x)(x),
        lambda x: curta.grad(lambda x: x)(x),
        lambda x: x + x,
        lambda x: x.reshape(4),
        lambda x: x[0, 0],
        lambda x: jnp.concatenate([x, x]),
        lambda x: curta.jit(lambda x: x)(TEXT),
    ],
)
def test_refused(call):
    with pytest.raises(
        TypeError, match="valid JAX type|does not accept|as an abstract"
    ):
        call(on_device())


def test_passes_through_vmap():
    out = curta.vmap(lambda x: x)(on_device())
    np.testing.assert_array_equal(out, TEXT)
