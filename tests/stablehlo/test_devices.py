"""Shardings, maps over devices and their collectives, as text."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import jit, lax
from curta.experimental import io_callback
from curta.experimental.layout import Format, Layout, with_layout_constraint
from curta.experimental.xla_metadata import set_xla_metadata
from curta.sharding import AxisType, NamedSharding, PartitionSpec as P

X = np.ones((8, 8), np.float32)


def mesh(kind=AxisType.Auto):
    return curta.make_mesh((2, 2), ("x", "y"), (kind,) * 2)


def lowered(fun, *args, **options):
    return curta.jit(fun, **options).lower(*args).as_text()


def placed(over, *entries):
    return NamedSharding(over, P(*entries))


def test_arguments_and_results():
    grid = mesh()
    text = lowered(
        lambda x: -x,
        curta.device_put(X, placed(grid, ("x", "y"))),
        out_shardings=placed(grid, None, "y"),
    )
    assert "mhlo.num_partitions = 4 : i32" in text
    assert (
        '  sdy.mesh @mesh = <["x"=2, "y"=2]> {stablehlo.mesh = {axes ='
        ' [{name = "x", size = 2 : i64}, {name = "y", size = 2 : i64}]}}\n'
    ) in text
    assert (
        '%arg0: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", "y"}'
        in text
    )
    assert 'sdy.sharding = #sdy.sharding<@mesh, [{}, {"y"}]>}) {' in text


def test_constraints():
    where = placed(mesh(), "x", P.UNCONSTRAINED)
    text = lowered(lambda x: lax.with_sharding_constraint(x, where), X)
    assert (
        '%0 = sdy.sharding_constraint %arg0 <@mesh, [{"x"}, {?}]> : tensor<8x8xf32>'
        in text
    )


def test_types():
    grid = mesh(AxisType.Explicit)
    x = curta.device_put(X, placed(grid, "x"))
    with curta.set_mesh(grid):
        text = lowered(lambda x: curta.sharding.reshard(-x, P(None, "y")), x)
    lines = [line for line in text.splitlines() if "constraint" in line]
    constraints = [line.split("<@")[1] for line in lines]
    assert constraints == [
        'mesh, [{"x"}, {}]> : tensor<8x8xf32>',
        'mesh, [{}, {"y"}]> : tensor<8x8xf32>',
    ]


SPLIT = P("x")


def mapped(body, outs=SPLIT, **options):
    return curta.shard_map(
        body, mesh=mesh(), in_specs=SPLIT, out_specs=outs, check_vma=False, **options
    )


def test_maps():
    text = lowered(mapped(lambda x: lax.psum(x, "x"), P()), X)
    assert (
        '    %0 = sdy.manual_computation(%arg0) in_shardings=[<@mesh, [{"x"}, {}]>]'
        ' out_shardings=[<@mesh, [{}, {}]>] manual_axes={"x", "y"}'
        " (%arg1: tensor<4x8xf32>) {\n"
        '      %1 = "stablehlo.all_reduce"(%arg1) <{channel_handle ='
        " #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups ="
        " dense<[[0, 2], [1, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({\n"
        "      ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):\n"
        "        %2 = stablehlo.add %arg2, %arg3 : tensor<f32>\n"
        "        stablehlo.return %2 : tensor<f32>\n"
        "      }) : (tensor<4x8xf32>) -> tensor<4x8xf32>\n"
        "      sdy.return %1 : tensor<4x8xf32>\n"
        "    } : (tensor<8x8xf32>) -> tensor<4x8xf32>\n"
    ) in text


def test_maps_of_some_axes():
    text = lowered(mapped(lambda x: -lax.axis_index("x"), P(), axis_names={"x"}), X)
    assert 'in_shardings=[<@mesh, [{"x", ?}, {?}]>]' in text
    assert 'out_shardings=[<@mesh, []>] manual_axes={"y"} () {' in text
    assert "stablehlo.partition_id" in text


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (
            lambda x: lax.psum(x, "x", axis_index_groups=[[0], [1]]),
            "dense<[[0], [2], [1], [3]]> : tensor<4x1xi64>",
        ),
        (
            lambda x: lax.ppermute(x, "y", [(0, 1)]),
            "source_target_pairs = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>",
        ),
        (
            lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True),
            "concat_dimension = 0 : i64, replica_groups = dense<[[0, 2], [1, 3]]> :"
            " tensor<2x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64",
        ),
        (
            lambda x: lax.psum_scatter(x, "x", tiled=True),
            "scatter_dimension = 0 : i64",
        ),
        (lambda x: lax.all_gather(x, "x", tiled=True), "all_gather_dim = 0 : i64"),
    ],
    ids=["psum", "ppermute", "all_to_all", "psum_scatter", "all_gather"],
)
def test_collectives(body, found):
    assert found in lowered(mapped(body), X)


def test_the_older_partitioner():
    curta.config.update("jax_use_shardy_partitioner", False)
    try:
        text = lowered(mapped(lambda x: -x), X)
    finally:
        curta.config.update("jax_use_shardy_partitioner", True)
    assert (
        '@SPMDFullToShardShape(%0) {backend_config = "", mhlo.sharding = "{manual}"}'
        in text
    )
    assert "call @shmap_body(%1) : (tensor<4x8xf32>) -> tensor<4x8xf32>" in text
    assert "sdy." not in text


def test_what_is_called_once_or_by_each_device():
    def fun(x):
        return curta.pure_callback(np.sin, x, x)

    text = lowered(fun, jnp.ones(3))
    assert (
        "stablehlo.custom_call @xla_ffi_python_cpu_callback(%arg0) {backend_config ="
        ' "", mhlo.backend_config = {index = 0 : ui64}, operand_layouts = [dense<0> :'
        " tensor<1xindex>], result_layouts = [dense<0> : tensor<1xindex>],"
        " sdy.sharding = #sdy.sharding_per_value<[<@maximal_mesh_0, []>]>}"
    ) in text
    assert "[<@empty_mesh, [{}, {}]>]>}" in lowered(mapped(fun), X)


def test_tokens():
    def show(x):
        curta.debug.print("{}", x, ordered=True)

    text = lowered(lambda x: (show(x), curta.jit(show)(x), -x)[2], X)
    assert "@main(%arg0: !stablehlo.token {jax.token = true}, %arg1:" in text
    assert "-> (!stablehlo.token {jax.token = true}, tensor<8x8xf32> {jax.res" in text
    assert "%1 = call @show(%0, %arg1)" in text and "return %1, %2" in text
    assert "sdy.sharding" not in text
    # What may have results says where they are, the token among them.
    text = lowered(lambda x: io_callback(print, None, x, ordered=True), X)
    assert "#sdy.sharding_per_value<[<@maximal_mesh_0, []>]>} : (!stablehlo" in text


def test_messages_to_the_host():
    traced = curta.jit(lambda x: curta.pure_callback(np.sin, x, x)).trace(X)
    text = traced.lower(lowering_platforms=("tpu",)).as_text()
    assert (
        '"stablehlo.send"(%arg0, %0) <{channel_handle = #stablehlo.channel_handle'
        "<handle = 2, type = 2>, is_host_transfer = true}> {mhlo.frontend_attributes ="
        ' {_xla_host_transfer_handler_name = "pjrt_rendezvous",'
        ' _xla_host_transfer_rendezvous = "2"}'
    ) in text
    assert '%2:2 = "stablehlo.recv"(%1)' in text and "return %2#0" in text


def test_memories():
    there = NamedSharding(mesh(), P("x"), memory_kind="pinned_host")
    text = lowered(lambda x: -x, X, out_shardings=there)
    assert '{jax.result_info = "result", mhlo.memory_kind = "pinned_host", sdy' in text
    assert (
        "%1 = stablehlo.custom_call @annotate_device_placement(%0) {backend_config ="
        ' "", has_side_effect = true, mhlo.frontend_attributes ='
        ' {_xla_buffer_placement = "pinned_host"}}'
    ) in text


def test_shardings_over_meshes_without_devices():
    where = NamedSharding(mesh().abstract_mesh, P("x"))
    x = curta.ShapeDtypeStruct(X.shape, X.dtype, sharding=where)
    text = lowered(lambda x: -x, x)
    assert "mhlo.num_partitions = 4" in text and '[{"x"}, {}]' in text


def test_notes():
    text = lowered(lambda x: set_xla_metadata(-x, key="a", on=True), X)
    assert '%arg0 {mhlo.frontend_attributes = {key = "a", on = "true"}} :' in text


def test_layouts():
    """Which dims vary fastest comes first; row-major order is not said."""
    here = curta.sharding.SingleDeviceSharding(curta.devices()[0])
    columns, auto = Format(Layout((1, 0)), here), Format(Layout.AUTO)
    x = jnp.ones((2, 3))
    text = jit(lambda x: x.T, in_shardings=auto, out_shardings=columns).lower(x)
    line = next(x for x in text.as_text().splitlines() if "@main" in x)
    assert '%arg0: tensor<2x3xf32> {mhlo.layout_mode = "auto"}' in line
    assert '{jax.result_info = "result", mhlo.layout_mode = "{0,1}", sdy' in line
    plain = Format(Layout((0, 1)), here)
    text = jit(jnp.sin, in_shardings=plain, out_shardings=plain).lower(x).as_text()
    assert "layout_mode" not in text
    put = curta.device_put(x, columns)
    assert 'mhlo.layout_mode = "{0,1}"' in jit(jnp.sin).lower(put).as_text()


def test_layout_constraints():
    def f(x):
        return with_layout_constraint(2 * x, Layout((1, 0, 2)))

    text = jit(f).lower(jnp.ones((2, 3, 4))).as_text()
    assert 'mhlo.layout_mode = "auto"' in text
    assert (
        '@LayoutConstraint(%1) {backend_config = "", operand_layouts = [dense<[0, 1,'
        " 2]> : tensor<3xindex>], result_layouts = [dense<[2, 0, 1]> :"
        " tensor<3xindex>]}"
    ) in text


def test_donation_between_layouts():
    """Another storage order is only offered to the compiler."""
    here = curta.sharding.SingleDeviceSharding(curta.devices()[0])
    columns = Format(Layout((1, 0)), here)
    for given, word in (
        ({"in_shardings": columns, "out_shardings": columns}, "tf.aliasing_output = 0"),
        ({"out_shardings": columns}, "jax.buffer_donor = true"),
    ):
        f = jit(lambda x: x * 2, donate_argnums=0, **given)
        assert word in f.lower(jnp.ones((2, 3))).as_text()


def test_arguments_over_a_mesh_without_devices():
    mesh = curta.sharding.AbstractMesh((4,), ("data",))
    split = [NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))]
    f = jit(lambda w, x: jnp.tanh(x @ w).sum(), in_shardings=tuple(split))
    text = f.lower(jnp.ones((3, 3)), jnp.ones((8, 3))).as_text()
    assert "mhlo.num_partitions = 4" in text
    assert 'sdy.sharding<@mesh, [{"data"}, {}]>' in text
