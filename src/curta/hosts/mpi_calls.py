"""Collectives as calls of MPI by address, for compiled code.

Parts of an array that do not lie one after the other are what MPI's derived types are
for: nothing is packed or moved before or after.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._base.once import once
from curta.config import config
from curta.hosts.collectives import Call
from curta.hosts.group import HostGroup
from curta.hosts.mpi import MPI, MPIEngine, operation

_LARGEST = 2**31 - 1  # what a count may be


@dataclass(frozen=True)
class Handle:
    """A communicator, type or operation, as C passes it: a pointer or an int."""

    value: int


@dataclass(frozen=True)
class Pointer:
    """An address."""

    value: int


OPERAND, RESULT = "operand", "result"
Argument = str | int | Handle | Pointer


@dataclass(frozen=True)
class MPICall:
    """A function of MPI with its arguments, and what is said and counted of the call.

    `in_place` says that the result begins as the operand, else `cleared` that it begins
    as zeros.
    """

    function: str
    arguments: tuple[Argument, ...]
    call: Call
    collective: str
    nbytes: int
    in_place: bool = False
    cleared: bool = False

    @property
    def address(self) -> int:
        """Where the function is."""
        return address_of(self.function)

    def begun(self, request: int) -> MPICall | None:
        """The call that returns at once; its request is at an address.

        None if the library, before MPI 4, has no such function.
        """
        name = "MPI_I" + self.function.removeprefix("MPI_").lower()
        if not hasattr(_library(), name):
            return None
        ignored = Pointer(status_ignored())
        rest = tuple(a for a in self.arguments if a != ignored)
        return self.looked_after(name, *rest, Pointer(request))

    def looked_after(self, function: str, *arguments: Argument) -> MPICall:
        """A function for what was begun."""
        return dataclasses.replace(self, function=function, arguments=arguments)


def address_of(function: str) -> int:
    """Where a function of MPI is."""
    pointer = ctypes.cast(getattr(_library(), function), ctypes.c_void_p)
    return pointer.value or 0


@once
def _library() -> ctypes.CDLL:
    """What mpi4py has loaded: its module finds the names of the library it is for."""
    return ctypes.CDLL(MPI.__file__)


def handle_bytes() -> int:
    """The size of a handle: 8 if it is a pointer."""
    return int(MPI._sizeof(MPI.COMM_WORLD))


def _handle(x: Any) -> Handle:
    return Handle(int(MPI._handleof(x)) & (1 << 64) - 1)


class Calls:
    """Makes the calls of an engine for operands of a shape and dtype.

    Each method gives None where Python has to do it: where MPI has no type or operation
    with the right values, or counts with too few bits.
    """

    def __init__(
        self, engine: MPIEngine, group: HostGroup, shape: tuple[int, ...], dtype: Any
    ) -> None:
        self._engine = engine
        self._group = group
        self._shape = shape
        self._dtype = np.dtype(dtype)
        self._size = math.prod(shape)
        self._members = group.members(engine.index)
        self._comm = engine.comm(self._members)

    def _made(
        self,
        collective: str,
        function: str,
        detail: str,
        *arguments: Argument,
        **options: Any,
    ) -> MPICall:
        engine, nbytes = self._engine, self._size * self._dtype.itemsize
        call, moved = engine.described(
            collective, self._group, self._shape, self._dtype.name, nbytes, detail
        )
        sends = options.pop("sends", True)
        return MPICall(
            function, arguments, call, collective, moved if sends else 0, **options
        )

    def _operation(self, kind: str) -> tuple[Handle, Handle] | None:
        if config.curta_hosts_deterministic and self._dtype.kind in "fc":
            return None
        names = operation(kind, self._dtype)
        if names is None or self._size > _LARGEST:
            return None
        type_, op = (_handle(getattr(MPI, name)) for name in names)
        return type_, op

    def all_reduce(self, kind: str) -> MPICall | None:
        """`MPI_Allreduce`."""
        result = self._operation(kind)
        if result is None:
            return None
        type_, op = result
        return self._made(
            *("all_reduce", "MPI_Allreduce", kind, OPERAND, RESULT),
            *(self._size, type_, op, _handle(self._comm)),
        )

    def reduce_scatter(self, kind: str, dim: int) -> MPICall | None:
        """`MPI_Reduce_scatter_block`, where parts lie one after the other."""
        result = self._operation(kind)
        if result is None or math.prod(self._shape[:dim]) != 1:
            return None
        type_, op = result
        each = self._size // self._group.size
        return self._made(
            *("reduce_scatter", "MPI_Reduce_scatter_block", f"{kind}, dim {dim}"),
            *(OPERAND, RESULT, each, type_, op, _handle(self._comm)),
        )

    def all_gather(self, dim: int) -> MPICall | None:
        """`MPI_Allgather`; each part goes to its rows of the whole."""
        n = self._group.size
        part = self._slot(self._shape, dim, 1)
        slot = self._slot(self._shape, dim, n)
        if part is None or slot is None:
            return None
        return self._made(
            *("all_gather", "MPI_Allgather", f"dim {dim}", OPERAND, 1, part),
            *(RESULT, 1, slot, _handle(self._comm)),
        )

    def all_to_all(self, split: int, join: int) -> MPICall | None:
        """`MPI_Alltoall`; parts are sent from and go to their offsets."""
        n = self._group.size
        shape = list(self._shape)
        shape[split] //= n
        sent, slot = (self._slot(tuple(shape), d, n) for d in (split, join))
        if sent is None or slot is None:
            return None
        return self._made(
            *("all_to_all", "MPI_Alltoall", f"dims {split} to {join}", OPERAND, 1),
            *(sent, RESULT, 1, slot, _handle(self._comm)),
        )

    def permute(self, pairs: tuple[tuple[int, int], ...]) -> MPICall | None:
        """`MPI_Sendrecv`, of no array where nothing is sent or received."""
        part = self._slot((1, *self._shape), 0, 1)
        if part is None or not _is_permutation(pairs):
            return None
        me = self._members.index(self._engine.index)
        to = [b for a, b in pairs if a == me]
        source = next((a for a, b in pairs if b == me), None)
        nobody = int(MPI.PROC_NULL)
        itself = source == me
        target = nobody if itself or not to else to[0]
        sender = nobody if itself or source is None else source
        return self._made(
            *("permute", "MPI_Sendrecv", str(pairs), OPERAND, 1, part, target, 0),
            *(RESULT, 1, part, sender, 0, _handle(self._comm)),
            Pointer(status_ignored()),
            sends=target != nobody,
            in_place=itself,
            cleared=source is None,
        )

    def _slot(self, part: tuple[int, ...], dim: int, parts: int) -> Handle | None:
        """The type of a part in an array that has so many along a dim.

        The next part begins where this one would end along that dim.
        """
        outer = math.prod(part[:dim])
        inner = math.prod(part[dim:]) * self._dtype.itemsize
        if max(outer, inner, inner * parts) > _LARGEST or not outer * inner:
            return None
        return _handle(_slot(outer, inner, parts))


def _is_permutation(pairs: tuple[tuple[int, int], ...]) -> bool:
    """Whether each host sends to one at most: then all hosts make the same call."""
    return len({a for a, _ in pairs}) == len(pairs) == len({b for _, b in pairs})


@once
def _slot(outer: int, inner: int, parts: int) -> Any:
    row = MPI.BYTE.Create_contiguous(inner)
    strided = row.Create_vector(outer, 1, parts)
    result = strided.Create_resized(0, inner)
    return result.Commit()


@once
def status_ignored() -> int:
    """Memory for the status of a receive, which is ignored."""
    return ctypes.addressof(_status())


@once
def _status() -> Any:
    return ctypes.create_string_buffer(1024)
