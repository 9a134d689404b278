"""The text of XLA's programs, from the protocol buffer HloModuleProto.

A line for each instruction: its name, type, operation, operands, the computations it
calls, and the op of the user's program. Plugins give the buffer, and XLA's own printer
is not among their functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Message = dict[int, list[Any]]

# Element types by their number in xla_data.proto.
_TYPES = dict(
    enumerate(
        "pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 tuple opaque c64 bf16 token"
        " c128 f8e5m2 f8e4m3fn s4 u4 f8e4m3b11fnuz f8e5m2fnuz f8e4m3fnuz s2 u2 f8e4m3"
        " f8e3m4 s1 u1 f4e2m1fn f8e8m0fnu".split(),
        1,
    )
)


def program_text(format_: str, program: bytes) -> str:
    """A program as a plugin gives it, after all passes, as text.

    Raises ValueError for a format that is not known.
    """
    if format_ == "hlo_text":
        return program.decode()
    if format_ == "hlo":
        return _module_text(_parsed(program))
    if format_ == "hlo_with_config":
        return _module_text(_parsed(_bytes(_parsed(program), 1)))
    raise ValueError(f"a program of the format {format_!r} is not known as text")


def _module_text(module: Message) -> str:
    parts = [_parsed(data) for data in module.get(3, ())]
    names = {_number(part, 5): _text(part, 1) for part in parts}
    lines = [f"HloModule {_text(module, 1)}"]
    for part in parts:
        lines.append("")
        lines += _computation_lines(part, names, _number(module, 6))
    return "\n".join(lines) + "\n"


def _computation_lines(
    part: Message, names: dict[int, str], entry: int
) -> Iterator[str]:
    result = [_parsed(data) for data in part.get(2, ())]
    known = {_number(i, 35): i for i in result}
    first = "ENTRY " if _number(part, 5) == entry else ""
    yield f"{first}%{_text(part, 1)} {{"
    for number, instruction in known.items():
        root = "ROOT " if number == _number(part, 6) else ""
        yield f"  {root}{_instruction_text(instruction, known, names)}"
    yield "}"


def _instruction_text(
    i: Message, known: dict[int, Message], names: dict[int, str]
) -> str:
    operation = _text(i, 2)
    operands = [f"%{_text(known[n], 1)}" for n in _numbers(i, 36)]
    if operation == "parameter":
        operands = [str(_number(i, 9))]
    said = [f"%{_text(i, 1)} = {_shape(_bytes(i, 3))} {operation}"]
    said[0] += f"({', '.join(operands)})"
    called = [f"%{names[n]}" for n in _numbers(i, 38)]
    if called:
        said.append(f"calls={{{', '.join(called)}}}")
    if target := _text(i, 28):
        said.append(f'custom_call_target="{target}"')
    if op := _text(_parsed(_bytes(i, 7)), 2):
        said.append(f'metadata={{op_name="{op}"}}')
    return ", ".join(said)


def _shape(data: bytes) -> str:
    """`f32[4,2]{1,0}`: element type, dims, and the dims from minor to major."""
    shape = _parsed(data)
    kind = _TYPES.get(_number(shape, 2), "?")
    if kind == "tuple":
        return f"({', '.join(map(_shape, shape.get(4, ())))})"
    dims = ",".join(map(str, _numbers(shape, 3)))
    order = ",".join(map(str, _numbers(_parsed(_bytes(shape, 5)), 1)))
    return f"{kind}[{dims}]" + (f"{{{order}}}" if order else "")


# ---- protocol buffers


def _parsed(data: bytes) -> Message:
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


def _bytes(message: Message, field: int) -> bytes:
    result: bytes = message.get(field, [b""])[-1]
    return result


def _text(message: Message, field: int) -> str:
    return _bytes(message, field).decode()


def _number(message: Message, field: int) -> int:
    result: int = message.get(field, [0])[-1]
    return result


def _numbers(message: Message, field: int) -> list[int]:
    """A repeated number, packed or not."""
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
