"""The text of loops, branches, calls, windows and products."""

import re

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.stablehlo import rules
from curta.compiler.stablehlo.asm import module_text
from curta.compiler.stablehlo.lowering import ModuleState
from curta.config import config, enable_x64
from curta.experimental import checkify

assert rules.FAMILIES  # the table of rules is full

X = jnp.ones((4, 3))
V = jnp.arange(5.0)


def text(fun, *args, platforms=("cpu",)):
    """The functions of a module, without what is before and after them."""
    program = ModuleState("jit_f", platforms)
    program.define(curta.make_jaxpr(fun)(*args), "main", public=True)
    return "\n".join(module_text(program.module).splitlines()[1:-1])


def names(found):
    """The names of the private functions."""
    return re.findall(r"func.func private @(\w+)", found)


def test_scan_is_a_loop_over_rows():
    found = text(lambda c, xs: lax.scan(lambda c, x: (c + x, c * 2), c, xs), 1.0, V)
    assert found == (
        """\
  func.func public @main(%arg0: tensor<f32>, %arg1: tensor<5xf32>)\
 -> (tensor<f32>, tensor<5xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<5xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:4 = stablehlo.while(%iterArg = %arg1, %iterArg_0 = %c, %iterArg_1 = %arg0,\
 %iterArg_2 = %0) : tensor<5xf32>, tensor<i32>, tensor<f32>, tensor<5xf32>
    cond {
      %c_3 = stablehlo.constant dense<5> : tensor<i32>
      %2 = stablehlo.compare LT, %iterArg_0, %c_3, SIGNED :\
 (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %2 : tensor<i1>
    } do {
      %2 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_0) :\
 (tensor<5xf32>, tensor<i32>) -> tensor<f32>
      %3:2 = func.call @closed_call(%iterArg_1, %2) :\
 (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
      %4 = func.call @dynamic_update_index_in_dim(%iterArg_2, %3#1, %iterArg_0) :\
 (tensor<5xf32>, tensor<f32>, tensor<i32>) -> tensor<5xf32>
      %c_3 = stablehlo.constant dense<1> : tensor<i32>
      %5 = stablehlo.add %iterArg_0, %c_3 : tensor<i32>
      stablehlo.return %iterArg, %5, %3#0, %4 :\
 tensor<5xf32>, tensor<i32>, tensor<f32>, tensor<5xf32>
    }
    return %1#2, %1#3 : tensor<f32>, tensor<5xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<5xf32>, %arg1: tensor<i32>)\
 -> tensor<f32> {
    %0 = stablehlo.dynamic_slice %arg0, %arg1, sizes = [1] :\
 (tensor<5xf32>, tensor<i32>) -> tensor<1xf32>
    %1 = stablehlo.reshape %0 : (tensor<1xf32>) -> tensor<f32>
    return %1 : tensor<f32>
  }
"""
        + found[found.index("  func.func private @closed_call") :]
    )


def test_scan_backwards_counts_from_the_end():
    found = text(lambda xs: lax.scan(lambda c, x: (c + x, c), 0.0, xs, reverse=True), V)
    assert re.search(r"%2 = stablehlo.subtract %c_\d, %iterArg_\d : tensor", found)
    assert re.search(r"%3 = stablehlo.subtract %2, %c_\d : tensor<i32>", found)
    assert "@dynamic_index_in_dim(%iterArg, %3)" in found


def test_unrolled_scan_is_a_loop_over_blocks_and_the_rest():
    def fun(xs):
        return lax.scan(lambda c, x: (c + x, c * 2), 1.0, xs, unroll=2)

    found = text(fun, V)
    assert found.count("call @closed_call") == 3
    assert "stablehlo.slice %arg0 [0:4]" in found
    assert "(tensor<4xf32>) -> tensor<2x2xf32>" in found
    assert "stablehlo.while" not in text(lambda xs: fun(xs)[1], V[:2])


def test_scan_of_nothing_runs_nothing():
    found = text(lambda xs: lax.scan(lambda c, x: (c + x, c), 1.0, xs), V[:0])
    assert "while" not in found and "tensor<0xf32>" in found


def test_constants_of_a_scan_are_carried_after_what_is_read():
    found = text(lambda w, xs: lax.scan(lambda c, x: (c * w, x), 0.0, xs), 2.0, V)
    assert "while(%iterArg = %arg1, %iterArg_0 = %arg0, %iterArg_1 = %c" in found


def test_while_carries_its_constants():
    found = text(
        lambda c, y, z: lax.while_loop(lambda c: c < y, lambda c: c + z, c), 1, 2, 3
    )
    assert "while(%iterArg = %arg1, %iterArg_0 = %arg2, %iterArg_1 = %arg0)" in found
    assert "stablehlo.return %iterArg, %iterArg_0, %1" in found


