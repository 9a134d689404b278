"""Tier B: `jit(f).lower(...).compile()` for absent devices."""

import functools
import re
from pathlib import Path

import numpy as np
import pytest
from tests.accelerators import targets

import curta
import curta.numpy as jnp
from curta.errors import JaxRuntimeError
from curta.experimental import topologies
from curta.sharding import NamedSharding, PartitionSpec as P, SingleDeviceSharding

KINDS = {"cuda": "NVIDIA H100 80GB HBM3", "tpu": "TPU v5 lite"}


@functools.cache
def described(name):
    targets.plugin(name)
    if name == "tpu":
        return topologies.get_topology_desc("v5e:2x2", "tpu")
    config = Path(__file__).with_name("h100.txtpb").read_text()
    return topologies.get_topology_desc(
        platform="cuda", target_config=config, topology="1x1x4"
    )


@pytest.fixture(params=targets.NAMES)
def topology(request):
    return described(request.param)


@pytest.fixture
def rows(topology):
    mesh = topologies.make_mesh(topology, (4,), ("x",))
    place = NamedSharding(mesh, P("x"))
    return curta.ShapeDtypeStruct((8, 16), np.float32, sharding=place)


def test_devices(topology):
    first = topology.devices[0]
    assert [d.id for d in topology.devices] == [0, 1, 2, 3]
    assert first.device_kind in KINDS.values()
    assert first.client.devices() == topology.devices
    assert not first.client.local_devices() and first.memory_stats() is None
    kinds = {m.kind for m in first.addressable_memories()}
    assert {"device", "pinned_host"} <= kinds


def test_those_of_another_topology_are_others():
    targets.plugin("tpu")
    one, other = (topologies.get_topology_desc("v5e:2x2").devices for _ in range(2))
    assert one[0] == one[0] != other[0] and len({*one, *other}) == 8


def test_a_program_over_the_devices(rows):
    lowered = curta.jit(lambda a: jnp.tanh(a @ a.T).sum(0)).lower(rows)
    assert "num_partitions = 4" in lowered.as_text()
    compiled = lowered.compile()
    assert compiled.input_shardings[0][0] == rows.sharding
    assert compiled.memory_analysis().argument_size_in_bytes >= 4 * 8 * 16 / 4
    assert compiled.cost_analysis()["flops"] > 0
    assert compiled.out_info.shape == (8,)
    assert compiled.runtime_executable().partitions == 4


def test_a_program_on_one_device(topology):
    place = SingleDeviceSharding(topology.devices[1])
    x = curta.ShapeDtypeStruct((64,), np.float32, sharding=place)
    compiled = curta.jit(lambda a: jnp.sort(a) + 1).lower(x).compile()
    assert compiled.runtime_executable().results == [((64,), np.dtype("float32"))]
    assert compiled.output_shardings.device_set == {topology.devices[1]}


def test_shardings_of_results_and_collectives(rows):
    mesh = rows.sharding.mesh
    total = curta.shard_map(
        lambda a: curta.lax.psum(a, "x"), mesh=mesh, in_specs=P("x"), out_specs=P()
    )
    compiled = curta.jit(total).lower(curta.ShapeDtypeStruct((8, 2), "f4")).compile()
    text = compiled.as_text()
    assert re.search(r" all-reduce(-start)?\(", text) and "ENTRY %main" in text
    whole = NamedSharding(mesh, P())
    compiled = curta.jit(lambda a: a * 2, out_shardings=whole).lower(rows).compile()
    assert compiled.output_shardings == whole


def test_the_platform_decides_what_is_lowered(rows):
    def f(a):
        return curta.lax.platform_dependent(
            a, cpu=lambda a: a + 1, tpu=lambda a: a + 2, cuda=lambda a: a + 3
        )

    text = curta.jit(f).lower(rows).as_text()
    number = {"tpu": 2, "gpu": 3}[rows.sharding.mesh.devices[0].platform]
    assert f"dense<{number}.0" in text and "case" not in text


def test_options_of_the_compiler(rows):
    lowered = curta.jit(lambda a: a + 1).lower(rows)
    with pytest.raises(JaxRuntimeError, match="xla_no_such_flag"):
        lowered.compile({"xla_no_such_flag": "1"})


def test_memory_of_the_host(topology):
    device = topology.devices[0]
    own, host = (
        SingleDeviceSharding(device, memory_kind=k) for k in ("device", "pinned_host")
    )
    space = curta.memory.Space

    def compiled(fun, given, out):
        x = curta.ShapeDtypeStruct((256, 256), np.float32, sharding=given)
        lowered = curta.jit(fun, out_shardings=out).lower(x)
        return lowered.compile().runtime_executable()

    out = compiled(lambda a: a * 2, own, host)
    assert out.memory_kinds == ["pinned_host"]
    assert out.memory_stats()["host_output_size_in_bytes"] == 4 * 256**2
    back = compiled(lambda a: curta.device_put(a, space.Device) + 1, host, own)
    assert back.memory_kinds == ["device"]
    assert back.memory_stats()["host_argument_size_in_bytes"] == 4 * 256**2


def test_donated_arguments(rows):
    lowered = curta.jit(lambda a: a + 1, donate_argnums=0).lower(rows)
    assert lowered.compile().memory_analysis().alias_size_in_bytes > 0


def test_nothing_runs(topology, rows):
    f = curta.jit(lambda a: a + 1)
    for run in (
        lambda: curta.device_put(np.ones(3), topology.devices[0]),
        lambda: f.lower(rows).compile()(np.ones((8, 16), np.float32)),
        lambda: curta.jit(f, in_shardings=rows.sharding)(np.ones((8, 16))),
    ):
        with pytest.raises(JaxRuntimeError, match="devices of a topology"):
            run()


def test_unknown_topologies():
    targets.plugin("tpu")
    with pytest.raises(JaxRuntimeError, match="^[A-Z_]+: "):
        topologies.get_topology_desc("v5e:7x7", "tpu")
