"""Modules as they are printed."""

import curta
import curta.numpy as jnp
from curta.compiler.stablehlo import rules
from curta.compiler.stablehlo.asm import module_text
from curta.compiler.stablehlo.lowering import ModuleState

assert rules.FAMILIES  # the table of rules is full


def text(fun, *args, **settings):
    program = ModuleState("jit_f")
    program.define(curta.make_jaxpr(fun)(*args), "main", public=True)
    return module_text(program.module, **settings)


def test_elementwise_ops():
    x = jnp.ones((4, 3))
    found = text(lambda x, y: (jnp.sin(x) + y * 2.0, x > 0), x, x)
    assert found == (
        "module @jit_f attributes {mhlo.num_partitions = 1 : i32,"
        " mhlo.num_replicas = 1 : i32} {\n"
        "  func.func public @main(%arg0: tensor<4x3xf32>, %arg1: tensor<4x3xf32>)"
        " -> (tensor<4x3xf32>, tensor<4x3xi1>) {\n"
        "    %0 = stablehlo.sine %arg0 : tensor<4x3xf32>\n"
        "    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>\n"
        "    %1 = stablehlo.broadcast_in_dim %cst, dims = [] :"
        " (tensor<f32>) -> tensor<4x3xf32>\n"
        "    %2 = stablehlo.multiply %arg1, %1 : tensor<4x3xf32>\n"
        "    %3 = stablehlo.add %0, %2 : tensor<4x3xf32>\n"
        "    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>\n"
        "    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] :"
        " (tensor<f32>) -> tensor<4x3xf32>\n"
        "    %5 = stablehlo.compare GT, %arg0, %4, FLOAT :"
        " (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xi1>\n"
        "    return %3, %5 : tensor<4x3xf32>, tensor<4x3xi1>\n"
        "  }\n"
        "}\n"
    )


def test_lines_of_the_program():
    found = text(lambda x: jnp.sin(x), 1.0, debug_info=True)
    assert "stablehlo.sine %arg0 : tensor<f32> loc(#loc3)" in found
    assert "test_text.py" in found


def test_one_function_for_all_calls_of_a_jaxpr():
    inner = curta.jit(jnp.cos)
    found = text(lambda x: inner(inner(x)), 1.0)
    assert found.count("call @cos(") == 2
    assert found.count("func.func private @cos(") == 1


def test_a_single_key_is_a_constant_of_its_words():
    key = curta.random.key(7)
    text = curta.jit(lambda a: curta.random.normal(key, (3,)) + a).lower(1.0).as_text()
    assert "dense<[0, 7]> : tensor<2xui32>" in text
    assert "tensor<1x2xui32>" not in text


def test_memories_that_programs_name():
    def f(a):
        there = curta.device_put(jnp.sin(a), curta.memory.Space.Host)
        return curta.device_put(there, curta.memory.Space.Device) + 1

    traced = curta.jit(f).trace(1.0)
    found = traced.lower(lowering_platforms=("cuda",)).as_text()
    for kind in ("pinned_host", "device"):
        assert f'_xla_buffer_placement = "{kind}"' in found
    assert "placement" not in traced.lower(lowering_platforms=("cpu",)).as_text()
