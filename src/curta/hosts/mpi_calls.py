"""Collectives as calls of MPI by symbol, for compiled code.

A call names MPI's function, its types, operations and communicators; nothing of MPI is
loaded to make one, and it is equal on all hosts. `mpi_symbols.py` finds what the names
stand for when a program is loaded. Parts of an array that do not lie one after the
other are described by MPI's derived types: nothing is packed or moved before or after.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.hosts.group import HostGroup
from curta.hosts.transport import Transport

_LARGEST = 2**31 - 1  # what a count may be

# Operations of MPI that give what NumPy gives, whatever the values. MPI_MAX and MPI_MIN
# say nothing of NaNs, complex numbers have no order in MPI, and floats of 8 and 16 bits
# would be rounded at every step. Sums of integers of 8 and 16 bits saturate in Open
# MPI, where NumPy's wrap around.
_INTEGERS = {"sum": "SUM", "prod": "PROD", "max": "MAX", "min": "MIN"}
_FLOATS = {"sum": "SUM", "prod": "PROD"}
_OPERATIONS = {
    "b": {"sum": "MAX", "prod": "MIN", "max": "MAX", "min": "MIN"},  # words of 0 and 1
    "i": {**_INTEGERS, "and": "BAND", "or": "BOR"},
    "u": {**_INTEGERS, "and": "BAND", "or": "BOR"},
    "f": _FLOATS,
    "c": _FLOATS,
}
_OPERATIONS["b"] |= {"and": "MIN", "or": "MAX"}
_TYPES = {
    **{"bool": "UINT8_T", "float32": "FLOAT", "float64": "DOUBLE"},
    **{"complex64": "C_FLOAT_COMPLEX", "complex128": "C_DOUBLE_COMPLEX"},
    **{
        f"{u}int{n}": f"{u.upper()}INT{n}_T" for u in ("", "u") for n in (8, 16, 32, 64)
    },
}


def operation(kind: str, dtype: np.dtype[Any], exact: bool) -> tuple[str, str] | None:
    """The names of MPI's type and operation for a fold; None if it has none.

    With `exact`, sums of floats are not left to MPI, which takes them in any order.
    """
    if exact and dtype.kind in "fc":
        return None
    if dtype.kind in "iu" and dtype.itemsize < 4 and kind in ("sum", "prod"):
        return None
    name = _TYPES.get(dtype.name)
    result = None if name is None else _OPERATIONS[dtype.kind].get(kind)
    return None if name is None or result is None else (name, result)


@dataclass(frozen=True)
class Named:
    """A handle with a name in MPI: a type of elements, or an operation."""

    name: str


@dataclass(frozen=True)
class Slot:
    """The derived type of one of `parts` parts of an array along a dim.

    `outer` rows of `inner` bytes lie `parts` rows apart.
    """

    outer: int
    inner: int
    parts: int


@dataclass(frozen=True)
class Communicator:
    """The hosts of the group of this host."""

    group: HostGroup


@dataclass(frozen=True)
class Neighbor:
    """The rank that this host sends to, or receives from if it `receives`."""

    group: HostGroup
    pairs: tuple[tuple[int, int], ...]
    receives: bool


# Arguments by their names: arrays, then pointers.
OPERAND, RESULT, STATUS, REQUEST = "operand", "result", "status", "request"
BEGUN, FLAG = "begun", "flag"  # of MPI_Wait and MPI_Test
Handle = Named | Slot | Communicator
Argument = str | int | Handle | Neighbor


@dataclass(frozen=True)
class MPICall:
    """A function of MPI with its arguments, and what it does.

    Fields:
        function: the name of MPI's function.
        arguments: its arguments in order.
        collective, detail: the collective's name and parameters, for messages.
        group: the hosts that meet.
        shape, dtype: of the operand.
        pairs: who sends to whom, in a permutation.
    """

    function: str
    arguments: tuple[Argument, ...]
    collective: str
    detail: str
    group: HostGroup
    shape: tuple[int, ...]
    dtype: str
    pairs: tuple[tuple[int, int], ...] | None = None

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(_said, self.arguments))})"

    def begun(self, transport: Transport) -> MPICall | None:
        """The call that returns at once, with a request as its last argument.

        None if the library, before MPI 4, has no such function.
        """
        name = nonblocking(self.function)
        if name not in transport.nonblocking:
            return None
        rest = (a for a in self.arguments if a != STATUS)
        return self.looked_after(name, *rest, REQUEST)

    def looked_after(self, function: str, *arguments: Argument) -> MPICall:
        """A function for what was begun."""
        return dataclasses.replace(self, function=function, arguments=arguments)


def nonblocking(function: str) -> str:
    """The name of the function that begins a collective: `MPI_Iallreduce`."""
    return "MPI_I" + function.removeprefix("MPI_").lower()


FUNCTIONS = (
    "MPI_Allreduce",
    "MPI_Reduce_scatter_block",
    "MPI_Allgather",
    "MPI_Alltoall",
    "MPI_Sendrecv",
)


def _said(argument: Argument) -> str:
    if isinstance(argument, Named):
        return argument.name
    if isinstance(argument, Slot):
        return f"{argument.outer}x{argument.inner} bytes of {argument.parts} parts"
    if isinstance(argument, Communicator):
        return f"hosts along {' '.join(map(str, argument.group.axes))}"
    if isinstance(argument, Neighbor):
        return "source" if argument.receives else "target"
    return str(argument)


class Calls:
    """Makes the calls for operands of a shape and dtype.

    Each method gives None where Python has to do it: where MPI has no type or operation
    with the right values, or counts with too few bits. All hosts get the same.
    """

    def __init__(
        self, transport: Transport, group: HostGroup, shape: tuple[int, ...], dtype: Any
    ) -> None:
        self._transport = transport
        self._group = group
        self._shape = shape
        self._dtype = np.dtype(dtype)
        self._size = math.prod(shape)
        self._comm = Communicator(group)

    def _made(
        self, collective: str, function: str, detail: str, *arguments: Argument
    ) -> MPICall:
        return MPICall(
            *(function, arguments, collective, detail),
            *(self._group, self._shape, self._dtype.name),
        )

    def _operation(self, kind: str) -> tuple[Named, Named] | None:
        names = operation(kind, self._dtype, self._transport.exact)
        if names is None or self._size > _LARGEST:
            return None
        type_, op = names
        return Named(type_), Named(op)

    def all_reduce(self, kind: str) -> MPICall | None:
        """`MPI_Allreduce`."""
        result = self._operation(kind)
        if result is None:
            return None
        return self._made(
            *("all_reduce", "MPI_Allreduce", kind, OPERAND, RESULT),
            *(self._size, *result, self._comm),
        )

    def reduce_scatter(self, kind: str, dim: int) -> MPICall | None:
        """`MPI_Reduce_scatter_block`, where parts lie one after the other."""
        result = self._operation(kind)
        if result is None or math.prod(self._shape[:dim]) != 1:
            return None
        each = self._size // self._group.size
        return self._made(
            *("reduce_scatter", "MPI_Reduce_scatter_block", f"{kind}, dim {dim}"),
            *(OPERAND, RESULT, each, *result, self._comm),
        )

    def all_gather(self, dim: int) -> MPICall | None:
        """`MPI_Allgather`; each part goes to its rows of the whole."""
        part = self._slot(self._shape, dim, 1)
        slot = self._slot(self._shape, dim, self._group.size)
        if part is None or slot is None:
            return None
        return self._made(
            *("all_gather", "MPI_Allgather", f"dim {dim}", OPERAND, 1, part),
            *(RESULT, 1, slot, self._comm),
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
            *(sent, RESULT, 1, slot, self._comm),
        )

    def permute(self, pairs: tuple[tuple[int, int], ...]) -> MPICall | None:
        """`MPI_Sendrecv`, of no array where nothing is sent or received."""
        part = self._slot((1, *self._shape), 0, 1)
        if part is None or not _is_permutation(pairs):
            return None
        to, source = (Neighbor(self._group, pairs, back) for back in (False, True))
        call = self._made(
            *("permute", "MPI_Sendrecv", str(pairs), OPERAND, 1, part, to, 0),
            *(RESULT, 1, part, source, 0, self._comm, STATUS),
        )
        return dataclasses.replace(call, pairs=pairs)

    def _slot(self, part: tuple[int, ...], dim: int, parts: int) -> Slot | None:
        """The type of a part in an array that has so many along a dim.

        The next part begins where this one would end along that dim.
        """
        outer = math.prod(part[:dim])
        inner = math.prod(part[dim:]) * self._dtype.itemsize
        if max(outer, inner, inner * parts) > _LARGEST or not outer * inner:
            return None
        return Slot(outer, inner, parts)


def _is_permutation(pairs: tuple[tuple[int, int], ...]) -> bool:
    """Whether each host sends to one at most: then all hosts make the same call."""
    return len({a for a, _ in pairs}) == len(pairs) == len({b for _, b in pairs})
