"""Functions that a part of the machine is to run."""

import pytest

import curta
import curta.numpy as jnp
from curta.experimental.compute_on import compute_on

X = jnp.arange(3.0)
DEVICE = curta.memory.Space.Device


def test_results_and_derivatives():
    scale = 2.0 * X

    @compute_on(compute_type="device_host", out_memory_spaces=DEVICE)
    def fun(x, y):
        return {"a": scale * x, "b": y}

    assert fun(X, 1.0)["a"].tolist() == [0, 2, 8]
    assert curta.jit(fun)(X, 1.0)["a"].tolist() == [0, 2, 8]
    slope = curta.grad(lambda x: fun(x, 1.0)["a"].sum())
    assert slope(X).tolist() == curta.jit(slope)(X).tolist() == [0, 2, 4]
    assert curta.vmap(fun, (0, None))(jnp.ones((2, 3)), 1.0)["a"].shape == (2, 3)
    inner = curta.grad(
        lambda x: compute_on(
            lambda y: x * y, compute_type="device", out_memory_spaces=DEVICE
        )(3.0)
    )
    assert float(inner(1.0)) == 3


def test_text():
    fun = compute_on(jnp.sin, compute_type="device_host", out_memory_spaces=DEVICE)
    text = curta.jit(fun).lower(X).as_text()
    assert (
        "%0 = call @compute_on(%arg0) {mhlo.frontend_attributes ="
        ' {_xla_compute_type = "host"}} : (tensor<3xf32>) -> tensor<3xf32>'
    ) in text


def test_misuse():
    with pytest.raises(ValueError, match="Invalid compute type moon"):
        compute_on(jnp.sin, compute_type="moon", out_memory_spaces=DEVICE)
    with pytest.raises(TypeError, match="must be a string"):
        compute_on(jnp.sin, compute_type=3, out_memory_spaces=DEVICE)
    fun = compute_on(jnp.sin, compute_type="device", out_memory_spaces=DEVICE)
    outer = compute_on(fun, compute_type="device_host", out_memory_spaces=DEVICE)
    with pytest.raises(ValueError, match="Nesting `compute_on`"):
        outer(X)
