"""Elements that lie on devices of a plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curta import dtypes
from curta._base.on_demand import late
from curta.core.avals import ShapedArray, placed_aval
from curta.core.sharding import Sharding, on_device
from curta.runtime.remote_data import RemoteData

device_call: Any = late("curta.runtime.device_call")


class DeviceData(RemoteData):
    """The elements of an array on the devices of a sharding: a buffer for each.

    `buffers` are those of `runtime/pjrt`, on the sharding's devices that are of this
    process, in their order. What was brought to the host is kept there.
    """

    __slots__ = ("_host", "aval", "buffers", "sharding")

    def __init__(
        self,
        buffers: Sequence[Any],
        aval: ShapedArray,
        sharding: Sharding,
        host: np.ndarray[Any, Any] | None = None,
    ) -> None:
        self.buffers: tuple[Any, ...] = tuple(buffers)
        self.aval: ShapedArray = aval
        self.sharding: Sharding = sharding
        self._host = host

    def is_ready(self) -> bool:
        """Whether the elements are computed, or have failed."""
        return all(b.is_ready() for b in self.buffers)

    def block_until_ready(self) -> None:
        """Wait for the elements; raises what went wrong while they were computed."""
        for buffer in self.buffers:
            buffer.block_until_ready()

    def start_transfer(self) -> None:
        """Begin to bring the elements to the host."""
        if self._host is None:
            for buffer in self.buffers:
                buffer.start_transfer()

    def wait(self) -> np.ndarray[Any, Any]:
        """The elements on the host."""
        if self._host is None:
            self._host = self._gathered()
        return self._host

    def _gathered(self) -> np.ndarray[Any, Any]:
        self.check_here()
        if self.sharding.is_fully_replicated:
            return from_words(self.buffers[0].numpy(), self.aval)
        shape = (*self.aval.shape, *words_of(self.aval))
        out: np.ndarray[Any, Any] | None = None
        seen = set()
        indices = self.sharding.index_map(self.aval.shape)
        for buffer, index in zip(self.buffers, indices.values(), strict=True):
            if str(index) in seen:
                continue
            seen.add(str(index))
            part = buffer.numpy()
            if out is None:
                out = np.empty(shape, part.dtype)
            out[index] = part
        assert out is not None
        return from_words(out, self.aval)

    def shard(self, device: Any, index: Any, term: Any = ()) -> DeviceData:
        """The shard on one device, as an array of that device."""
        number = self.sharding._addressable_device_assignment.index(device)
        sizes = [s.indices(n) for s, n in zip(index, self.aval.shape, strict=True)]
        shape = tuple(stop - start for start, stop, _ in sizes)
        where = on_device(device, memory_kind=self.sharding.memory_kind)
        aval = ShapedArray(shape, self.aval.dtype, self.aval.weak_type)
        aval = placed_aval(aval, where)
        return DeviceData([self.buffers[number]], aval, where)

    def copy(self) -> DeviceData:
        """The same elements in memory of their own."""
        memories = [b.memory for b in self.buffers]
        copies = [b.copy_to(m) for b, m in zip(self.buffers, memories, strict=True)]
        return DeviceData(copies, self.aval, self.sharding, self._host)

    shared = copy

    def in_order(self, order: Sequence[int]) -> DeviceData:
        """The elements of the array whose dims are these in another order."""
        result: DeviceData = device_call.in_order(self, order)
        return result

    def delete(self) -> None:
        """Give the memory of the devices back."""
        for buffer in self.buffers:
            buffer.delete()

    @property
    def nbytes(self) -> int:
        """The bytes on all devices."""
        return sum(b.nbytes_on_device for b in self.buffers)

    def address(self) -> int:
        """That of the only buffer; ValueError if there are several."""
        if len(self.buffers) > 1:
            raise ValueError(
                "unsafe_buffer_pointer() is for arrays on one device: take the"
                " pointer of each of addressable_shards."
            )
        result: int = self.buffers[0].address()
        return result


def words_of(aval: ShapedArray) -> tuple[int, ...]:
    """The dims that a random key has on devices, where it is words of 32 bits."""
    dtype = aval.dtype
    return (dtype.itemsize // 4,) if isinstance(dtype, dtypes.KeyDType) else ()


def as_words(data: np.ndarray[Any, Any], aval: ShapedArray) -> np.ndarray[Any, Any]:
    """The elements as devices have them: keys as words, no bits as booleans."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, np.bool_)
    words = words_of(aval)
    if not words:
        return data
    flat = np.ascontiguousarray(data).view(np.uint32)
    return flat.reshape(*aval.shape, *words)


