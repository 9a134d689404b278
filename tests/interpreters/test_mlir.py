"""Primitives that programs define, compiled as their lowering rules say."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.extend.core import Primitive
from curta.interpreters import ad, batching, mlir


def cube(calls=None):
    primitive = Primitive("cube")

    def lowered(x, *, shift):
        if calls is not None:
            calls.append(shift)
        return x**3 + shift

    primitive.def_abstract_eval(lambda x, shift: x)
    mlir.register_lowering(primitive, mlir.lower_fun(lowered, multiple_results=False))
    ad.defjvp(primitive, lambda t, x, shift: 3 * x**2 * t)
    batching.defvectorized(primitive)
    return primitive


def test_a_primitive_is_compiled_as_its_function():
    calls = []
    primitive = cube(calls)
    f = curta.jit(lambda x: primitive.bind(x, shift=1.0) * 2)
    np.testing.assert_allclose(f(jnp.arange(4.0)), 2 * np.arange(4.0) ** 3 + 2)
    assert set(calls) == {1.0}
    assert "cube[shift=1.0]" in str(curta.make_jaxpr(f)(1.0))
    assert curta.jit(curta.grad(f))(2.0) == 24
    both = curta.jit(curta.vmap(curta.value_and_grad(f)))(jnp.arange(3.0))
    np.testing.assert_allclose(both[1], 6 * np.arange(3.0) ** 2)
    looped = curta.jit(lambda x: curta.lax.fori_loop(0, 2, lambda _, x: f(x), x))
    assert looped(0.5) == 2 * (2 * 0.125 + 2) ** 3 + 2


def test_several_results():
    primitive = Primitive("sine_and_cosine")
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda x: (x, x))
    rule = mlir.lower_fun(lambda x: (jnp.sin(x), jnp.cos(x)))
    mlir.register_lowering(primitive, rule)
    sine, cosine = curta.jit(primitive.bind)(0.0)
    assert (sine, cosine) == (0, 1)


def test_rules_that_write_mlir_are_left_aside():
    primitive = Primitive("twice")
    primitive.def_impl(lambda x: x * 2)
    primitive.def_abstract_eval(lambda x: x)
    mlir.register_lowering(primitive, lambda ctx, x: 1 / 0)
    rule = mlir.lower_fun(lambda x: x, multiple_results=False)
    mlir.register_lowering(primitive, rule, platform="tpu")
    assert curta.jit(primitive.bind)(3.0) == 6
    with pytest.raises(NotImplementedError, match="there is no MLIR"):
        rule(None, 1.0)
