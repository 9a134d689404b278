"""Calls of programs on the devices of a plugin: arrays in, arrays out.

The program goes out as StableHLO with the shardings of its arguments and results, and
the plugin compiles it once for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from curta.compiler.stablehlo.asm import module_text
from curta.compiler.stablehlo.entry import Entry, lower_program
from curta.compiler.stablehlo.shardings import uses_shardy
from curta.core.avals import ShapedArray, placed_aval
from curta.core.jaxpr import ClosedJaxpr
from curta.core.mesh import Mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.sharding import NamedSharding, Sharding, on_device
from curta.runtime.array import ArrayImpl, held
from curta.runtime.device_data import DeviceData, moved, put
from curta.runtime.pjrt.backend import host_call, lowered_for, refuse_tokens
from curta.runtime.pjrt.host_calls import HostCalls
from curta.runtime.pjrt.kept import compile_or_load
from curta.runtime.pjrt.options import compile_options
from curta.runtime.queue import Pending
from curta.runtime.transfer import to_array

Devices = tuple[Any, ...]
Shardings = Sequence[Sharding | None]


class DeviceProgram(NamedTuple):
    """A program as it goes out to a plugin, for certain devices.

    `in_shardings` and `out_shardings` are those of all arguments and results.
    """

    text: str
    callbacks: Sequence[Any]
    devices: Devices
    in_shardings: list[Sharding]
    out_shardings: list[Sharding]

    def options(self, overrides: Mapping[str, Any] | None = None) -> bytes:
        """Options of compilation, with flags of XLA by name."""
        ids = [d.id for d in self.devices]
        return compile_options(
            partitions=len(ids), devices=ids, shardy=uses_shardy(), overrides=overrides
        )


def lower_for_devices(
    closed: ClosedJaxpr,
    name: str,
    devices: Devices,
    donated: Sequence[bool],
    in_shardings: Shardings,
    out_shardings: Shardings,
) -> DeviceProgram:
    """The StableHLO of a program with the shardings of its arguments and results."""
    ins, outs = (_everywhere(s, devices) for s in (in_shardings, out_shardings))
    several = len(devices) > 1
    entry = Entry(
        name,
        donated=donated,
        in_shardings=ins if several else (),
        out_shardings=outs if several else (),
        keep_unused=True,
        platforms=(lowered_for(devices[0].hardware.client),),
    )
    program = lower_program(closed, entry)
    text = module_text(program.module)
    return DeviceProgram(text, program.callbacks, devices, ins, outs)


class DeviceCall:
    """A program compiled for devices, with what it takes to call it on arrays.

    Arguments are brought to where the program wants them.
    """

    def __init__(
        self,
        closed: ClosedJaxpr,
        name: str,
        devices: Devices,
        donated: Sequence[bool],
        in_shardings: Shardings,
        out_shardings: Shardings,
    ) -> None:
        refuse_tokens(closed)
        self._client = devices[0].hardware.client
        self._client.check_open()
        self.out_avals = closed.out_avals
        self.donated = donated
        lowered = lower_for_devices(
            closed, name, devices, donated, in_shardings, out_shardings
        )
        self.in_shardings = lowered.in_shardings
        self.out_shardings = lowered.out_shardings
        self._host_calls = [host_call(c) for c in lowered.callbacks]
        options = lowered.options()
        self.program = compile_or_load(self._client, lowered.text, options)
        self._count = len(devices)

    def __call__(self, args: Sequence[Any], commit: bool) -> list[Any]:
        """The results; placed on the devices if the arguments were, or are to be."""
        given = [
            on_devices(x, s, stay=not commit)
            for x, s in zip(args, self.in_shardings, strict=True)
        ]
        if self._count > 1 or self._host_calls:
            columns = self._sharded(given)
        else:
            columns = [(b,) for b in self.program(*[d.buffers[0] for d in given])]
        for x, is_donated in zip(args, self.donated):
            if is_donated and type(x) is ArrayImpl:
                x.delete()
        results = zip(columns, self.out_avals, self.out_shardings, strict=True)
        return [device_array(b, a, s, commit) for b, a, s in results]

    def _sharded(self, given: Sequence[DeviceData]) -> list[tuple[Any, ...]]:
        """A call on several devices, or of a program that calls Python."""
        rows = [*zip(*[d.buffers for d in given], strict=True)] or [()] * self._count
        if not self._host_calls:
            return [*zip(*self.program.sharded(rows), strict=True)]
        calls = HostCalls(self._client.library, self._host_calls)
        return [*zip(*self.program.sharded(rows, host_calls=calls), strict=True)]


def _everywhere(shardings: Shardings, devices: Devices) -> list[Sharding]:
    """The shardings, with one over all devices where nothing is said."""
    if len(devices) == 1:
        return [s or on_device(devices[0]) for s in shardings]
    given = (s for s in shardings if isinstance(s, NamedSharding))
    named = next((s for s in given if isinstance(s.mesh, Mesh)), None)
    mesh = named.mesh if named else Mesh(list(devices), ("devices",))
    whole = NamedSharding(mesh, PartitionSpec())
    return [s or whole for s in shardings]


def device_array(
    buffers: Sequence[Any], aval: ShapedArray, sharding: Sharding, commit: bool
) -> ArrayImpl:
    """An array of what a program gave."""
    if commit:
        aval = placed_aval(aval, sharding)
    return held(DeviceData(buffers, aval, sharding), aval, sharding if commit else None)


def on_devices(x: Any, sharding: Sharding, stay: bool = False) -> DeviceData:
    """The elements of an argument where the program wants them.

    An array that belongs there stays, so that it is brought only once; with `stay` one
    of no particular place, too.
    """
    array = x if type(x) is ArrayImpl else to_array(x)
    place = array._storage_or_place()
    if type(place) is DeviceData:
        return moved(place, sharding)
    if type(place) is Pending:
        place = array._storage()
    data = put(place, array.aval, sharding)
    if array is x and (x._sharding == sharding or (stay and x._sharding is None)):
        x._pending = data
        x._data = None
    return data
