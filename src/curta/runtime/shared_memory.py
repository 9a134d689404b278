"""Arrays on devices of plugins in the hands of other libraries, and theirs in ours."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes
from curta.core.avals import ShapedArray
from curta.core.sharding import on_device
from curta.runtime.array import ArrayImpl, wrap
from curta.runtime.device_data import DeviceData, words_of
from curta.runtime.devices import Device, devices
from curta.runtime.pjrt import dlpack
from curta.runtime.pjrt.buffers import DeviceBuffer


def _buffer(data: DeviceData, what: str) -> DeviceBuffer:
    """The one buffer of an array; BufferError if it has several, or holds keys."""
    if len(data.buffers) > 1:
        raise BufferError(
            f"{what} is of an array on one device: this one is on"
            f" {len(data.buffers)}. Use each of addressable_shards."
        )
    if words_of(data.aval) or data.aval.dtype == dtypes.float0:
        raise BufferError(f"{what} has no type for elements of {data.aval.dtype}")
    return data.buffers[0]


def capsule(data: DeviceData, versioned: bool) -> Any:
    """`__dlpack__` of an array on a device, which others must not write to.

    Raises BufferError for an array on several devices or of a dtype or platform that
    DLPack does not know.
    """
    return dlpack.capsule(_buffer(data, "__dlpack__"), versioned)


def dlpack_device(data: DeviceData) -> tuple[int, int]:
    """`__dlpack_device__`: the kind of memory and the number of the device."""
    return dlpack.device_of(_buffer(data, "__dlpack_device__"))


def cuda_array_interface(data: DeviceData) -> dict[str, Any]:
    """`__cuda_array_interface__`; AttributeError where there is none."""
    try:
        buffer = _buffer(data, "__cuda_array_interface__")
    except BufferError as error:
        raise AttributeError(str(error)) from None
    return dlpack.cuda_array_interface(buffer)


def from_dlpack(x: Any) -> ArrayImpl:
    """The array over the memory of a device that `x` speaks of by DLPack.

    Raises:
      RuntimeError: there is no plugin, or no device of that number.
      BufferError: the memory, or the dtype, is one that is not known.
      ValueError: the elements do not lie one after the other.
    """
    kind, number = x.__dlpack_device__()
    device = _device(dlpack.platform_of(kind), number)
    return _over(dlpack.from_dlpack(device.hardware.client, x, device.hardware), device)


def view(data: DeviceData) -> ArrayImpl:
    """The same memory as another library would hold it, so that it is not donated."""
    shared = dlpack.Shared(_buffer(data, "from_dlpack"))
    (device,) = data.sharding.devices
    return _over(
        dlpack.from_dlpack(device.hardware.client, shared, device.hardware), device
    )


def _over(buffer: DeviceBuffer, device: Device) -> ArrayImpl:
    aval = ShapedArray(buffer.shape, np.dtype(buffer.dtype))
    sharding = on_device(device)
    return wrap(DeviceData([buffer], aval, sharding), aval, sharding)


def _device(platform: str, number: int) -> Device:
    result = devices(platform)
    for device in result:
        if device.local_hardware_id == number:
            return device
    raise RuntimeError(f"no device {number} of platform {platform} is among {result}")
