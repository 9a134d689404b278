"""Memory of devices shared with other libraries, both ways, by DLPack.

A capsule is made and read by ctypes. Who takes memory of ours calls back when it is
done with it; until then the buffer lives. Memory of others becomes a buffer that tells
them when it is not used any more.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from curta.core.dlpack_types import DTYPES, TYPES, DLTensor
from curta.errors import JaxRuntimeError
from curta.runtime.pjrt import callbacks
from curta.runtime.pjrt.abi import ELEMENT_TYPES, STREAM_EXTENSION, structs
from curta.runtime.pjrt.buffers import DeviceBuffer, dtype_of, element_type
from curta.runtime.pjrt.client import PluginClient
from curta.runtime.pjrt.devices import PluginDevice
from curta.runtime.pjrt.values import array_of, integers


class _Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = [
        ("tensor", DLTensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    ]


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned, of version 1."""

    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    ]


_READ_ONLY = 1

# DLDeviceType by platform; that of memory of the host which a GPU reads.
CPU, CUDA, CUDA_HOST, ROCM, ROCM_HOST = 1, 2, 3, 10, 11
_DEVICE_TYPES = {"cpu": CPU, "cuda": CUDA, "rocm": ROCM}

# What a capsule of each name points to. A capsule keeps the address of its name, which
# says that the tensor was taken if it begins with `used_`.
_KINDS: dict[bytes, Any] = {b"dltensor": _Managed, b"dltensor_versioned": _Versioned}
_NAMES = {
    name: ctypes.create_string_buffer(name)
    for kind in _KINDS
    for name in (kind, b"used_" + kind)
}
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_RELEASE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)

_python = ctypes.PyDLL(None)
_new = _python.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
_pointer = _python.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
_rename = _python.PyCapsule_SetName
_rename.argtypes = [ctypes.py_object, ctypes.c_void_p]
_is_valid = _python.PyCapsule_IsValid
_is_valid.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
# The same for a capsule that is being destroyed, which must not be referred to.
_pointer_at = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _python)
)


def platform_of(kind: int) -> str:
    """The platform whose devices have memory of a kind; BufferError if none has."""
    for platform, known in _DEVICE_TYPES.items():
        if known == kind:
            return platform
    raise BufferError(f"memory of kind {int(kind)} of DLPack is not known")


def device_of(buffer: DeviceBuffer) -> tuple[int, int]:
    """`__dlpack_device__`: the kind of memory and the number of the device."""
    platform = buffer.client.platform.lower()
    kind = _DEVICE_TYPES.get(platform)
    if kind is None:
        raise BufferError(f"DLPack has no kind of memory for platform {platform!r}")
    device = buffer.device
    host = {CUDA: CUDA_HOST, ROCM: ROCM_HOST}
    if kind in host and buffer.memory.kind != "device":
        return host[kind], device.local_hardware_id
    return kind, max(0, device.local_hardware_id)


# ---- out

# What others use, by the address of what they were given.
_lent: dict[int, tuple[Any, ...]] = {}


def _take_back(address: int) -> None:
    buffer, *_ = _lent.pop(address, (None,))
    if buffer is not None:
        buffer.take_back()


def _unused(capsule: int) -> None:
    """The destructor of a capsule: frees the tensor if it was not consumed."""
    for name in _KINDS:
        if _is_valid(capsule, name):
            _take_back(_pointer_at(capsule, name))


_take_back_in_c = callbacks.guarded(_DELETER, _take_back, callbacks.report)
# It is called with Python's lock held.
_unused_in_c = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_unused)


def capsule(buffer: DeviceBuffer, versioned: bool = False) -> Any:
    """`__dlpack__`: a capsule over a buffer's memory, once its elements are there.

    One of version 1 says that nobody may write to it.

    Raises BufferError for a dtype or a memory that DLPack has not.
    """
    kind = TYPES.get(buffer.dtype.name)
    if kind is None:
        raise BufferError(f"DLPack has no type for dtype {buffer.dtype}")
    where = device_of(buffer)
    dims = array_of(buffer.shape)
    name = b"dltensor_versioned" if versioned else b"dltensor"
    managed = _KINDS[name]()
    if versioned:
        managed.major, managed.flags = 1, _READ_ONLY
    tensor = managed.tensor
    tensor.data = buffer.borrow()
    tensor.device_type, tensor.device_id = where
    tensor.code, tensor.bits, tensor.lanes = *kind, 1
    tensor.ndim, tensor.shape = len(buffer.shape), ctypes.addressof(dims)
    managed.deleter = callbacks.address_of(_take_back_in_c)
    address = ctypes.addressof(managed)
    _lent[address] = buffer, managed, dims
    destructor = ctypes.cast(_unused_in_c, ctypes.c_void_p)
    return _new(address, ctypes.addressof(_NAMES[name]), destructor)


