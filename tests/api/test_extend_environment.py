"""Queries of libraries about the platform and the active transformations."""

import pytest

import curta
import curta.numpy as jnp
from curta._settings.api_version import jax_api_version
from curta.extend import backend, core


def state():
    return (
        core.unsafe_am_i_under_a_jit_DO_NOT_USE(),
        core.unsafe_am_i_under_a_vmap_DO_NOT_USE(),
        core.unsafe_get_axis_names_DO_NOT_USE(),
        core.nonempty_axis_env_DO_NOT_USE(),
    )


def test_transformations_at_work():
    found = []

    def fun(x):
        found.append(state())
        return x

    fun(1.0)
    curta.jit(fun)(1.0)
    curta.vmap(fun)(jnp.ones(2))
    curta.jit(curta.vmap(fun, axis_name="i"))(jnp.ones(2))
    curta.grad(fun)(1.0)
    assert found == [
        (False, False, [], False),
        (True, False, [], False),
        (False, True, [], False),
        (True, True, ["i"], True),
        (False, False, [], False),
    ]


def test_states_are_compared():
    outside = core.get_opaque_trace_state(convention="nnx")
    inside = []
    curta.jit(lambda x: inside.append(core.get_opaque_trace_state()))(1.0)
    assert outside == core.get_opaque_trace_state() != inside[0]
    assert len({outside, core.get_opaque_trace_state()}) == 1


def test_clients():
    client = backend.get_backend("cpu")
    assert curta.devices()[0].client is client is backend.backends()["cpu"]
    assert client.devices() == curta.devices() == client.local_devices()
    assert client.device_count() == client.local_device_count() == curta.device_count()
    assert backend.get_default_device() == curta.devices()[0]
    with pytest.raises(RuntimeError, match="Unknown backend tpu"):
        backend.get_backend("tpu")
    fun = curta.jit(lambda x: x + 1)
    assert fun(1.0) == 2.0
    backend.clear_backends()
    assert fun(1.0) == 2.0


def test_shards_have_a_public_class():
    assert isinstance(jnp.ones(3).addressable_shards[0], curta.Shard)


def test_a_value_under_grad_is_known_and_one_under_jit_is_not():
    seen = []

    def f(x):
        seen.append(curta.core.is_concrete(x))
        return x

    with jax_api_version("0.10"):  # 0.11 has no `is_concrete`
        for transformed in f, curta.grad(f), curta.jit(f), curta.jit(curta.grad(f)):
            transformed(1.0)
        curta.vmap(f)(jnp.ones(2))
    assert seen == [True, True, False, False, False]
