"""Protocol buffers, written and read without their schemas.

A message is a sequence of fields (https://protobuf.dev/programming-guides/encoding): a
number and a varint, or a number, a length and bytes.
"""

from __future__ import annotations

from typing import Any

Message = dict[int, list[Any]]

# ---- written


def varint(number: int) -> bytes:
    """A number in groups of seven bits, the lowest first.

    >>> varint(300).hex()
    'ac02'
    """
    number %= 2**64
    groups = bytearray()
    while number > 0x7F:
        groups.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*groups, number])


def number_field(field: int, number: int) -> bytes:
    """A field that is a number or a boolean."""
    return varint(field << 3) + varint(number)


def bytes_field(field: int, data: bytes) -> bytes:
    """A field that is a text or a message."""
    return varint(field << 3 | 2) + varint(len(data)) + data


# ---- read


def parsed(data: bytes) -> Message:
    """The fields of a message by number, each with its values in order."""
    result: Message = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        value: Any
        if kind == 0:
            value, at = _varint(data, at)
        else:
            size, at = _varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = data[at : at + size], at + size
        result.setdefault(key >> 3, []).append(value)
    return result


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number, at


def bytes_of(message: Message, field: int) -> bytes:
    """A field that is a text or a message; empty if it is not there."""
    result: bytes = message.get(field, [b""])[-1]
    return result


def text_of(message: Message, field: int) -> str:
    """A text; empty if it is not there."""
    return bytes_of(message, field).decode()


def number_of(message: Message, field: int) -> int:
    """A number; 0 if it is not there."""
    result: int = message.get(field, [0])[-1]
    return result


def numbers_of(message: Message, field: int) -> list[int]:
    """The values of a repeated number, packed or not."""
    result: list[int] = []
    for value in message.get(field, ()):
        if isinstance(value, int):
            result.append(value)
            continue
        at = 0
        while at < len(value):
            number, at = _varint(value, at)
            result.append(number)
    return result
