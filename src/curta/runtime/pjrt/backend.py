"""Whole programs run by a plugin: CURTA_BACKEND=pjrt:NAME.

Arrays stay on the host: operands are copied to the plugin's first device at each call
and results copied back. It is a third way to run every program, to compare the others
with; what arrays that live on devices need is in docs/design/stablehlo.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta.compiler.stablehlo.asm import module_text
from curta.compiler.stablehlo.entry import Entry, lower_program
from curta.compiler.stablehlo.lowering import Program, ordered_effects
from curta.core.jaxpr import ClosedJaxpr
from curta.runtime.device_data import as_words, from_words
from curta.runtime.pjrt import plugins
from curta.runtime.pjrt.client import Client
from curta.runtime.pjrt.executable import LoadedExecutable
from curta.runtime.pjrt.host_calls import Channel, HostCall, HostCalls
from curta.runtime.pjrt.kept import compile_or_load
from curta.runtime.pjrt.options import compile_options


def lowered_for(client: Client) -> str:
    """The platform that modules for a client's devices are lowered for."""
    name = client.platform.lower()
    return "cuda" if name == "gpu" else name


class PluginExecutable:
    """A jaxpr compiled by a plugin; a function of arrays of the host."""

    def __init__(self, closed: ClosedJaxpr, client: Client) -> None:
        refuse_tokens(closed)
        self.client = client
        self.in_avals, self.out_avals = closed.in_avals, closed.out_avals
        entry = Entry("f", keep_unused=True, platforms=(lowered_for(client),))
        program = lower_program(closed, entry)
        _refuse_devices(program)
        self.host_calls = [host_call(callback) for callback in program.callbacks]
        device = client.local_devices[0]
        options = compile_options(devices=[device.id])
        self.loaded: LoadedExecutable = compile_or_load(
            client, module_text(program.module), options
        )

    def __call__(self, *args: np.ndarray[Any, Any]) -> Sequence[np.ndarray[Any, Any]]:
        buffers = [
            self.client.put(as_words(x, aval))
            for x, aval in zip(args, self.in_avals, strict=True)
        ]
        if self.host_calls:
            calls = HostCalls(self.client.library, self.host_calls)
            (outs,) = self.loaded.sharded([buffers], host_calls=calls)
            self.client.wait_for(calls)
        else:
            outs = self.loaded(*buffers)
        for out in outs:
            out.start_transfer()
        return [
            from_words(out.numpy(), aval)
            for out, aval in zip(outs, self.out_avals, strict=True)
        ]


def plugin_executable(closed: ClosedJaxpr, name: str) -> PluginExecutable:
    """`closed`, compiled by the plugin of a name.

    Raises:
      NotImplementedError: an op has no StableHLO, or the program is for several
        devices.
      RuntimeError: there is no such plugin, or no device for it.
    """
    return PluginExecutable(closed, plugins.client(name))


def refuse_tokens(closed: ClosedJaxpr) -> None:
    """Raise NotImplementedError for ordered effects, which take tokens."""
    if effects := ordered_effects(closed.effects):
        raise NotImplementedError(
            f"a program with ordered effects {effects} cannot be run by a plugin yet:"
            " leave out ordered=True, or put its arguments on the CPU, by"
            " device_put(..., devices('cpu')[0])."
        )


def _refuse_devices(program: Program) -> None:
    count = str(program.module.attributes["mhlo.num_partitions"])
    if not count.startswith("1 "):
        raise NotImplementedError(
            f"a program for several devices (mhlo.num_partitions = {count}) cannot be"
            " run by CURTA_BACKEND=pjrt, which uses one"
        )


def host_call(callback: Any) -> HostCall:
    """A function of Python that a program calls, as messages bring its operands."""
    if len(callback.sends) < len(callback.in_avals):
        raise NotImplementedError(
            "this plugin's programs cannot call Python (callbacks, debug.print): put"
            " the arguments on the CPU, by device_put(..., devices('cpu')[0])."
        )

    def channels(numbers: Sequence[int], avals: Sequence[Any]) -> tuple[Channel, ...]:
        known = [(a.shape, np.dtype(a.dtype)) for a in avals]
        # A call without operands sends a number, one without results receives one.
        filled = known or [((1,) if numbers is callback.sends else (), _FLOAT)]
        return tuple(Channel(n, *kind) for n, kind in zip(numbers, filled))

    return HostCall(
        _called(callback),
        channels(callback.sends, callback.in_avals),
        channels(callback.receives, callback.out_avals),
    )


_FLOAT = np.dtype(np.float32)


def _called(callback: Any) -> Callable[..., Sequence[np.ndarray[Any, Any]]]:
    def call(*operands: np.ndarray[Any, Any]) -> Sequence[np.ndarray[Any, Any]]:
        outs = callback.run(*(operands if callback.in_avals else ()))
        filled = [np.zeros((), _FLOAT)] * len(callback.receives)
        return list(outs) if callback.out_avals else filled

    return call
