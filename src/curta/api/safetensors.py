"""Files in the format of safetensors: a JSON header, and the bytes of arrays.

It is little-endian: the length of the header in 8 bytes, the header, which has for each
array its dtype, its shape and from where to where its bytes go, and the bytes.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from curta import dtypes

NDArray = np.ndarray[Any, Any]
# The dtypes of the format that are read again as they are; others are bytes in it.
_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3",
    "uint16": "U16",
    "int16": "I16",
    "float16": "F16",
    "bfloat16": "BF16",
    "uint32": "U32",
    "int32": "I32",
    "float32": "F32",
    "uint64": "U64",
    "int64": "I64",
    "float64": "F64",
}
_ALIGNMENT = 64
_MOST = 100_000_000  # bytes of a header, as the format has it


def stored_as(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which elements are stored: their own, or bytes."""
    return dtype if dtype.name in _NAMES else np.dtype(np.uint8)


def write(path: str, arrays: Mapping[str, NDArray]) -> int:
    """Write C-contiguous arrays of such dtypes, to the disk; the bytes of the file."""
    header: dict[str, Any] = {}
    at = 0
    for name, x in arrays.items():
        end = at + x.nbytes
        header[name] = {
            "dtype": _NAMES[x.dtype.name],
            "shape": list(x.shape),
            "data_offsets": [at, end],
        }
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _ALIGNMENT)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for x in arrays.values():
            file.write(x.reshape(-1).view(np.uint8).data)
        file.flush()
        os.fsync(file.fileno())
    return 8 + len(text) + at


class Reader:
    """The arrays of a file, as views of it; ValueError for one that is damaged."""

    def __init__(self, path: str):
        self._path = path
        size = os.path.getsize(path)
        if size < 8:
            raise self._damaged("it is too short")
        self._bytes: NDArray = np.memmap(path, np.uint8, "r")
        length = int.from_bytes(self._bytes[:8].tobytes(), "little")
        if length > min(_MOST, size - 8):
            raise self._damaged("the header does not end in it")
        try:
            header = json.loads(self._bytes[8 : 8 + length].tobytes())
            self._entries = {n: self._entry(e) for n, e in header.items()}
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise self._damaged("its header cannot be read") from error
        self._begin = 8 + length

    def _entry(self, entry: Any) -> tuple[str, tuple[int, ...], int, int]:
        begin, end = map(int, entry["data_offsets"])
        return str(entry["dtype"]), tuple(map(int, entry["shape"])), begin, end

    def array(self, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> NDArray:
        """The array `name`, whose dtype and shape are known."""
        if name not in self._entries:
            raise self._damaged(f"it has no array {name}")
        kind, result, begin, end = self._entries[name]
        nbytes = math.prod(shape) * dtype.itemsize
        if kind != _NAMES[dtype.name] or result != shape or end - begin != nbytes:
            raise self._damaged(f"array {name} is {kind}{list(result)} in it")
        if not 0 <= begin <= end <= len(self._bytes) - self._begin:
            raise self._damaged(f"array {name} does not end in it")
        data = self._bytes[self._begin + begin : self._begin + end]
        return data.view(dtype).reshape(shape)

    def _damaged(self, what: str) -> ValueError:
        return ValueError(f"{self._path} is damaged: {what}")


def as_stored(x: NDArray, dtype: Any) -> NDArray:
    """Elements, in their physical dtype, as they are stored.

    Random keys are words of 32 bits, what the format does not know is bytes.
    """
    shape, kind = stored_form(x.shape, dtype)
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8).view(kind).reshape(shape)


def stored_form(
    shape: tuple[int, ...], dtype: Any
) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """The shape and dtype in which elements are stored."""
    if isinstance(dtype, dtypes.KeyDType):
        return (*shape, dtype.words), np.dtype(np.uint32)
    kind = stored_as(dtype)
    if kind == dtype:
        return shape, kind
    return (*shape, dtype.itemsize), kind
