"""Attributes as MLIR writes them: strings, arrays of integers, enums, dictionaries."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np


class RawAttribute(str):
    """An attribute that is written already."""

    __slots__ = ()


def text(value: Any) -> str:
    """An attribute: a bool, an int (of 64 bits), a string, ints, or `RawAttribute`."""
    if isinstance(value, RawAttribute):
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


def ints(values: Sequence[Any]) -> RawAttribute:
    """`[1, 2]`."""
    return RawAttribute(f"[{commas(values)}]")


def layouts(orders: Iterable[Sequence[int]]) -> RawAttribute:
    """`[dense<[1, 0]> : tensor<2xindex>]`, of the dims of arrays, major to minor."""
    return RawAttribute(f"[{', '.join(map(_layout, orders))}]")


def _layout(order: Sequence[int]) -> str:
    rank, minor_first = len(order), [*reversed(order)]
    shown = "" if not rank else "0" if rank == 1 else str(minor_first)
    return f"dense<{shown}> : tensor<{rank}xindex>"


def enum(kind: str, value: str) -> RawAttribute:
    """`#stablehlo<kind VALUE>`."""
    return RawAttribute(f"#stablehlo<{kind} {value}>")


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
