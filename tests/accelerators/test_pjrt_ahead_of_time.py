"""Tier B: programs compiled for absent GPUs and TPUs, and ABI probes."""

import ctypes
import re

import numpy as np
import pytest
from tests.accelerators import targets, texts

import curta
from curta.compiler.stablehlo.asm import module_text
from curta.compiler.stablehlo.entry import MainAttributes, lower_program
from curta.errors import JaxRuntimeError
from curta.experimental import io_callback
from curta.runtime.pjrt.abi import FUNCTIONS, OLDEST_MINOR, SPARE, structs
from curta.runtime.pjrt.buffers import TOKEN
from curta.runtime.pjrt.options import compile_options
from curta.runtime.pjrt.topology import create

ONE = compile_options(devices=[0])
# Calls that look at the size of their arguments before anything else: with a size of
# zero they say which they expect, and touch nothing. A view's looks at its element type
# first, and ends the process if that is none.
UNPROBED = (
    *("Error_", "Plugin_", "TopologyDescription_Destroy"),
    "Client_CreateViewOfDeviceBuffer",
)
PROBED = [
    name.removesuffix("_Args")
    for name in structs()
    if name.removesuffix("_Args") in FUNCTIONS and not name.startswith(UNPROBED)
]


@pytest.fixture(scope="module", params=targets.NAMES)
def name(request):
    targets.plugin(request.param)
    return request.param


@pytest.fixture
def topology(name):
    return targets.topology(name)


def test_version_and_attributes(name):
    library = targets.library(name)
    major, minor = library.version
    assert major == 0 and minor >= OLDEST_MINOR
    assert library.attributes()["stablehlo_current_version"] >= [1, 0, 0]
    print(f"{name}: PJRT 0.{minor}, {len(library.functions)} functions")


def expected_size(library, function):
    """The size of its arguments that a plugin says when it is asked with none."""
    run = library.functions.get(function)
    if run is None:
        return None
    args = structs()[f"{function}_Args"]()
    error = run(ctypes.addressof(args))
    if not error:
        return None
    found = re.search(r"size: expected (\d+)", library.take_error(error)[1])
    return int(found[1]) if found else None


def test_structs_are_long_enough_for_the_plugin(name):
    library = targets.library(name)
    sizes = {f: expected_size(library, f) for f in PROBED}
    known = {f: structs()[f"{f}_Args"].c_size for f in PROBED}
    asked = [f for f in PROBED if sizes[f] is not None]
    assert len(asked) > 80
    # A newer plugin's may be longer, and are then given room; a plugin takes those
    # that are longer than its own.
    longer = {f: sizes[f] - known[f] for f in asked if sizes[f] > known[f]}
    print(f"{name}: {len(asked)} structs asked; longer than known here: {longer}")
    assert all(extra <= SPARE for extra in longer.values())
    used = {"Client_CreateErrorBuffer"}  # by the tests of tier C alone
    assert set(longer) <= used


def test_a_struct_that_is_too_short_is_made_longer(name, topology):
    library = targets.library(name)
    library.sizes["PJRT_Program"] = library.sizes["PJRT_Compile_Args"] = 8
    topology.compile(texts.ADD, ONE).close()
    grown = library.sizes.pop("PJRT_Program"), library.sizes.pop("PJRT_Compile_Args")
    assert grown == (structs()["Program"].c_size, structs()["Compile_Args"].c_size)


def test_there_is_no_device_and_what_to_do_is_said(name):
    with pytest.raises(RuntimeError) as caught:
        targets.plugin(name).make_client()
    said = str(caught.value)
    assert said.startswith(f"Unable to initialize backend '{name}': ")
    assert "What to do: no " in said and "JAX_PLATFORMS=cpu" in said


def test_devices(topology, name):
    assert [d.id for d in topology.devices] == [0, 1, 2, 3]
    assert {d.process_index for d in topology.devices} == {0}
    assert topology.platform.lower() == name and topology.serialize()
    kind = {"cuda": "NVIDIA H100 80GB HBM3", "tpu": "TPU v5 lite"}[name]
    assert {d.kind for d in topology.devices} == {kind}
    assert isinstance(topology.devices[0].attributes, dict)
    assert topology.platform_version


@pytest.mark.parametrize("program", texts.PROGRAMS)
def test_programs(topology, program):
    wanted = texts.PROGRAMS[program]
    with topology.compile(wanted.text, ONE) as compiled:
        results = wanted.expected(*wanted.operands)
        expected = [(np.shape(x), np.asarray(x).dtype) for x in results]
        assert compiled.results == expected
        assert compiled.code_size() is not None


def test_tokens(topology, name):
    def f(x):
        curta.debug.print("{}", x, ordered=True)
        return io_callback(np.sin, x, x, ordered=True)

    closed = curta.make_jaxpr(f)(np.float32(1))
    text = module_text(
        lower_program(closed, MainAttributes("f", platforms=(name,))).module
    )
    with topology.compile(text, ONE) as compiled:
        assert compiled.results == [*[((), TOKEN)] * 2, ((), np.dtype("float32"))]


def test_what_programs_say_of_themselves(topology):
    with topology.compile(texts.MATMUL, ONE) as compiled:
        assert compiled.name.startswith("m")
        assert compiled.memory_stats()["argument_size_in_bytes"] >= 4 * 12 * 16
        kind, program = compiled.optimized()
        assert kind in ("hlo_with_config", "hlo", "mlir") and len(program) > 100
        assert len(compiled.serialize()) > 1000


def test_wrong_programs(topology):
    for text in (texts.NOT_STABLEHLO, texts.NOT_TYPED, "nonsense"):
        with pytest.raises(JaxRuntimeError, match="^[A-Z_]+: "):
            topology.compile(text, ONE)


@pytest.mark.parametrize("text", ["SHARDY", "GSPMD", "MANUAL"])
def test_sharded_programs(topology, text):
    options = compile_options(1, 4, range(4), shardy=text != "GSPMD")
    with topology.compile(getattr(texts, text), options) as compiled:
        assert compiled.partitions == 4
        _, program = compiled.optimized()
        assert re.search(
            rb"all-reduce|reduce-scatter|all-to-all|collective-permute", program
        )


def test_replicas(topology):
    options = compile_options(4, 1, range(4))
    with topology.compile(texts.REPLICAS, options) as compiled:
        assert compiled.replicas == 4
        assert compiled.results[1] == ((), np.dtype("uint32"))


FLAGS = {
    "cuda": "xla_gpu_autotune_level",
    "tpu": "xla_tpu_enable_latency_hiding_scheduler",
}


def test_flags(topology, name):
    value = {"cuda": 0, "tpu": False}[name]
    options = compile_options(devices=[0], overrides={FLAGS[name]: value})
    topology.compile(texts.ADD, options).close()
    wrong = compile_options(devices=[0], overrides={"xla_no_such_flag": "1"})
    with pytest.raises(JaxRuntimeError, match="xla_no_such_flag"):
        topology.compile(texts.ADD, wrong)


def test_unknown_topologies(name):
    with pytest.raises(JaxRuntimeError, match="^[A-Z_]+: "):
        create(targets.library(name), "no:such", {"target_config": "nonsense"})
