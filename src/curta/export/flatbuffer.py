"""FlatBuffers, written: tables, vectors and strings as bytes.

The format is Google's (https://flatbuffers.dev/internals). Whatever a field refers to
comes after it, so that one pass writes all of it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple


class Scalar(NamedTuple):
    """A number: the code of `struct` for its type, and its value."""

    code: str
    value: int


class Vector(NamedTuple):
    """Numbers of one type."""

    code: str
    values: Sequence[int]


class FlatTable(NamedTuple):
    """A table: its fields by number; what is left out has the default of the schema.

    A field is a `Scalar`, a `Vector`, a `FlatTable`, a text, bytes, or a list of these.
    """

    fields: dict[int, Any]


def flatbuffer(root: FlatTable) -> bytearray:
    """The bytes of a buffer with this root."""
    out = bytearray(4)
    _refer(out, 0, _write(out, root))
    return out


def _write(out: bytearray, node: Any) -> int:
    """Append a node and give its offset."""
    if isinstance(node, FlatTable):
        return _table(out, node)
    if isinstance(node, str):
        return _vector(out, node.encode() + b"\0", more=-1)
    if isinstance(node, (bytes, bytearray)):
        return _vector(out, node)
    if isinstance(node, Vector):
        size = struct.calcsize(node.code)
        data = struct.pack(f"<{len(node.values)}{node.code}", *node.values)
        return _vector(out, data, size)
    start = _vector(out, bytes(4 * len(node)), 4)
    for i, child in enumerate(node):
        _refer(out, start + 4 + 4 * i, _write(out, child))
    return start


def _vector(
    out: bytearray, data: bytes | bytearray, size: int = 1, more: int = 0
) -> int:
    """Append how many elements of `size` bytes there are, `more` or less, and these."""
    _align(out, max(4, size))
    start = len(out)
    out += struct.pack("<I", len(data) // size + more) + data
    return start


def _table(out: bytearray, node: FlatTable) -> int:
    """Append the offsets of a table's fields, and the table."""
    count = max(node.fields, default=-1) + 1
    # The table begins behind the offsets, at a multiple of its largest field.
    _align(out, 8, 4 + 2 * count)
    vtable_at = len(out)
    out += bytes(4 + 2 * count)
    start = len(out)
    out += struct.pack("<i", start - vtable_at)
    offsets = [0] * count
    children = []
    for number, field in sorted(node.fields.items()):
        code = field.code if isinstance(field, Scalar) else "I"
        _align(out, struct.calcsize(code))
        offsets[number] = len(out) - start
        if isinstance(field, Scalar):
            out += struct.pack(f"<{code}", field.value)
        else:
            children.append((len(out), field))
            out += bytes(4)
    sizes = 4 + 2 * count, len(out) - start
    struct.pack_into(f"<{2 + count}H", out, vtable_at, *sizes, *offsets)
    for at, child in children:
        _refer(out, at, _write(out, child))
    return start


def _refer(out: bytearray, at: int, target: int) -> None:
    struct.pack_into("<I", out, at, target - at)


def _align(out: bytearray, size: int, ahead: int = 0) -> None:
    """Let what comes `ahead` bytes later be at a multiple of `size`."""
    out += bytes(-(len(out) + ahead) % size)