def from_words(data: np.ndarray[Any, Any], aval: ShapedArray) -> np.ndarray[Any, Any]:
    """The elements as the host has them."""
    if aval.dtype == dtypes.float0:
        return np.zeros(aval.shape, dtypes.float0)
    if not words_of(aval):
        return data
    physical = dtypes.physical_dtype(aval.dtype)
    return np.ascontiguousarray(data).view(physical).reshape(aval.shape)


def put(
    data: np.ndarray[Any, Any], aval: ShapedArray, sharding: Sharding
) -> DeviceData:
    """The elements of a host's array, that nobody writes to, on devices."""
    if aval.placement is not None and aval.placement.unreduced:
        raise NotImplementedError(
            f"unreduced arrays, such as {aval}, cannot be on devices of plugins yet:"
            " take the sums with jax.sharding.reshard."
        )
    host = as_words(data, aval)
    buffers = []
    indices = sharding.index_map(aval.shape)
    for device in sharding._addressable_device_assignment:
        part = host if sharding.is_fully_replicated else host[indices[device]]
        target = _memory(device, sharding)
        buffers.append(device.hardware.client.put(part, target, immutable=True))
    result = DeviceData(buffers, aval, sharding)
    if result.is_here:
        result._host = data
    return result


def _memory(device: Any, sharding: Sharding) -> Any:
    """Where on a device an array of a sharding is."""
    if sharding.memory_kind in (None, "device"):
        return device.hardware
    return device.hardware.memory(sharding.memory_kind)


def assembled(
    aval: ShapedArray, sharding: Sharding, pieces: Mapping[Any, Any]
) -> DeviceData:
    """An array of the parts on devices of this process: those, or NumPy arrays."""
    buffers = []
    for device in sharding._addressable_device_assignment:
        part, target = pieces[device], _memory(device, sharding)
        if type(part) is DeviceData:
            buffers.append(part.buffers[0].copy_to(target))
        else:
            of_part = ShapedArray(sharding.shard_shape(aval.shape), aval.dtype)
            words = as_words(part, of_part)
            buffers.append(device.hardware.client.put(words, target))
    return DeviceData(buffers, aval, sharding)


def moved(given: DeviceData, sharding: Sharding) -> DeviceData:
    """The same elements elsewhere: from device to device where the plugin copies."""
    if given.sharding is sharding or given.sharding == sharding:
        return given
    here = given.sharding._addressable_device_assignment
    there = sharding._addressable_device_assignment
    same_client = here[0].hardware.client is there[0].hardware.client
    single = len(here) == len(there) == 1
    if same_client and single:
        target = there[0].hardware
        if sharding.memory_kind != given.sharding.memory_kind:
            target = target.memory(sharding.memory_kind or "device")
        copies = [given.buffers[0].copy_to(target)]
        return DeviceData(copies, given.aval, sharding, given._host)
    if same_client and given.sharding.is_fully_replicated and len(here) == 1:
        if sharding.is_fully_replicated:
            copies = [
                given.buffers[0]
                if d == here[0]
                else given.buffers[0].copy_to(d.hardware)
                for d in there
            ]
            return DeviceData(copies, given.aval, sharding, given._host)
    return put(given.wait(), given.aval, sharding)