class Shared:
    """A buffer as an object that other libraries take: `torch.from_dlpack(it)`."""

    def __init__(self, buffer: DeviceBuffer) -> None:
        self.buffer = buffer

    def __dlpack__(self, **options: Any) -> Any:
        """A capsule; the elements are there, so that no stream has to wait."""
        wanted = options.get("dl_device")
        if options.get("copy") or wanted not in (None, self.__dlpack_device__()):
            raise BufferError("the memory of a device is shared where it is, uncopied")
        version = options.get("max_version")
        return capsule(self.buffer, version is not None and version >= (1, 0))

    def __dlpack_device__(self) -> tuple[int, int]:
        return device_of(self.buffer)


def cuda_array_interface(buffer: DeviceBuffer) -> dict[str, Any]:
    """`__cuda_array_interface__` of a buffer.

    Raises AttributeError for other platforms and for dtypes that NumPy has not.
    """
    if buffer.client.platform.lower() != "cuda":
        raise AttributeError(
            "__cuda_array_interface__ is only defined for NVidia GPU buffers."
        )
    if buffer.dtype.kind == "V":
        raise AttributeError(
            f"__cuda_array_interface__ is not supported for {buffer.dtype} buffers."
        )
    buffer.block_until_ready()
    return {
        "shape": buffer.shape,
        "typestr": buffer.dtype.str,
        "data": (buffer.address(), False),
        "version": 2,
    }


# ---- in

# The kind of what others gave us, by its address.
_borrowed: dict[int, Any] = {}


def _release(memory: int, managed: int) -> None:
    """A buffer over another library's memory ends."""
    kind = _borrowed.pop(managed, None)
    if kind is not None:
        deleter = kind.from_address(managed).deleter
        if deleter:
            _DELETER(deleter)(managed)


_release_in_c = callbacks.guarded(_RELEASE, _release, callbacks.report)


def from_dlpack(
    client: PluginClient, external: Any, device: PluginDevice
) -> DeviceBuffer:
    """A buffer over the memory of another library's array on a device of ours.

    Raises:
      BufferError: it is on another device, or of a dtype not known.
      ValueError: its elements do not lie one after the other.
    """
    kind, number = external.__dlpack_device__()
    expected = _DEVICE_TYPES.get(client.platform.lower())
    if kind != expected or (kind != CPU and number != device.local_hardware_id):
        raise BufferError(
            f"the array is on device {(int(kind), number)} of DLPack, not on {device}"
        )
    stream = _stream(client, device) if kind != CPU else None
    ready = {} if stream is None else {"stream": stream}
    try:
        made = external.__dlpack__(max_version=(1, 0), **ready)
    except TypeError:  # of before version 1
        made = external.__dlpack__(**ready)
    name = next((n for n in _KINDS if _is_valid(id(made), n)), b"dltensor")
    address = _pointer(made, name)
    tensor = _KINDS[name].from_address(address).tensor
    dtype = _dtype(tensor)
    shape = tuple(integers(tensor.shape, tensor.ndim))
    _check_dense(tensor, shape)
    dims = array_of(shape)
    _borrowed[address] = _KINDS[name]
    try:
        result = client.library.call(
            "Client_CreateViewOfDeviceBuffer",
            client=client.address,
            device_buffer_ptr=(tensor.data or 0) + tensor.byte_offset,
            dims=ctypes.addressof(dims),
            num_dims=len(shape),
            element_type=element_type(dtype),
            device=device.address,
            memory=device.default_memory.address,
            on_delete_callback=callbacks.address_of(_release_in_c),
            on_delete_callback_arg=address,
            stream=stream,
        )
    except JaxRuntimeError:
        del _borrowed[address]
        raise
    _rename(made, ctypes.addressof(_NAMES[b"used_" + name]))
    return DeviceBuffer(client, result.buffer, (shape, dtype))


def _stream(client: PluginClient, device: PluginDevice) -> int | None:
    """The stream on which the plugin waits for others' work; None if it has none."""
    function = client.library.extension_function(STREAM_EXTENSION)
    if function is None:
        return None
    args: Any = structs()["Get_Stream_For_External_Ready_Events_Args"]()
    args.struct_size, args.device = type(args).c_size, device.address
    if error := function(ctypes.addressof(args)):
        client.library.take_error(error)
        return None
    return args.stream


def _dtype(tensor: Any) -> np.dtype[Any]:
    name = DTYPES.get((tensor.code, tensor.bits)) if tensor.lanes == 1 else None
    if name is None:
        said = (tensor.code, tensor.bits, tensor.lanes)
        raise BufferError(f"no dtype is DLPack's type {said}")
    return dtype_of(ELEMENT_TYPES[name])


def _check_dense(tensor: Any, shape: tuple[int, ...]) -> None:
    if not tensor.strides or 0 in shape:
        return
    strides, expected = integers(tensor.strides, len(shape)), 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size != 1 and stride != expected:
            raise ValueError(
                f"an array of shape {shape} with strides {strides} (of elements) does"
                " not lie one element after the other: copy it first"
            )
        expected *= size
