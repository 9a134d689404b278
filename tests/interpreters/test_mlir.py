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
    assert calls == [1.0]  # once, when it was compiled
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


@pytest.mark.parametrize(
    "write",
    [
        lambda ctx, x: mlir.ir_constant(2.0),
        lambda ctx, x: [x.type],
        lambda ctx, x: [ctx.tokens_in],
        lambda ctx, x: [2.0],
    ],
)
def test_rules_that_write_mlir_are_left_aside(write):
    primitive = Primitive("twice")
    primitive.def_impl(lambda x: x * 2)
    primitive.def_abstract_eval(lambda x: x)
    mlir.register_lowering(primitive, write)
    rule = mlir.lower_fun(lambda x: x, multiple_results=False)
    mlir.register_lowering(primitive, rule, platform="tpu")
    assert curta.jit(primitive.bind)(3.0) == 6
    with pytest.raises(NotImplementedError, match="there is no MLIR"):
        rule(None, 1.0)


@pytest.mark.parametrize("has_side_effect", [False, True])
def test_rules_may_call_python(has_side_effect):
    calls = []

    def called(x, y):
        calls.append(x)
        return np.asarray(x) + np.asarray(y), np.asarray(y)

    def rule(ctx, x, y, *, shift):
        assert ctx.module_context.platforms == ("cpu",)
        shifted = mlir.lower_fun(lambda x: [x + shift])(ctx, x)
        avals = ctx.avals_in, ctx.avals_out
        results, token, keep = mlir.emit_python_callback(
            ctx, called, None, [*shifted, y], *avals, has_side_effect=has_side_effect
        )
        ctx.module_context.add_keepalive(keep)
        return [results[0], [results[1]]]

    primitive = Primitive("shifted_sum")
    primitive.multiple_results = True
    primitive.def_abstract_eval(lambda x, y, shift: [x, y])
    mlir.register_lowering(primitive, rule)
    f = curta.jit(lambda x: primitive.bind(x, 10.0, shift=1.0))
    for x in 1.0, 2.0:
        total, kept = f(x)
        assert (total, kept) == (x + 11, 10)
    assert [float(x) for x in calls] == [2, 3]
    with pytest.raises(NotImplementedError, match="partitioned"):
        mlir.emit_python_callback(
            None, called, None, [], [], [], has_side_effect=False, partitioned=True
        )


def test_an_error_in_a_rule_is_raised():
    primitive = Primitive("wrong")
    primitive.def_impl(lambda x: x)
    primitive.def_abstract_eval(lambda x: x)
    mlir.register_lowering(primitive, lambda ctx, x: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        curta.jit(primitive.bind)(3.0)
