"""The types of elements in DLPack's capsules, and NumPy's arrays with all of them.

NumPy makes and reads capsules, but knows none of ml_dtypes' types. Such elements pass
it as unsigned integers; what a capsule calls them is written or read here.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final

import ml_dtypes
import numpy as np


class DLTensor(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


_SMALL: Final = (
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn"),
    *("float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
)
_UNSIGNED: Final = 1
# Those that NumPy does not know.
_EXTENDED: Final = {
    "bfloat16": (4, 16),
    **{name: (7 + code, 8) for code, name in enumerate(_SMALL)},
}
# DLDataType as (code, bits) by dtype.
TYPES: Final = {
    "bool": (6, 8),
    **{f"int{n}": (0, n) for n in (8, 16, 32, 64)},
    **{f"uint{n}": (_UNSIGNED, n) for n in (8, 16, 32, 64)},
    **{f"float{n}": (2, n) for n in (16, 32, 64)},
    "complex64": (5, 64),
    "complex128": (5, 128),
    **_EXTENDED,
}
DTYPES: Final = {code: name for name, code in TYPES.items()}

# DLDeviceType of memory that the host reads: its own, that of CUDA's and ROCm's hosts,
# and that which CUDA moves.
HOST_MEMORY: Final = (1, 3, 11, 13)

# Where the tensor stands in what a capsule points to.
_OFFSETS: Final = {b"dltensor": 0, b"dltensor_versioned": 32}

_python = ctypes.PyDLL(None)
_is_valid = _python.PyCapsule_IsValid
_is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
_pointer = _python.PyCapsule_GetPointer
_pointer.restype = ctypes.c_void_p
_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


def _tensor(capsule: Any) -> DLTensor | None:
    """The tensor in a capsule; None if it has none, or somebody took it."""
    for name, offset in _OFFSETS.items():
        if _is_valid(capsule, name):
            return DLTensor.from_address(_pointer(capsule, name) + offset)
    return None


def capsule_of(x: np.ndarray[Any, Any], **options: Any) -> Any:
    """`x.__dlpack__(**options)`, for the types of ml_dtypes as well.

    Raises BufferError for those that DLPack has not.
    """
    kind = _EXTENDED.get(x.dtype.name)
    if kind is None:
        return x.__dlpack__(**options)
    capsule = x.view(f"u{x.itemsize}").__dlpack__(**options)
    tensor = _tensor(capsule)
    assert tensor is not None
    tensor.code = kind[0]
    return capsule


class _Made:
    """A capsule as an object to take it from."""

    def __init__(self, capsule: Any, device: Any):
        self.capsule = capsule
        self.device = device

    def __dlpack__(self, **options: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> Any:
        return self.device


def array_from(x: Any) -> np.ndarray[Any, Any]:
    """`numpy.from_dlpack(x)`, for the types of ml_dtypes as well."""
    device = x.__dlpack_device__()
    try:
        capsule = x.__dlpack__(max_version=(1, 0))
    except TypeError:  # of before version 1
        capsule = x.__dlpack__()
    tensor = _tensor(capsule)
    name = "" if tensor is None else DTYPES.get((tensor.code, tensor.bits), "")
    if tensor is None or name not in _EXTENDED:
        return np.from_dlpack(_Made(capsule, device))
    tensor.code = _UNSIGNED
    data: Any = np.from_dlpack(_Made(capsule, device))
    return data.view(getattr(ml_dtypes, name))