def test_what_a_condition_does_in_order_is_done_before_the_loop_asks():
    def goes_on(x):
        curta.debug.print("{}", x, ordered=True)
        return x < 10

    found = text(lambda x: lax.while_loop(goes_on, lambda x: x * 2, x), 1.0)
    assert "while(%iterArg = %0, %iterArg_0 = %1, %iterArg_1 = %arg1)" in found
    condition = found[found.index("cond {") : found.index("} do {")]
    assert condition.split() == ["cond", "{"] + (
        "stablehlo.return %iterArg_0 : tensor<i1>".split()
    )
    assert found.count("custom_call") == 2


def test_while_of_a_batch_goes_on_while_one_example_does():
    def fun(x, y):
        return lax.while_loop(lambda a: a < y, lambda a: a * 2, x)

    found = text(curta.vmap(fun), V, V)
    assert "applies stablehlo.or across dimensions = [0]" in found
    assert "stablehlo.select" in found


def test_branches_read_what_is_around_them():
    found = text(lambda p, x: lax.cond(p, lambda: x + 1, lambda: x * 2), True, 1.0)
    assert '"stablehlo.case"(%0) ({\n      %cst' in found
    assert "stablehlo.multiply %arg1, %cst" in found
    found = text(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos], x), 1, 1.0)
    assert re.search(r"stablehlo.clamp %c, %\w+, %c_0", found)


@pytest.mark.parametrize(
    "platform, op", [("cpu", "sine"), ("cuda", "cosine"), ("rocm", "tan")]
)
def test_one_platform_has_one_branch(platform, op):
    def fun(x):
        return lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.cos, default=jnp.tan)

    found = text(fun, V, platforms=[platform])
    assert f"stablehlo.{op}" in found and "case" not in found


def test_several_platforms_choose_by_an_index():
    def fun(x):
        return lax.platform_dependent(x, cpu=jnp.sin, default=curta.jit(jnp.cos))

    found = text(lambda x: curta.jit(fun)(x), V, platforms=["cpu", "cuda", "rocm"])
    index = 'tensor<i32> {jax.global_constant = "_platform_index"}'
    assert f"@main(%arg0: {index}, %arg1: tensor<5xf32>)" in found
    assert "call @fun(%arg0, %arg1)" in found and f"@fun(%arg0: {index}" in found
    places = re.findall(r"%c = stablehlo.constant dense<(\d)> : tensor<i32>", found)
    assert places == ["0", "1", "1"]
    assert "stablehlo.sine" in found and "@cos(%arg0, %arg1)" in found


def test_what_is_made_for_a_call_of_some_name():
    @curta.jit
    def p(x):
        return x + 1

    @curta.jit
    def q(x):
        return x * 2

    found = text(lambda x: (p(q(x)), p(q(x[:2])), p(q(x[:3])), p(q(x))), V)
    # One count for all names, as in MLIR.
    assert names(found) == ["q", "p", "q_0", "p_1", "q_2", "p_3"]
    found = text(lambda x: curta.jit(lambda y: y + 1)(x), V)
    assert '@"<lambda>"' in found


def test_what_is_computed_again_is_behind_a_barrier():
    def fun(x):
        return curta.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x).sum()

    assert "optimization_barrier" not in text(fun, V)
    found = text(curta.grad(fun), V)
    assert ":2 = stablehlo.optimization_barrier %arg0, %" in found
    free = curta.checkpoint(lambda y: jnp.sin(jnp.sin(y)), prevent_cse=False)
    assert "barrier" not in text(curta.grad(lambda x: free(x).sum()), V)


def test_composite():
    def fun(x):
        fields = {"a": np.float32(1.5), "b": "c", "d": [1, 2.5], "e": True, "f": None}
        values = {"g": np.arange(2), "h": {"x": np.int8(1)}, "i": np.dtype("int8")}
        return lax.composite(lambda x, **_: jnp.sin(x), "my.op", version=3)(
            x, **fields, **values
        )

    found = text(fun, V)
    assert (
        'stablehlo.composite "my.op" %arg0 {composite_attributes = {a = 1.500000e+00 :'
        ' f32, b = "c", d = [1, 2.500000e+00], e = true,'
        " g = dense<[0, 1]> : tensor<2xi64>, h = {x = 1 : i8}, i = i8},"
        " decomposition = @my.op, version = 3 : i32}" in found
    )
    plain = text(lambda x: lax.composite(jnp.sin, "my.op")(x), V)
    assert '"my.op" %arg0 {decomposition = @my.op} :' in plain


def test_custom_derivatives_are_what_they_call():
    @curta.custom_jvp
    def f(x):
        return jnp.sin(x)

    f.defjvp(lambda p, t: (f(*p), t[0]))
    assert names(text(lambda x: f(f(x)), V)) == []


