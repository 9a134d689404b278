"""How JavaScript holds the elements of each dtype."""

from __future__ import annotations

import numpy as np

from curta.aot.interface import LeafField

_NAMES = {
    "b": "Uint8Array", "f4": "Float32Array", "f8": "Float64Array",
    "i1": "Int8Array", "i2": "Int16Array", "i4": "Int32Array", "i8": "BigInt64Array",
    "u1": "Uint8Array", "u2": "Uint16Array", "u4": "Uint32Array",
    "u8": "BigUint64Array", "c8": "Float32Array", "c16": "Float64Array",
}  # fmt: skip
_BITS = {1: "Uint8Array", 2: "Uint16Array"}  # floats without a typed array


def array_type(leaf: LeafField) -> str:
    """Return the typed array of a leaf: `Float32Array`."""
    dtype: np.dtype[np.generic] = leaf.dtype
    if dtype.kind == "b":
        return _NAMES["b"]
    known = _NAMES.get(f"{dtype.kind}{dtype.itemsize}")
    return known or _BITS[dtype.itemsize]


def length(leaf: LeafField) -> int:
    """Return the number of elements of the typed array: two for a complex number."""
    return leaf.size * (2 if leaf.dtype.kind == "c" else 1)


def is_number(leaf: LeafField) -> bool:
    """Whether JavaScript holds the leaf as a number, a bigint or a boolean."""
    return leaf.is_value and leaf.dtype.kind != "c"


def number_type(leaf: LeafField) -> str:
    """Return the type of a number: `number`, `bigint` or `boolean`."""
    if leaf.dtype.kind == "b":
        return "boolean"
    return "bigint" if array_type(leaf).startswith("Big") else "number"


def described(leaf: LeafField) -> str:
    """Return the dtype and the shape of a leaf, as `float32[8,784]`."""
    return str(leaf.aval.str_short())
