"""XLA's programs as text, from protocol buffers that are written here."""

import pytest

from curta.core.protobuf import bytes_field, number_field, varint
from curta.runtime.pjrt.hlo_text import program_text


def text(field, value):
    return bytes_field(field, value.encode())


def packed(field, numbers):
    return bytes_field(field, b"".join(map(varint, numbers)))


def shape(kind, dims, order):
    return number_field(2, kind) + packed(3, dims) + bytes_field(5, packed(1, order))


def instruction(number, name, operation, kind, operands=(), more=b""):
    head = text(1, name) + text(2, operation) + bytes_field(3, kind)
    ids = number_field(35, number) + b"".join(number_field(36, n) for n in operands)
    return bytes_field(2, head + ids + more)


F32 = shape(11, [2, 3], [1, 0])
PAIR = number_field(2, 13) + bytes_field(4, F32) + bytes_field(4, shape(4, [], []))
ADDED = text(1, "added") + number_field(5, 7) + number_field(6, 2)
ADDED += instruction(1, "x", "parameter", F32)
ADDED += instruction(2, "sum", "add", F32, [1, 1])
MAIN = text(1, "main") + number_field(5, 9) + number_field(6, 12)
MAIN += instruction(10, "y", "parameter", F32, more=number_field(9, 1))
MAIN += instruction(11, "f", "fusion", F32, [10], packed(38, [7]))
MAIN += instruction(
    *(12, "r", "custom-call", PAIR, [10, 11]),
    text(28, "Sharding") + bytes_field(7, text(2, "jit(f)/add")),
)
MODULE = text(1, "jit_f") + text(2, "main") + number_field(6, 9)
MODULE += bytes_field(3, ADDED) + bytes_field(3, MAIN)

WANTED = """\
HloModule jit_f

%added {
  %x = f32[2,3]{1,0} parameter(0)
  ROOT %sum = f32[2,3]{1,0} add(%x, %x)
}

ENTRY %main {
  %y = f32[2,3]{1,0} parameter(1)
  %f = f32[2,3]{1,0} fusion(%y), calls={%added}
  ROOT %r = (f32[2,3]{1,0}, s32[]) custom-call(%y, %f), \
custom_call_target="Sharding", metadata={op_name="jit(f)/add"}
}
"""


def test_a_module():
    assert program_text("hlo", MODULE) == WANTED
    assert program_text("hlo_with_config", bytes_field(1, MODULE)) == WANTED
    assert program_text("hlo_text", WANTED.encode()) == WANTED


def test_other_formats():
    with pytest.raises(ValueError, match="a program of the format 'mlir' is not known"):
        program_text("mlir", b"")