def test_references_are_arrays():
    def fun(x):
        ref = curta.new_ref(x)
        ref[...] += 1.0
        return ref[...]

    assert "stablehlo.add %arg0" in text(fun, V)


def test_sums_of_small_floats_are_wide():
    found = text(lambda x: lax.cumsum(x), V.astype(jnp.bfloat16))
    assert "(tensor<5xbf16>) -> tensor<5xf32>" in found
    found = text(lambda x: lax.reduce_max(x, (0,)), V.astype(jnp.bfloat16))
    assert "f32" not in found


def test_gather_and_scatter_leave_out_empty_numbers():
    found = text(lambda x, i: x.at[i].get(mode="clip"), X, jnp.array([0, 2]))
    assert (
        "#stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],"
        " start_index_map = [0], index_vector_dim = 1>" in found
    )
    found = text(curta.vmap(lambda x, i: x.at[i].add(1.0)), X, jnp.zeros(4, int))
    assert (
        "#stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0],"
        " scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1],"
        " index_vector_dim = 1>" in found
    )


def test_complex_sums_are_scattered_by_parts_on_gpus():
    with enable_x64(True):
        x = jnp.ones(3) + 1j
        fun = lambda x: x.at[0].add(1j)  # noqa: E731
        assert text(fun, x).count("stablehlo.scatter") == 2  # with its numbers
        assert text(fun, x, platforms=["cuda"]).count("stablehlo.scatter") == 4


def test_indices_of_few_bits():
    wide, index = jnp.ones(300), jnp.zeros((2, 1), jnp.int8)
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    found = text(lambda x, i: lax.gather(x, i, numbers, (1,), mode="fill"), wide, index)
    assert "dense<127> : tensor<1xi8>" in found  # the last place is 299


def test_greatest_elements_are_sorted_pairs():
    found = text(lambda x: lax.top_k(x, 2), X)
    assert "stablehlo.compare GT, %arg1, %arg2, TOTALORDER" in found
    assert "stablehlo.slice %1#0 [0:4, 0:2]" in found


def test_algorithms_of_products():
    def fun(x, preset):
        return lax.dot(x, x.T, precision=preset)

    found = text(lambda x: fun(x, lax.DotAlgorithmPreset.BF16_BF16_F32_X3), X)
    assert (
        "precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = bf16,"
        " rhs_precision_type = bf16, accumulation_type = f32, lhs_component_count = 1,"
        " rhs_component_count = 1, num_primitive_operations = 3,"
        " allow_imprecise_accumulation = false>" in found
    )
    exact = lax.DotAlgorithm(jnp.float16, jnp.float16, jnp.float32)
    found = text(lambda x: fun(x, exact), X)
    assert "-> tensor<4x3xf16>" in found and "accumulation_type = f32" in found
    with pytest.raises(ValueError, match="requires both inputs to have float8 dtypes"):
        text(lambda x: fun(x, lax.DotAlgorithmPreset.ANY_F8_ANY_F8_F32), X)


def test_convolution():
    found = text(
        lambda x, k: lax.conv_general_dilated(
            x, k, (1, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        jnp.ones((1, 5, 5, 3)),
        jnp.ones((2, 2, 3, 4)),
    )
    assert (
        "stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->"
        "[b, 0, 1, f], window = {stride = [1, 2], pad = [[0, 1], [0, 1]],"
        " lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]}"
        " {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config"
        " = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]}" in found
    )


def test_transforms_of_many_dims():
    found = text(lambda x: lax.fft(x, "FFT", (2, 2, 2, 2)), jnp.ones((2,) * 4) + 0j)
    assert found.count("stablehlo.fft") == 2


def test_references_that_a_program_gets():
    def fun(ref, x):
        ref[0] = 3.0
        return ref[...].sum() + x

    found = curta.jit(fun).lower(curta.new_ref(V), 2.0).as_text()
    head = next(line for line in found.splitlines() if "@main" in line)
    assert "@main(%arg0: tensor<5xf32> {tf.aliasing_output = 1 : i32}," in head
    assert head.count("jax.result_info") == 2
    read = curta.jit(lambda ref: ref[0]).lower(curta.new_ref(V)).as_text()
    assert "aliasing" not in read


def test_checks():
    def fun(x):
        checkify.check(x > 0, "x is {x}", x=x)
        return x

    with pytest.raises(ValueError, match="which was not functionalized"):
        text(fun, 1.0)
    assert "compare GT" in text(checkify.checkify(fun), 1.0)

    def debugged(x):
        checkify.debug_check(x > 0, "x")
        return x

    assert "custom_call" not in text(debugged, 1.0)
    config.update("jax_experimental_unsafe_xla_runtime_errors", True)
    try:
        assert "custom_call @xla_ffi_python_cpu_callback" in text(fun, 1.0)
    finally:
        config.update("jax_experimental_unsafe_xla_runtime_errors", False)
