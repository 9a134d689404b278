"""Texts, lists and named values, as they are passed to plugins and come from them."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from curta.runtime.pjrt.abi import structs

STRING, INT64, INT64_LIST, FLOAT, BOOL = range(5)  # PJRT_NamedValue_Type
Value = str | bytes | bool | int | float | Sequence[int]


def text(address: int | None, size: int) -> str:
    """A text of a plugin."""
    return ctypes.string_at(address, size).decode("utf-8", "replace") if address else ""


def pointers(address: int | None, count: int) -> list[int]:
    """A list of pointers."""
    return list((ctypes.c_void_p * count).from_address(address)) if address else []


def integers(address: int | None, count: int, kind: Any = ctypes.c_int64) -> list[int]:
    """A list of numbers."""
    return list((kind * count).from_address(address)) if address and count else []


def array_of(numbers: Sequence[int], kind: Any = ctypes.c_int64) -> Any:
    """Numbers as an array of C; its address is not null even where there are none."""
    return (kind * max(1, len(numbers)))(*numbers)


def bytes_of(data: bytes) -> Any:
    """Bytes at an address that stays, with a zero behind them.

    Sizes are always told, yet older plugins read the text of a program up to a zero.
    """
    return ctypes.create_string_buffer(data, len(data) + 1)


class NamedValues:
    """Options by name as an array of C, at `address`, as long as this object lives.

    Raises TypeError for a value of another type than PJRT has.
    """

    def __init__(self, values: Mapping[str, Value]) -> None:
        cls = structs()["NamedValue"]
        self.count: int = len(values)
        self._array = (cls * max(1, self.count))()
        self._keep: list[Any] = []
        for entry, (name, value) in zip(self._array, values.items()):
            self._fill(entry, name, value)
            entry.struct_size = cls.c_size

    @property
    def address(self) -> int:
        return ctypes.addressof(self._array)

    def _fill(self, entry: Any, name: str, value: Value) -> None:
        encoded = name.encode()
        entry.name, entry.name_size = self._stay(bytes_of(encoded)), len(encoded)
        entry.value_size = 1
        if isinstance(value, bool):
            entry.type, entry.value = BOOL, value
        elif isinstance(value, int):
            entry.type, entry.value = INT64, value
        elif isinstance(value, float):
            (bits,) = struct.unpack("<i", struct.pack("<f", value))
            entry.type, entry.value = FLOAT, bits
        elif isinstance(value, str | bytes):
            data = value.encode() if isinstance(value, str) else value
            entry.type, entry.value = STRING, self._stay(bytes_of(data))
            entry.value_size = len(data)
        elif isinstance(value, Sequence) and all(isinstance(v, int) for v in value):
            numbers: Any = value
            entry.type, entry.value = INT64_LIST, self._stay(array_of(numbers))
            entry.value_size = len(numbers)
        else:
            raise TypeError(
                f"option {name}={value!r} of a plugin: expected a string, a boolean, an"
                f" integer, a float or a list of integers, not {type(value).__name__}"
            )

    def _stay(self, data: Any) -> int:
        self._keep.append(data)
        return ctypes.addressof(data)


def decode(address: int | None, count: int) -> dict[str, Any]:
    """Named values of a plugin; those of a type not known are left out."""
    cls = structs()["NamedValue"]
    result: dict[str, Any] = {}
    at = address or 0
    for _ in range(count):
        entry: Any = cls.from_address(at)
        result[text(entry.name, entry.name_size)] = _value(entry)
        # A newer plugin's may be longer than ours.
        at += max(ctypes.sizeof(cls), entry.struct_size)
    return {name: value for name, value in result.items() if value is not None}


def _value(entry: Any) -> Any:
    address = entry.value % 2**64
    if entry.type == STRING:
        return text(address, entry.value_size)
    if entry.type == INT64:
        return entry.value
    if entry.type == INT64_LIST:
        return integers(address, entry.value_size)
    if entry.type == FLOAT:
        return struct.unpack("<f", struct.pack("<I", entry.value % 2**32))[0]
    if entry.type == BOOL:
        return bool(entry.value & 0xFF)
    return None
