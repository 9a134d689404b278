"""Running the text of a module by jaxlib's client for CPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence

import jax
import numpy as np
from jax.interpreters import mlir
from jaxlib import xla_client
from jaxlib.mlir import ir

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)


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


def explained(error: Exception, text: str) -> str:
    """What an error says, with the lines of the text that it speaks of."""
    lines = text.splitlines()
    places = [int(n) for n in re.findall(r'"-":(\d+):', str(error))]
    near = range(min(places) - 3, max(places) + 2) if places else range(len(lines))
    shown = [f"{n + 1:5} {lines[n]}" for n in near if 0 <= n < len(lines)]
    return "\n".join([str(error), *shown[:200]])


def run(text: str, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The results of `@main`; raises `InvalidModule`, or what XLA does."""
    parse(text)
    (device, *_) = jax.devices("cpu")
    options = xla_client.CompileOptions()
    build = options.executable_build_options
    build.num_replicas = build.num_partitions = 1
    ids = np.array([[device.id]], np.int32)
    build.device_assignment = xla_client.DeviceAssignment.create(ids)
    try:
        loaded = device.client.compile_and_load(text, [device], options)
    except Exception as error:
        raise type(error)(explained(error, text)) from None
    given = [jax.device_put(x, device) for x in args]
    results = loaded.execute_sharded(given).disassemble_into_single_device_arrays()
    return [np.asarray(x[0]) for x in results]
