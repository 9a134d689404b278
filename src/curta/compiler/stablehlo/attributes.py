"""Attributes as MLIR writes them: constants of tensors, arrays of integers, enums."""

from __future__ import annotations

import decimal
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curta.compiler.stablehlo.types import element_type, tensor


class Text(str):
    """An attribute that is written already."""

    __slots__ = ()


def text(value: Any) -> str:
    """An attribute: a bool, an int (of 64 bits), a string, ints, or `Text`."""
    if isinstance(value, Text):
        return value
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return f"{value} : i64"
    if isinstance(value, str):
        return string(value)
    if isinstance(value, Mapping):
        return dictionary(value)
    return "array<i64>" if not len(value) else f"array<i64: {commas(value)}>"


def string(value: str) -> str:
    """A string attribute: quotes, backslashes and bytes that are not ASCII escaped."""
    return '"' + "".join(map(_escaped, value.encode())) + '"'


def _escaped(byte: int) -> str:
    if byte in b'"\\' or not 0x20 <= byte < 0x7F:
        return "\\\\" if byte == 0x5C else f"\\{byte:02X}"
    return chr(byte)


def symbol(name: str) -> str:
    """`@name`, in quotes if it is not one word."""
    return f"@{name}" if _WORD.fullmatch(name) else f"@{string(name)}"


_WORD = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)


def commas(values: Sequence[Any]) -> str:
    """`1, 2`."""
    return ", ".join(map(str, values))


def ints(values: Sequence[Any]) -> Text:
    """`[1, 2]`."""
    return Text(f"[{commas(values)}]")


def array(values: Sequence[bool | int]) -> Text:
    """`array<i64: 1, 2>`, or `array<i1: true>` for bools."""
    kind = "i1" if len(values) and isinstance(values[0], (bool, np.bool_)) else "i64"
    if not len(values):
        return Text(f"array<{kind}>")
    items = [text(v) if kind == "i1" else str(v) for v in values]
    return Text(f"array<{kind}: {', '.join(items)}>")


def enum(kind: str, value: str) -> Text:
    """`#stablehlo<kind VALUE>`."""
    return Text(f"#stablehlo<{kind} {value}>")


def dictionary(entries: Mapping[str, Any]) -> str:
    """`{a = 1 : i64, b}`, in the order of the names; unit attributes are ()."""
    return "{" + fields(entries) + "}"


def fields(entries: Mapping[str, Any]) -> str:
    """The entries of a dictionary, in the order of the names."""
    return ", ".join(_entry(k, entries[k]) for k in sorted(entries))


def _entry(name: str, value: Any) -> str:
    key = name if name.replace(".", "_").isidentifier() else json.dumps(name)
    return key if value is UNIT else f"{key} = {text(value)}"


UNIT = object()
"""An attribute that is there or not."""


# ------------------------------------------------------------------- constants


def dense(values: np.ndarray[Any, Any]) -> Text:
    """`dense<...> : tensor<...>` for an array of any shape and dtype.

    A splat is written once; large tensors as the bytes of their elements in hex.
    """
    kind = tensor(values.shape, element_type(values.dtype))
    return Text(f"dense<{_elements(values)}> : {kind}")


_MOST_WRITTEN = 64  # elements; more are easier read by machines in hex


def _elements(values: np.ndarray[Any, Any]) -> str:
    if values.size == 0:
        return ""
    flat = np.ascontiguousarray(values).reshape(-1)
    if flat.dtype.itemsize and (flat.size == 1 or _is_splat(flat)):
        return scalar(flat[0])
    if (
        values.dtype.fields is not None
        or values.dtype.kind == "V"
        and not values.dtype.itemsize
    ):
        return "false"
    if values.size > _MOST_WRITTEN and _hex_allowed(values.dtype):
        return f'"0x{flat.tobytes().hex().upper()}"'
    return _nested(values)


def _is_splat(flat: np.ndarray[Any, Any]) -> bool:
    data = flat.view(np.uint8).reshape(flat.size, -1)
    return bool((data == data[0]).all())


def _hex_allowed(dtype: np.dtype[Any]) -> bool:
    # Booleans and types of fewer bits than a byte are packed in MLIR's bytes.
    return dtype != np.bool_ and dtype.name not in _PACKED


_PACKED = {"int2", "int4", "uint2", "uint4", "float4_e2m1fn"}


def _nested(values: np.ndarray[Any, Any]) -> str:
    if values.ndim == 0:
        return scalar(values[()])
    return "[" + ", ".join(map(_nested, values)) + "]"


def scalar(value: Any) -> str:
    """One element of a constant."""
    dtype = value.dtype
    if dtype == np.bool_:
        return "true" if value else "false"
    if np.issubdtype(dtype, np.integer) or dtype.name in _PACKED - {"float4_e2m1fn"}:
        return str(int(value))
    if np.issubdtype(dtype, np.complexfloating):
        return f"({scalar(value.real)},{scalar(value.imag)})"
    return _float(value)


def _float(value: Any) -> str:
    """A float as MLIR's printer writes it.

    Six digits if they say it all, else as few as do, and the bits in hex if it is not
    finite.
    """
    wide = float(value)
    if not np.isfinite(wide):
        size = value.dtype.itemsize
        bits = int(np.asarray(value).reshape(1).view(f"u{size}")[0])
        return f"0x{bits:0{2 * size}X}"
    short = f"{wide:e}"
    if value.dtype.type(float(short)) == value:
        return short
    digits = _DIGITS.get(value.dtype.name)
    if digits is None:
        return repr(wide)
    return _shortest(decimal.Decimal(wide), digits)


_DIGITS = {"float64": 17, "float32": 9, "float16": 5, "bfloat16": 4}


def _shortest(value: decimal.Decimal, digits: int) -> str:
    """`digits` significant ones, without zeros at the end, as LLVM's APFloat does."""
    rounded = decimal.Context(prec=digits).plus(value).normalize()
    sign, found, exponent = rounded.as_tuple()
    assert isinstance(exponent, int)
    letters, minus = "".join(map(str, found)), "-" if sign else ""
    point = len(letters) + exponent  # digits before the decimal point
    if exponent >= 0:
        scientific = exponent > 3 or len(letters) + exponent > digits
        if not scientific:
            return f"{minus}{letters}{'0' * exponent}.0"
    elif point > 0:
        return f"{minus}{letters[:point]}.{letters[point:]}"
    elif point > -3:
        return f"{minus}0.{'0' * -point}{letters}"
    return f"{minus}{letters[0]}.{letters[1:] or '0'}E{point - 1:+d}"
