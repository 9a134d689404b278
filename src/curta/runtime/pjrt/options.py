"""Options of compilation, as the protocol buffer CompileOptionsProto of XLA."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from curta.core.protobuf import bytes_field, number_field, varint

Override = str | bool | int | float


def compile_options(
    replicas: int = 1,
    partitions: int = 1,
    devices: Sequence[int] | None = None,
    shardy: bool = True,
    overrides: Mapping[str, Override] | None = None,
) -> bytes:
    """CompileOptionsProto.

    Args:
      replicas: how many devices run the same program on data of their own.
      partitions: how many devices share in the program, as its shardings say.
      devices: the ids of replicas × partitions devices, row by row; None for those that
        the plugin chooses.
      shardy: whether shardings are those of the dialect sdy.
      overrides: flags of XLA by name (without dashes), and what JAX takes beside them
        as `compiler_options`.

    >>> compile_options(shardy=False).hex()
    '1a1108ffffffffffffffffff01200128013001'
    """
    build = number_field(1, -1)  # the device: one of the assignment
    build += number_field(4, replicas) + number_field(5, partitions)
    build += number_field(6, 1)  # partitioned as SPMD
    if devices is not None:
        build += bytes_field(9, _assignment(devices, replicas, partitions))
    if shardy:
        build += number_field(19, 1)
    rest = dict(overrides or {})
    for name, field in _EFFORTS.items():
        if name in rest:
            build += _effort(field, rest.pop(name))
    flags = b"".join(bytes_field(7, _flag(k, v)) for k, v in rest.items())
    return bytes_field(3, build) + flags


# Options that are fields of ExecutableBuildOptionsProto, not flags.
_EFFORTS = {
    "exec_time_optimization_effort": 20,
    "memory_fitting_effort": 21,
    "optimization_level": 24,
    "memory_fitting_level": 25,
}


def _effort(field: int, value: Override) -> bytes:
    if field in (20, 21):  # of type float
        return varint(field << 3 | 5) + struct.pack("<f", float(value))
    return number_field(field, int(value))


def _assignment(devices: Sequence[int], replicas: int, partitions: int) -> bytes:
    """DeviceAssignmentProto: for each partition the devices of its replicas."""
    if len(devices) != replicas * partitions:
        raise ValueError(
            f"{len(devices)} devices for {replicas} replicas of {partitions} partitions"
        )
    table = np.asarray(devices).reshape(replicas, partitions)
    columns = (b"".join(varint(int(d)) for d in column) for column in table.T)
    return (
        number_field(1, replicas)
        + number_field(2, partitions)
        + b"".join(bytes_field(3, bytes_field(1, column)) for column in columns)
    )


def _flag(name: str, value: Override) -> bytes:
    """An entry of map<string, OptionOverrideProto>."""
    if isinstance(value, bool):
        override = number_field(2, value)
    elif isinstance(value, int):
        override = number_field(3, value)
    elif isinstance(value, float):
        override = varint(4 << 3 | 1) + struct.pack("<d", value)
    else:
        override = bytes_field(1, value.encode())
    return bytes_field(1, name.encode()) + bytes_field(2, override)
