"""`platform_dependent` and `optimization_barrier`."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.pipeline import compile_jaxpr


def on_platform(x):
    return lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.cos, default=jnp.tan)


def test_the_branch_of_the_platform_runs():
    x = jnp.array([0.5, 1.0])
    for fun in (on_platform, curta.jit(on_platform), curta.vmap(on_platform)):
        np.testing.assert_allclose(fun(x), np.sin(x), rtol=1e-6)
    slope = curta.jit(curta.vmap(curta.grad(on_platform)))(x)
    np.testing.assert_allclose(slope, np.cos(x), rtol=1e-6)
    assert lax.platform_dependent(2.0, tpu=jnp.sin, default=lambda x: x + 1) == 3.0
    assert lax.platform_dependent(2.0, tpu=jnp.sin, cpu=lambda x: x + 2) == 4.0


def test_the_jaxpr_names_the_platforms():
    text = str(curta.make_jaxpr(on_platform)(1.0))
    assert "platform_index[platforms=(('cpu',), ('cuda',), None)]" in text
    assert "branches_platforms=(('cpu',), ('cuda',), None)" in text


def test_platforms_that_are_none():
    with pytest.raises(NotImplementedError, match="not found for platform cpu"):
        lax.platform_dependent(1.0, cuda=jnp.sin)
    with pytest.raises(NotImplementedError, match="not found for platform cpu"):
        curta.jit(lambda x: lax.platform_dependent(x, cuda=jnp.sin))(1.0)
    with pytest.raises(ValueError, match="Use 'cuda' or 'rocm'"):
        lax.platform_dependent(1.0, gpu=jnp.sin)
    with pytest.raises(TypeError, match="the 'cpu' branch must be a callable"):
        lax.platform_dependent(1.0, cpu=3)
    with pytest.raises(TypeError, match="the 'default' branch must be a callable"):
        lax.platform_dependent(1.0, cpu=jnp.sin, default=3)


def test_barrier_keeps_trees_and_derivatives():
    def fun(x):
        kept = lax.optimization_barrier({"a": x, "b": jnp.sin(x)})
        return kept["a"] * kept["b"]

    x = jnp.array([0.5, 1.0])
    np.testing.assert_allclose(curta.jit(fun)(x), x * np.sin(x), rtol=1e-6)
    slope = curta.jit(curta.vmap(curta.grad(fun)))(x)
    np.testing.assert_allclose(slope, np.sin(x) + x * np.cos(x), rtol=1e-6)
    text = str(curta.make_jaxpr(fun)(1.0))
    assert "c:f32[] d:f32[] = optimization_barrier a b" in text


def test_results_of_a_barrier_are_memory_of_their_own():
    x = jnp.arange(3.0)
    (y,) = lax.optimization_barrier([x])
    assert y.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()


def test_compiled_barriers_are_native_and_part_what_is_around_them():
    def total(x):
        y, n = lax.optimization_barrier((jnp.sin(x), 3))
        return (y + jnp.sin(x)).sum() * n

    x = jnp.arange(5.0)
    compiled = compile_jaxpr(curta.make_jaxpr(total)(x))
    assert compiled.native is not None
    np.testing.assert_allclose(curta.jit(total)(x), 6 * np.sin(x).sum(), rtol=1e-6)
    np.testing.assert_allclose(
        curta.jit(curta.grad(total))(x), 6 * np.cos(x), rtol=1e-5
    )
    empty = curta.jit(lambda x: lax.optimization_barrier((x, x[:0])))(x)
    assert [a.shape for a in empty] == [(5,), (0,)]
