"""What the names in calls of MPI stand for in this process: addresses, handles, ranks.

The loader asks for them (`compiler/mpi_loading.py`); calls themselves are data
(`mpi_calls.py`).
"""

from __future__ import annotations

import ctypes
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta._base.once import once
from curta.hosts.collectives import CollectiveCall
from curta.hosts.mpi import MPI, MPIEngine, library
from curta.hosts.mpi_calls import (
    REQUEST,
    STATUS,
    Argument,
    Communicator,
    MPICall,
    Named,
    Neighbor,
    Slot,
)


@dataclass(frozen=True)
class Route:
    """Where this host sends to and receives from in a collective.

    Fields:
        sends: False if the host has nobody to send to.
        keeps: True if the result is the operand, as the host sends to itself.
        receives: False if nothing comes, so that the result is zeros.
    """

    sends: bool = True
    keeps: bool = False
    receives: bool = True


class Symbols:
    """The words of MPI's calls on the host of an engine."""

    def __init__(self, engine: MPIEngine) -> None:
        self.engine = engine

    def function(self, name: str) -> int:
        """The address of a function of MPI."""
        pointer = ctypes.cast(getattr(library(), name), ctypes.c_void_p)
        return pointer.value or 0

    def described(self, call: MPICall, nbytes: int) -> tuple[CollectiveCall, int]:
        """The collective as messages show it, and the bytes that leave the host."""
        described, moved = self.engine.described(
            call.collective, call.group, call.shape, call.dtype, nbytes, call.detail
        )
        return described, moved if self.route(call).sends else 0

    def route(self, call: MPICall) -> Route:
        """Where the host sends to and receives from."""
        if call.pairs is None:
            return Route()
        me = call.group.index(self.engine.index)
        to = [b for a, b in call.pairs if a == me]
        source = [a for a, b in call.pairs if b == me]
        return Route(bool(to) and to[0] != me, source == [me], bool(source))

    def word(self, argument: Argument, request: int) -> int:
        """An argument as a word of the table; 0 for arrays.

        `request` is the address at which MPI keeps what it has begun.
        """
        if isinstance(argument, int):
            return argument & (1 << 64) - 1
        if isinstance(argument, Named):
            return _handle(getattr(MPI, argument.name))
        if isinstance(argument, Slot):
            return _handle(_derived(argument))
        if isinstance(argument, Communicator):
            members = argument.group.members(self.engine.index)
            return _handle(self.engine.comm(members))
        if isinstance(argument, Neighbor):
            return self._rank(argument) & (1 << 64) - 1
        if argument == STATUS:
            return _status_ignored()
        return request if argument == REQUEST else 0

    def _rank(self, neighbor: Neighbor) -> int:
        me = neighbor.group.index(self.engine.index)
        found = [
            a if neighbor.receives else b
            for a, b in neighbor.pairs
            if me == (b if neighbor.receives else a)
        ]
        return found[0] if found and found != [me] else int(MPI.PROC_NULL)


def error_text(status: int) -> str:
    """What MPI says of an error."""
    return f"MPI: {MPI.Get_error_string(status)}"


def _handle(x: Any) -> int:
    return int(MPI._handleof(x)) & (1 << 64) - 1


@once
def _derived(slot: Slot) -> Any:
    row = MPI.BYTE.Create_contiguous(slot.inner)
    strided = row.Create_vector(slot.outer, 1, slot.parts)
    result = strided.Create_resized(0, slot.inner)
    return result.Commit()


def _status_ignored() -> int:
    """Memory for the status of a receive, which is ignored."""
    return ctypes.addressof(_status())


@once
def _status() -> Any:
    return ctypes.create_string_buffer(1024)
