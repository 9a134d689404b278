"""Programs run by a plugin, as StableHLO.

On devices, arrays lie where programs want them (`DeviceData`). CURTA_BACKEND=pjrt:NAME
is another thing: arrays stay on the host, operands are copied to the plugin's first
device at each call and results copied back. It is a third way to run every program, to
compare the others with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from curta.compiler.stablehlo.asm import module_text
from curta.compiler.stablehlo.callbacks import Callback
from curta.compiler.stablehlo.entry import MainAttributes, lower_program
from curta.compiler.stablehlo.lowering import ModuleState, ordered_effects
from curta.compiler.stablehlo.shardings import uses_shardy
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.mesh import Mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.sharding import NamedSharding, Sharding, on_device
from curta.runtime.backends import (
    Backend,
    CompileOptions,
    NumpyExecutable,
    has_no_machine_type,
)
from curta.runtime.device_data import DeviceData, as_words, from_words, put
from curta.runtime.executables import Executable
from curta.runtime.pjrt.call_frames import (
    PythonCalls,
    call_numbers,
    can_call_python,
)
from curta.runtime.pjrt.called import CalledByPrograms
from curta.runtime.pjrt.client import PluginClient
from curta.runtime.pjrt.executable import LoadedExecutable
from curta.runtime.pjrt.given_handlers import register_given
from curta.runtime.pjrt.handlers import registered_targets
from curta.runtime.pjrt.host_calls import Channel, DeviceHostCall, HostCalls
from curta.runtime.pjrt.kept import compile_or_load
from curta.runtime.pjrt.options import compile_options
from curta.runtime.pjrt.tokens import fresh_tokens, give_tokens, take_tokens


def lowered_for(client: PluginClient) -> str:
    """The platform that modules for a client's devices are lowered for."""
    name = client.platform.lower()
    return "cuda" if name == "gpu" else name


class PjrtBackend(Backend):
    """A plugin: programs on its devices, or on arrays of the host.

    Raises NotImplementedError where an op has no StableHLO.
    """

    def __init__(self, client: PluginClient) -> None:
        self._client = client

    def compile(self, closed: ClosedJaxpr, options: CompileOptions) -> Executable:
        """A `DeviceExecutable`; a `PluginExecutable` where no devices are given."""
        if options.devices:
            return DeviceExecutable(closed, options)
        if has_no_machine_type(closed):
            return NumpyExecutable(closed)
        return PluginExecutable(closed, self._client)

    def put(self, data: np.ndarray[Any, Any], aval: ShapedArray, sharding: Any) -> Any:
        return put(data, aval, sharding)


class DeviceProgram(NamedTuple):
    """A program as it goes out to a plugin, for certain devices.

    `in_shardings` and `out_shardings` are those of all arguments and results.
    """

    text: str
    callbacks: Sequence[Any]
    devices: tuple[Any, ...]
    in_shardings: list[Sharding]
    out_shardings: list[Sharding]

    def options(self, overrides: Mapping[str, Any] | None = None) -> bytes:
        """Options of compilation, with flags of XLA by name."""
        ids = [d.id for d in self.devices]
        return compile_options(
            partitions=len(ids), devices=ids, shardy=uses_shardy(), overrides=overrides
        )


def lower_for_devices(closed: ClosedJaxpr, options: CompileOptions) -> DeviceProgram:
    """The StableHLO of a program with the shardings of its arguments and results."""
    devices = options.devices
    ins = _everywhere(options.in_shardings, devices)
    outs = _everywhere(options.out_shardings, devices)
    platform = lowered_for(devices[0].hardware.client)
    # On one device in its own memory there is nothing to say; CPUs have only one.
    kinds = {s.memory_kind for s in (*ins, *outs)} - {None, "device"}
    said = len(devices) > 1 or bool(kinds and platform != "cpu")
    entry = MainAttributes(
        options.name,
        donated=[i in options.donated for i in range(len(ins))],
        in_shardings=ins if said else (),
        out_shardings=outs if said else (),
        keep_unused=True,
        platforms=(platform,),
        targets=registered_targets(platform),
        call_numbers=call_numbers,
    )
    program = lower_program(closed, entry)
    text = module_text(program.module)
    return DeviceProgram(text, program.callbacks, devices, ins, outs)


