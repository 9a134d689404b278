"""Calls of programs on the devices of a plugin: arrays in, arrays out.

The program goes out as StableHLO with the shardings of its arguments and results, and
the plugin compiles it once for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.compiler.stablehlo.asm import module_text
from curta.compiler.stablehlo.entry import Entry, lower_program
from curta.core.avals import ShapedArray, placed_aval
from curta.core.jaxpr import ClosedJaxpr
from curta.core.mesh import Mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.sharding import NamedSharding, Sharding, on_device
from curta.runtime.array import ArrayImpl, held
from curta.runtime.device_data import DeviceData, moved, put
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
        self.out_avals = closed.out_avals
        self.donated = donated
        self.in_shardings = _everywhere(in_shardings, devices)
        self.out_shardings = _everywhere(out_shardings, devices)
        several = len(devices) > 1
        entry = Entry(
            name,
            donated=donated,
            in_shardings=self.in_shardings if several else (),
            out_shardings=self.out_shardings if several else (),
            keep_unused=True,
            platforms=(devices[0].platform_name,),
        )
        program = lower_program(closed, entry)
        if program.callbacks:
            raise NotImplementedError(
                f"{name} calls Python, which programs on platform"
                f" {devices[0].platform_name} cannot do yet: run it on the CPU, by"
                ' device_put(..., devices("cpu")[0]) of its arguments.'
            )
        ids = [d.id for d in devices]
        options = compile_options(partitions=len(ids), devices=ids)
        client = devices[0].hardware.client
        self.program = client.compile(module_text(program.module), options)
        self._several = several

    def __call__(self, args: Sequence[Any], commit: bool) -> list[Any]:
        """The results; placed on the devices if the arguments were, or are to be."""
        given = [
            on_devices(x, s, stay=not commit)
            for x, s in zip(args, self.in_shardings, strict=True)
        ]
        if self._several:
            rows = zip(*[d.buffers for d in given], strict=True)
            count = len(self.out_shardings[0].devices) if self.out_shardings else 1
            outs = self.program.sharded(list(rows) or [[]] * count)
            columns = list(zip(*outs, strict=True))
        else:
            columns = [(b,) for b in self.program(*[d.buffers[0] for d in given])]
        for x, is_donated in zip(args, self.donated):
            if is_donated and type(x) is ArrayImpl:
                x.delete()
        results = zip(columns, self.out_avals, self.out_shardings, strict=True)
        return [device_array(b, a, s, commit) for b, a, s in results]


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
