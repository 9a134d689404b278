"""Programs with symbolic dims: dynamic shapes, made of the values of variables."""

import curta
import curta.numpy as jnp
from curta import export


def text(fun, shape, **options):
    x = jnp.ones((1,) * (shape.count(",") + 1))
    [spec] = export.symbolic_args_specs((x,), (shape,), **options)
    return str(export.export(curta.jit(fun))(spec).mlir_module(serialized=False))


def test_values_of_variables():
    found = text(lambda x: x.reshape(-1), "a, b")
    assert "jax.uses_shape_polymorphism = true" in found
    assert "@main(%arg0: tensor<?x?xf32>) -> (tensor<?xf32> {jax.result_info" in found
    assert "%0 = stablehlo.get_dimension_size %arg0, dim = 0" in found
    assert (
        '@_wrapped_jax_export_main(%arg0: tensor<i32> {jax.global_constant = "a"},'
        ' %arg1: tensor<i32> {jax.global_constant = "b"}, %arg2: tensor<?x?xf32>)'
    ) in found
    assert (
        "    %0 = stablehlo.multiply %arg1, %arg0 : tensor<i32>\n"
        "    %1 = stablehlo.reshape %0 : (tensor<i32>) -> tensor<1xi32>\n"
        "    %2 = stablehlo.dynamic_reshape %arg2, %1 :"
        " (tensor<?x?xf32>, tensor<1xi32>) -> tensor<?xf32>\n"
    ) in found


def test_assertions():
    found = text(lambda x: -x, "2*a", constraints=["a >= 3"])
    assert found.count("@shape_assertion") == 3
    assert "Division had remainder {0} when computing the value of 'a'." in found
    assert "Expected 'a - 3' to be greater or equal to 0, but found {0}." in found


def test_functions_get_the_values():
    found = text(curta.jit(lambda x: jnp.concatenate([x, jnp.zeros_like(x)])), "a")
    assert "stablehlo.dynamic_broadcast_in_dim %cst" in found
    inner = curta.jit(lambda x: x + x.shape[0])
    found = text(lambda x: inner(x), "a")
    assert 'call @"<lambda>"(%arg0, %arg1) : (tensor<i32>, tensor<?xf32>)' in found
    assert "stablehlo.convert %arg0 : (tensor<i32>) -> tensor<f32>" in found
