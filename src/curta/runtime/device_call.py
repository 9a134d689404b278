"""Calls of programs on the devices of a plugin: arrays in, arrays out.

The program goes out as StableHLO with the shardings of its arguments and results, and
the plugin compiles it once for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


class DeviceCall:
    """A program compiled for devices, with what it takes to call it on arrays.

    `in_shardings` and `out_shardings` are those of all arguments and results; the
    arguments are brought there.
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
        self.out_avals = closed.out_avals
        self.donated = donated
        self.in_shardings = _everywhere(in_shardings, devices)
        self.out_shardings = _everywhere(out_shardings, devices)
        self._client = devices[0].hardware.client
        several = len(devices) > 1
        entry = Entry(
            name,
            donated=donated,
            in_shardings=self.in_shardings if several else (),
            out_shardings=self.out_shardings if several else (),
            keep_unused=True,
            platforms=(lowered_for(self._client),),
        )
        program = lower_program(closed, entry)
        self._host_calls = [host_call(c) for c in program.callbacks]
        ids = [d.id for d in devices]
        shardy = uses_shardy()
        options = compile_options(partitions=len(ids), devices=ids, shardy=shardy)
        text = module_text(program.module)
        self.program = compile_or_load(self._client, text, options)
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