class DeviceExecutable(Executable):
    """A jaxpr compiled for devices; a function of elements that lie there.

    `in_shardings` and `out_shardings` say where these are, for each of them.
    """

    def __init__(self, closed: ClosedJaxpr, options: CompileOptions) -> None:
        self._client = options.devices[0].hardware.client
        self._client.check_open()
        register_given(self._client.library, lowered_for(self._client))
        lowered = lower_for_devices(closed, options)
        self.out_avals: tuple[ShapedArray, ...] = closed.out_avals
        # Native code tells arrays by which object says where they are.
        same: dict[Sharding, Sharding] = {}
        self.in_shardings: list[Sharding] = [
            same.setdefault(s, s) for s in lowered.in_shardings
        ]
        self.out_shardings: list[Sharding] = [
            same.setdefault(s, s) for s in lowered.out_shardings
        ]
        self._host_calls = host_calls(self._client, lowered.callbacks)
        said = lowered.options()
        self.program: LoadedExecutable = compile_or_load(
            self._client, lowered.text, said
        )
        self._effects = ordered_effects(closed.effects)
        #: How many of its devices are of this process.
        self._count = len(self.program.devices)
        self._is_here = self._count == len(options.devices)

    @property
    def is_plain(self) -> bool:
        """Whether its devices are of this process, and calls are alike in any order."""
        return self._is_here and self._host_calls is None and not self._effects

    def __call__(self, *args: DeviceData) -> list[DeviceData]:
        if self._count > 1 or not self.is_plain:
            columns = self._sharded(args)
        else:
            columns = [(b,) for b in self.program(*[x.buffers[0] for x in args])]
        outs = zip(columns, self.out_avals, self.out_shardings, strict=True)
        return [DeviceData(*out) for out in outs]

    def _sharded(self, args: Sequence[DeviceData]) -> list[tuple[Any, ...]]:
        """A call on several devices, or of a program that calls Python."""
        devices = self.program.devices
        given = [take_tokens(effect, devices) for effect in self._effects]
        given += [x.buffers for x in args]
        rows = [*zip(*given, strict=True)] or [()] * self._count
        calls = self._host_calls and self._host_calls()
        outs = [*zip(*self.program.sharded(rows, host_calls=calls), strict=True)]
        for effect, tokens in zip(self._effects, outs):
            give_tokens(effect, devices, tokens)
        return outs[len(self._effects) :]


def _everywhere(
    shardings: Sequence[Sharding | None], devices: Sequence[Any]
) -> list[Sharding]:
    """The shardings, with one over all devices where nothing is said."""
    if len(devices) == 1:
        return [s or on_device(devices[0]) for s in shardings]
    given = (s for s in shardings if isinstance(s, NamedSharding))
    named = next((s for s in given if isinstance(s.mesh, Mesh)), None)
    mesh = named.mesh if named else Mesh(list(devices), ("devices",))
    whole = NamedSharding(mesh, PartitionSpec())
    return [s or whole for s in shardings]


class PluginExecutable(Executable):
    """A jaxpr compiled by a plugin; a function of arrays of the host."""

    in_avals: tuple[ShapedArray, ...]

    def __init__(self, closed: ClosedJaxpr, client: PluginClient) -> None:
        self.client = client
        self.in_avals, self.out_avals = closed.in_avals, closed.out_avals
        platform = lowered_for(client)
        entry = MainAttributes(
            "f",
            keep_unused=True,
            platforms=(platform,),
            targets=registered_targets(platform),
            call_numbers=call_numbers,
        )
        program = lower_program(closed, entry)
        _refuse_devices(program)
        self._host_calls = host_calls(client, program.callbacks)
        self._effects = ordered_effects(closed.effects)
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
        # A call is awaited, so that the next one comes after it by itself.
        tokens = [t for _ in self._effects for t in fresh_tokens(self.loaded.devices)]
        buffers = [*tokens, *buffers]
        if self._host_calls is not None:
            calls = self._host_calls()
            (outs,) = self.loaded.sharded([buffers], host_calls=calls)
            self.client.wait_for(calls)
        else:
            outs = self.loaded(*buffers)
        outs = outs[len(tokens) :]
        for out in outs:
            out.start_transfer()
        return [
            from_words(out.numpy(), aval)
            for out, aval in zip(outs, self.out_avals, strict=True)
        ]


def _refuse_devices(program: ModuleState) -> None:
    count = str(program.module.attributes["mhlo.num_partitions"])
    if not count.startswith("1 "):
        raise NotImplementedError(
            f"a program for several devices (mhlo.num_partitions = {count}) cannot be"
            " run by CURTA_BACKEND=pjrt, which uses one"
        )


def host_calls(
    client: PluginClient, called: Sequence[Callback]
) -> Callable[[], CalledByPrograms] | None:
    """What makes the functions of Python that a run calls; None if there are none.

    Raises NotImplementedError if the plugin can call none.
    """
    if not called:
        return None
    if all(c.number is None for c in called):
        calls = [host_call(c) for c in called]
        return lambda: HostCalls(client.library, calls)
    if not can_call_python(client.library):
        raise NotImplementedError(
            "this plugin's programs cannot call Python (callbacks, debug.print): put"
            " the arguments on the CPU, by device_put(..., devices('cpu')[0])."
        )
    functions = PythonCalls(called)
    return lambda: functions


def host_call(callback: Callback) -> DeviceHostCall:
    """A function of Python that a program calls, as messages bring its operands."""

    def channels(numbers: Sequence[int], avals: Sequence[Any]) -> tuple[Channel, ...]:
        known = [(a.shape, np.dtype(a.dtype)) for a in avals]
        # A call without operands sends a number, one without results receives one.
        filled = known or [((1,) if numbers is callback.sends else (), _FLOAT)]
        return tuple(Channel(n, *kind) for n, kind in zip(numbers, filled))

    return DeviceHostCall(
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
