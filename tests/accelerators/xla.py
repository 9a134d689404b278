"""Running the text of a module by jaxlib's client for CPUs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src.sharding_impls import GSPMDSharding
from jax.interpreters import mlir
from jaxlib import xla_client
from jaxlib._jax import mlir as mlir_passes
from jaxlib.mlir import ir

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_num_cpu_devices", 4)

Index = Sequence[Any]
"""Which part of an array each device has."""


class InvalidModule(Exception):
    """MLIR does not take a text: what it says, and the lines of it."""


def parse(text: str) -> ir.Module:
    """The module of a text, verified; raises `InvalidModule`."""
    with mlir.make_ir_context():
        try:
            module = ir.Module.parse(text)
            module.operation.verify()
        except ir.MLIRError as error:
            raise InvalidModule(explained(error, text)) from None
    return module


def refined(text: str) -> str:
    """A module with dynamic shapes as one with those of the arguments of `@main`."""
    made = mlir_passes.refine_polymorphic_shapes(text.encode())
    with mlir.make_ir_context():
        return str(ir.Module.parse(made))


def explained(error: Exception, text: str) -> str:
    """The message of an error, with the lines of the module that it refers to."""
    lines = text.splitlines()
    places = [int(n) for n in re.findall(r'"-":(\d+):', str(error))]
    near = range(min(places) - 3, max(places) + 2) if places else range(len(lines))
    shown = [f"{n + 1:5} {lines[n]}" for n in near if 0 <= n < len(lines)]
    return "\n".join([str(error), *shown[:200]])


def run(
    text: str,
    args: Sequence[np.ndarray],
    callbacks: Sequence[Callable[..., Sequence[Any]]] = (),
    tokens: int = 0,
) -> list[np.ndarray]:
    """The results of `@main`; raises `InvalidModule`, or what XLA does.

    `callbacks` are the functions that it calls, by number; `tokens` is how many tokens
    it takes and gives before everything else.
    """
    module = parse(text)
    (device, *_) = jax.devices("cpu")
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    build.num_replicas = build.num_partitions = 1
    # As programs say it: bfloat16 is rounded to wherever it is said.
    options.env_option_overrides = [("xla_allow_excess_precision", False)]
    ids = np.array([[device.id]], np.int32)
    build.device_assignment = xla_client.DeviceAssignment.create(ids)
    calls = [_with_arrays(f) for f in callbacks]
    among = xla_client._xla.DeviceList((device,))
    try:
        loaded = (
            device.client.compile_and_load(module, among, options, calls)
            if calls
            else device.client.compile_and_load(text, [device], options)
        )
    except Exception as error:
        raise type(error)(explained(error, text)) from None
    before = [np.zeros(0, np.bool_)] * tokens
    given = [jax.device_put(x, device) for x in (*before, *args)]
    results = loaded.execute_sharded(given).disassemble_into_single_device_arrays()
    return [np.asarray(x[0]) for x in results[tokens:]]


def _with_arrays(function: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
    def call(*args: np.ndarray | None) -> tuple[np.ndarray | None, ...]:
        tokens = [x for x in args if x is None]
        outs = function(*args[len(tokens) :])
        return *tokens, *map(np.asarray, outs)

    return call


def run_partitioned(
    text: str,
    args: Sequence[np.ndarray],
    cut: Sequence[Index],
    shapes: Sequence[tuple[int, ...]],
) -> list[list[tuple[Any, np.ndarray]]]:
    """The results of `@main`, of these shapes, over several devices.

    `cut` says for each argument which part of it each device gets. For each result and
    device: which part it has, and the part.
    """
    parse(text)
    count = len(cut[0])
    devices = jax.devices("cpu")[:count]
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    build.num_replicas, build.num_partitions = 1, count
    build.use_spmd_partitioning = build.use_shardy_partitioner = True
    ids = np.array([[d.id for d in devices]], np.int32)
    build.device_assignment = xla_client.DeviceAssignment.create(ids)
    try:
        loaded = devices[0].client.compile_and_load(text, devices, options)
    except Exception as error:
        raise type(error)(explained(error, text)) from None
    given = [_in_parts(x, parts, devices) for x, parts in zip(args, cut, strict=True)]
    results = loaded.execute_sharded(given).disassemble_into_single_device_arrays()
    shardings = loaded.get_output_shardings() or [None] * len(results)
    found = []
    for parts, sharding, shape in zip(results, shardings, shapes, strict=True):
        placed = GSPMDSharding(devices, sharding)
        places = placed.devices_indices_map(shape).values()
        found.append([(i, np.asarray(x)) for i, x in zip(places, parts, strict=True)])
    return found


def _in_parts(x: np.ndarray, parts: Index, devices: Sequence[Any]) -> jax.Array:
    """An array of one more dim, along which each device has its part."""
    pieces = [jax.device_put(x[i], d) for i, d in zip(parts, devices, strict=True)]
    mesh = jax.sharding.Mesh(np.array(devices), ("device",))
    shape = (len(devices) * pieces[0].shape[0], *pieces[0].shape[1:])
    spec = jax.sharding.PartitionSpec("device")
    sharding = jax.sharding.NamedSharding(mesh, spec)
    return jax.make_array_from_single_device_arrays(shape, sharding, pieces)
