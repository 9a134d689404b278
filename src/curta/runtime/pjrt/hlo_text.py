"""The text of XLA's programs, from the protocol buffer HloModuleProto.

A line for each instruction: its name, type, operation, operands, the computations it
calls, and the op of the user's program. Plugins give the buffer, and XLA's own printer
is not among their functions.
"""

from __future__ import annotations

from collections.abc import Iterator

from curta.core.protobuf import (
    Message,
    bytes_of,
    number_of,
    numbers_of,
    parsed,
    text_of,
)

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
        return _module_text(parsed(program))
    if format_ == "hlo_with_config":
        return _module_text(parsed(bytes_of(parsed(program), 1)))
    raise ValueError(f"a program of the format {format_!r} is not known as text")


def _module_text(module: Message) -> str:
    parts = [parsed(data) for data in module.get(3, ())]
    names = {number_of(part, 5): text_of(part, 1) for part in parts}
    lines = [f"HloModule {text_of(module, 1)}"]
    for part in parts:
        lines.append("")
        lines += _computation_lines(part, names, number_of(module, 6))
    return "\n".join(lines) + "\n"


def _computation_lines(
    part: Message, names: dict[int, str], entry: int
) -> Iterator[str]:
    result = [parsed(data) for data in part.get(2, ())]
    known = {number_of(i, 35): i for i in result}
    first = "ENTRY " if number_of(part, 5) == entry else ""
    yield f"{first}%{text_of(part, 1)} {{"
    for number, instruction in known.items():
        root = "ROOT " if number == number_of(part, 6) else ""
        yield f"  {root}{_instruction_text(instruction, known, names)}"
    yield "}"


def _instruction_text(
    i: Message, known: dict[int, Message], names: dict[int, str]
) -> str:
    operation = text_of(i, 2)
    operands = [f"%{text_of(known[n], 1)}" for n in numbers_of(i, 36)]
    if operation == "parameter":
        operands = [str(number_of(i, 9))]
    said = [f"%{text_of(i, 1)} = {_shape(bytes_of(i, 3))} {operation}"]
    said[0] += f"({', '.join(operands)})"
    called = [f"%{names[n]}" for n in numbers_of(i, 38)]
    if called:
        said.append(f"calls={{{', '.join(called)}}}")
    if target := text_of(i, 28):
        said.append(f'custom_call_target="{target}"')
    if op := text_of(parsed(bytes_of(i, 7)), 2):
        said.append(f'metadata={{op_name="{op}"}}')
    return ", ".join(said)


def _shape(data: bytes) -> str:
    """`f32[4,2]{1,0}`: element type, dims, and the dims from minor to major."""
    shape = parsed(data)
    kind = _TYPES.get(number_of(shape, 2), "?")
    if kind == "tuple":
        return f"({', '.join(map(_shape, shape.get(4, ())))})"
    dims = ",".join(map(str, numbers_of(shape, 3)))
    order = ",".join(map(str, numbers_of(parsed(bytes_of(shape, 5)), 1)))
    return f"{kind}[{dims}]" + (f"{{{order}}}" if order else "")
