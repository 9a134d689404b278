"""CompileOptionsProto, byte by byte."""

import pytest

from curta.core.protobuf import varint
from curta.runtime.pjrt.options import compile_options


def fields(data):
    """The contents of a protocol buffer: pairs of a field's number and its value."""

    def number():
        nonlocal at
        shift = value = 0
        while True:
            byte, at = data[at], at + 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    at, found = 0, []
    while at < len(data):
        key = number()
        if key & 7 == 0:
            found.append((key >> 3, number()))
            continue
        size = {1: 8, 5: 4}.get(key & 7)
        if size is None:
            size = number()
        found.append((key >> 3, data[at : at + size]))
        at += size
    return found


def test_numbers():
    assert [varint(n).hex() for n in (0, 1, 127, 128, 300)] == [
        *("00", "01", "7f", "8001", "ac02")
    ]
    assert varint(-1).hex() == "ffffffffffffffffff01"


def test_replicas_partitions_and_devices():
    data = compile_options(2, 3, devices=[0, 1, 2, 3, 4, 300])
    ((number, build),) = fields(data)
    assert number == 3
    found = dict(fields(build))
    assert found[1] == 2**64 - 1
    assert (found[4], found[5], found[6], found[19]) == (2, 3, 1, 1)
    (replicas, partitions, *columns) = fields(found[9])
    assert (replicas, partitions) == ((1, 2), (2, 3))
    rows = [fields(column)[0][1] for _, column in columns]
    assert rows == [b"\0\3", b"\1\4", b"\2\xac\2"]


def test_a_wrong_number_of_devices():
    with pytest.raises(ValueError, match="3 devices for 2 replicas of 2 partitions"):
        compile_options(2, 2, devices=[0, 1, 2])


def test_flags_have_the_type_of_their_value():
    given = {
        "xla_a": True,
        "xla_b": 7,
        "xla_c": 0.5,
        "xla_d": "x",
        "optimization_level": 2,
        "memory_fitting_effort": 0.25,
    }
    build, *flags = fields(compile_options(overrides=given))
    entries = [dict(fields(entry)) for _, entry in flags]
    named = {entry[1].decode(): fields(entry[2]) for entry in entries}
    assert named == {
        "xla_a": [(2, 1)],
        "xla_b": [(3, 7)],
        "xla_c": [(4, bytes.fromhex("000000000000e03f"))],
        "xla_d": [(1, b"x")],
    }
    efforts = dict(fields(build[1]))
    assert efforts[24] == 2 and efforts[21] == bytes.fromhex("0000803e")
