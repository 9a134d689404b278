"""Arrays in the memory of a device."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from curta._base.once import once
from curta.errors import JaxRuntimeError
from curta.runtime.pjrt.abi import (
    DTYPE_NAMES,
    ELEMENT_TYPES,
    ONLY_DURING_CALL,
    ZERO_COPY,
    Struct,
)
from curta.runtime.pjrt.devices import PluginDevice, PluginMemory
from curta.runtime.pjrt.values import array_of, integers

if TYPE_CHECKING:
    from curta.runtime.pjrt.client import PluginClient

# Memory that a plugin may use as it is has to begin at a multiple of this.
ALIGNMENT = 64

#: The dtype of tokens, which have no elements.
TOKEN = np.dtype(np.void)

# Shape and dtype.
Kind = tuple[tuple[int, ...], np.dtype[Any]]


def element_type(dtype: np.dtype[Any]) -> int:
    """PJRT_Buffer_Type of a dtype; TypeError if it has none."""
    result = ELEMENT_TYPES.get(dtype.name)
    if result is None:
        raise TypeError(f"arrays of dtype {dtype} cannot be on devices of plugins")
    return result


@once
def dtype_of(code: int) -> np.dtype[Any]:
    """The dtype of a PJRT_Buffer_Type; TypeError if there is none."""
    name = DTYPE_NAMES.get(code, "")
    narrow = getattr(ml_dtypes, name, None)
    if narrow is not None:
        return np.dtype(narrow)
    if name == "token":
        return TOKEN
    if not name:
        raise TypeError(f"no dtype of NumPy is PJRT's element type {code} ({name})")
    return np.dtype(name)


class _More:
    """Attributes that few buffers have.

    `host` is memory of the host whose elements the buffer uses, with the event that
    says when it does no more; `transfer` is one to the host that is under way, with its
    event; `borrowed` counts who uses the buffer's memory.
    """

    host: tuple[int, Any] | None = None
    transfer: tuple[int, Any] | None = None
    borrowed = 0


class DeviceBuffer:
    """An array on a device. Its elements may still be computed.

    `kind` are shape and dtype of the array. Finalizers free it; `delete` gives its
    memory back at once.
    """

    __slots__ = ("client", "handle", "kind", "more")

    def __init__(self, client: PluginClient, handle: int, kind: Kind) -> None:
        self.client: PluginClient = client
        self.handle: int = handle
        self.kind: Any = kind
        self.more: _More | None = None
        client.buffers.add(handle)

    def __del__(self) -> None:
        if self.more is not None:
            for pending in (self.more.host, self.more.transfer):
                if pending is not None:
                    self.client.borrow(*pending)
        self.client.free_buffer(self.handle)

    def _has(self) -> _More:
        """Its rare attributes, to be changed."""
        if self.more is None:
            self.more = _More()
        return self.more

    @property
    def shape(self) -> tuple[int, ...]:
        return self.kind[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.kind[1]

    def _call(self, what: str, **fields: Any) -> Any:
        self.client.check_open()
        return self.client.library.call(f"Buffer_{what}", buffer=self.handle, **fields)

    @property
    def memory(self) -> PluginMemory:
        """Where it lies."""
        return self.client.memory_at(self._call("Memory").memory)

    @property
    def device(self) -> PluginDevice:
        """The device whose memory it lies in."""
        return self.client.device_at(self._call("Device").device)

    @property
    def nbytes_on_device(self) -> int:
        """Bytes on the device, with padding."""
        return self._call("OnDeviceSizeInBytes").on_device_size_in_bytes

    @property
    def is_on_cpu(self) -> bool:
        """Whether the host can read its memory."""
        return self._call("IsOnCpu").is_on_cpu

    # ---- when it is there

    def block_until_ready(self) -> None:
        """Wait for its elements; raises what went wrong while they were computed."""
        if self.client.closed:
            self.client.check_open()
        self.client.await_buffer(self.handle)

    def is_ready(self) -> bool:
        """Whether its elements are there, or have failed."""
        event = self._call("ReadyEvent").event
        try:
            return self.client.library.is_ready(event)
        finally:
            self.client.library.call("Event_Destroy", event=event)

    def delete(self) -> None:
        """Give its memory back; what is under way with it goes on."""
        self._call("Delete")

    def is_deleted(self) -> bool:
        """Whether it was deleted, or given away to a program."""
        return self._call("IsDeleted").is_deleted

    # ---- to other memories

    def start_transfer(self) -> None:
        """Begin to copy the elements to the host, where `numpy` finds them."""
        more = self._has()
        if more.transfer is None:
            more.transfer = self._copy_out()

    def _copy_out(self) -> tuple[int, Any]:
        client = self.client
        client.check_open()
        out = np.empty(self.shape, self.dtype)
        # Arguments come from a free list: other threads may call meanwhile.
        heap = client.reads[out.ndim]
        try:
            slot = heap.pop()
        except IndexError:
            slot = _read(client, out.ndim)
        args, address, layout, _ = slot
        args.src, args.dst, args.dst_size = self.handle, out.ctypes.data, out.nbytes
        run = client.library.functions["Buffer_ToHostBuffer"]
        if error := run(address):
            client.library.retry(error, run, args, [layout])
        event = args.event
        heap.append(slot)
        return event, out

    def numpy(self) -> np.ndarray[Any, Any]:
        """The elements, on the host; raises what went wrong while they were made."""
        transfer = None
        if self.more is not None:
            transfer, self.more.transfer = self.more.transfer, None
        event, out = transfer or self._copy_out()
        self.client.library.wait(event)
        return out

    def copy_to(self, target: PluginDevice | PluginMemory) -> DeviceBuffer:
        """A copy on another device or in another memory of the client."""
        library = self.client.library
        if isinstance(target, PluginDevice) and not library.has("Buffer_CopyToMemory"):
            result = self._call("CopyToDevice", dst_device=target.address)
        else:
            memory = (
                target.default_memory if isinstance(target, PluginDevice) else target
            )
            result = self._call("CopyToMemory", dst_memory=memory.address)
        return DeviceBuffer(self.client, result.dst_buffer, self.kind)

    # ---- its memory, for other libraries

    def borrow(self) -> int:
        """The address of its memory on the device, kept there until `take_back`."""
        self.block_until_ready()
        self._call("IncreaseExternalReferenceCount")
        self._has().borrowed += 1
        self.client.borrowed.add(self.handle)
        return self._call("OpaqueDeviceMemoryDataPointer").device_memory_ptr or 0

    def take_back(self) -> None:
        """What `borrow` gave is not used any more."""
        more = self._has()
        more.borrowed -= 1
        if not more.borrowed:
            self.client.borrowed.discard(self.handle)
        if not self.client.closed:
            self._call("DecreaseExternalReferenceCount")

    @property
    def is_lent(self) -> bool:
        """Whether other libraries use its memory: then programs must not."""
        return self.more is not None and self.more.borrowed > 0

    def address(self) -> int:
        """The address of its memory, as the platform names it."""
        return self._call("UnsafePointer").buffer_pointer or 0

    def __repr__(self) -> str:
        return f"Buffer({self.dtype.name}{list(self.shape)})"


def _read(client: PluginClient, rank: int) -> tuple[Any, int, Struct, Any]:
    """The arguments of a copy to the host, in row-major order, and what they are."""
    order = array_of(range(rank)[::-1])
    layout: Any = client.library.struct("Buffer_MemoryLayout")
    layout.tiled_struct_size = 56
    layout.minor_to_major = ctypes.addressof(order)
    layout.minor_to_major_size = rank
    args = client.library.struct(
        "Buffer_ToHostBuffer_Args", host_layout=ctypes.addressof(layout)
    )
    return args, ctypes.addressof(args), layout, order


def from_host(
    client: PluginClient,
    array: np.ndarray[Any, Any],
    target: PluginDevice | PluginMemory,
    immutable: bool,
) -> DeviceBuffer:
    """A buffer with the elements of an array; see `PluginClient.put`."""
    code = element_type(array.dtype)
    dense = array if array.flags.c_contiguous else np.ascontiguousarray(array)
    dims = array_of(array.shape)
    device = target.devices[0] if isinstance(target, PluginMemory) else target
    shared = (immutable or dense is not array) and dense.ctypes.data % ALIGNMENT == 0
    result = client.library.call(
        "Client_BufferFromHostBuffer",
        client=client.address,
        data=dense.ctypes.data,
        type=code,
        dims=ctypes.addressof(dims),
        num_dims=array.ndim,
        host_buffer_semantics=ZERO_COPY if shared else ONLY_DURING_CALL,
        device=device.address,
        memory=None if device is target else target.address,
    )
    made = DeviceBuffer(client, result.buffer, (array.shape, array.dtype))
    event = result.done_with_host_buffer
    if shared:
        made._has().host = event, dense
    elif event:
        client.library.call("Event_Destroy", event=event)
    return made


def found_buffer(client: PluginClient, handle: int) -> DeviceBuffer:
    """A buffer of which nothing is known but its handle."""
    call = client.library.call
    code = call("Buffer_ElementType", buffer=handle).type
    dims = call("Buffer_Dimensions", buffer=handle)
    shape = tuple(integers(dims.dims, dims.num_dims))
    return DeviceBuffer(client, handle, (shape, dtype_of(code)))


def refuse_foreign(client: PluginClient, buffer: Any) -> None:
    """Raise JaxRuntimeError for what is no buffer of this client."""
    if not isinstance(buffer, DeviceBuffer):
        raise TypeError(f"expected a Buffer, got {type(buffer).__name__}")
    if buffer.client is not client:
        raise JaxRuntimeError(
            "INVALID_ARGUMENT: a buffer of another client was passed to a program;"
            " copy it by the host first."
        )
