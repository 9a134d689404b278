"""Calls of programs on the devices of a plugin: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curta.core.avals import ShapedArray, placed_aval
from curta.core.jaxpr import ClosedJaxpr
from curta.core.memo import kept_by_settings
from curta.core.mesh import Mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.sharding import NamedSharding, Sharding
from curta.core.stage import stage
from curta.primitives.structure import Transpose
from curta.runtime.array import ArrayImpl, wrap
from curta.runtime.backends import CompileOptions, backend_of
from curta.runtime.device_data import DeviceData, moved
from curta.runtime.donation import give_up, refuse_twice
from curta.runtime.laid_out import sharding_in_order
from curta.runtime.queue import Pending
from curta.runtime.transfer import to_array


class DeviceCall:
    """A program compiled for devices, with what it takes to call it on arrays.

    The arguments are brought to where the options say.
    """

    told: int
    """How often `jit` has told native code of it."""
    entered: int
    """How often the program's own call has."""

    def __init__(self, closed: ClosedJaxpr, options: CompileOptions) -> None:
        self.told = self.entered = 0
        self.donated: Mapping[int, int] = options.donated
        self._arg_names = closed.jaxpr.debug_info.arg_names
        run: Any = backend_of(options.devices).compile(closed, options)
        self._run, self.program = run, run.program

    @property
    def executable(self) -> Any:
        """The function that runs it, on elements on the expected devices."""
        return self._run

    def __call__(self, args: Sequence[Any], commit: bool) -> list[ArrayImpl]:
        """The results; placed on the devices if the arguments were, or are to be."""
        where = self._run.in_shardings
        given = [
            on_devices(x, s, stay=not commit)
            if type(x) is ArrayImpl or self.donated
            else _given(x, s)
            for x, s in zip(args, where, strict=True)
        ]
        if self.donated:
            refuse_twice(self._arg_names, self.donated, [*map(_memory, given)])
        outs = self._run(*given)
        give_up(self.donated, args)
        return [device_array(x, commit) for x in outs]


def _memory(data: DeviceData) -> Any:
    """What tells elements from others: the first of the buffers that are here."""
    return data.buffers[0] if data.buffers else data


def resharded(given: DeviceData, sharding: Sharding) -> DeviceData:
    """Elements over several processes, resharded.

    The processes run a program for it. Raises ValueError for other devices.
    """
    if {*sharding.devices} != {*given.sharding.devices}:
        raise ValueError(
            "an array over devices of several processes can be moved to another"
            f" sharding of the same devices only: got {sharding} for an array over"
            f" {given.sharding}. jax.experimental.multihost_utils.process_allgather"
            " gives it whole."
        )
    run = _resharding(given.aval.unplaced(), given.sharding, sharding)
    (out,) = run(given)
    return DeviceData(out.buffers, given.aval, sharding)


def gathered(given: DeviceData) -> np.ndarray[Any, Any]:
    """All elements, which the processes bring to each other."""
    mesh = Mesh(list(given.sharding.devices), ("devices",))
    return resharded(given, NamedSharding(mesh, PartitionSpec())).wait()


@kept_by_settings(256)
def _resharding(aval: ShapedArray, before: Sharding, after: Sharding) -> Any:
    """A program whose result is its argument, laid out otherwise."""
    where = CompileOptions("reshard", after.devices, (before,), (after,))
    same = stage(lambda x: [x], [aval])
    return backend_of(where.devices).compile(same, where)


def in_order(given: DeviceData, order: Sequence[int]) -> DeviceData:
    """The elements of the array whose dims are these in another order."""
    (out,) = _reordering(given.aval.unplaced(), given.sharding, tuple(order))(given)
    result: DeviceData = out
    return result


@kept_by_settings(256)
def _reordering(aval: ShapedArray, where: Sharding, order: tuple[int, ...]) -> Any:
    """A program whose result has the dims of its argument in another order."""
    after = sharding_in_order(where, order)
    options = CompileOptions("transpose", where.devices, (where,), (after,))
    moved = stage(lambda x: [Transpose(order)(x)], [aval])
    return backend_of(options.devices).compile(moved, options)


def device_array(data: DeviceData, commit: bool) -> ArrayImpl:
    """An array of what a program gave."""
    if not commit:
        return wrap(data, data.aval, None)
    return wrap(data, placed_aval(data.aval, data.sharding), data.sharding)


def _given(x: Any, sharding: Sharding) -> DeviceData:
    """What is no array of ours, on devices.

    Numbers are brought there once, as that takes longer than the ops on them.
    """
    if type(x) in _NUMBERS:  # their `repr` tells all of them apart, the zeros too
        return _kept_number(type(x), repr(x), sharding)
    if type(x) is np.ndarray and not x.shape and x.dtype.kind in "biufc":
        return _kept_number(x.dtype, x.tobytes(), sharding)
    return on_devices(x, sharding)


_NUMBERS = (int, float, complex)


@kept_by_settings(1024)
def _kept_number(kind: Any, said: Any, sharding: Sharding) -> DeviceData:
    """A number on devices, which nobody may donate."""
    if isinstance(kind, np.dtype):
        return on_devices(np.frombuffer(said, kind).reshape(()), sharding)
    return on_devices(kind(said), sharding)


def beside(number: Any, x: ArrayImpl, aval: ShapedArray | None = None) -> Any:
    """A number as an array on the device of `x`; as it is, if that is on no single one.

    `aval` is its own if it is an array of NumPy's. It is kept, and may not be donated.
    """
    data = getattr(x, "_pending", None)
    if type(data) is not DeviceData or data.sharding.num_devices > 1:
        return number
    if aval is not None:
        return _kept_array(number.dtype, number.tobytes(), aval, data.sharding)
    if type(number) in _NUMBERS:
        return _kept_array(type(number), repr(number), None, data.sharding)
    return number


@kept_by_settings(1024)
def _kept_array(
    kind: Any, said: Any, aval: ShapedArray | None, at: Sharding
) -> ArrayImpl:
    data = _kept_number(kind, said, at)
    return wrap(data, data.aval if aval is None else aval, None)


def on_devices(x: Any, sharding: Sharding, stay: bool = False) -> DeviceData:
    """The elements of an argument where the program wants them.

    An array that belongs there stays, so that it is brought only once; with `stay` one
    on no particular device, too.
    """
    array = x if type(x) is ArrayImpl else to_array(x)
    buffer = array._buffer()
    if type(buffer) is DeviceData:
        if buffer.is_here or buffer.sharding == sharding:
            return moved(buffer, sharding)
        return resharded(buffer, sharding)
    stored: Any = array._storage() if type(buffer) is Pending else buffer
    backend = backend_of(sharding.devices)
    data: DeviceData = backend.put(stored, array.aval, sharding)
    if array is x and (x._sharding == sharding or (stay and x._sharding is None)):
        x._pending = data
        x._data = None
    return data
