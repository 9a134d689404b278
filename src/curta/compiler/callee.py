"""The interface of a native function that programs call.

A native function is `i64 f(ptr table)`. The table holds the addresses of its results
and its arguments, then its own constant words. It returns DONE, or STOPPED if the call
was canceled or a call of Python failed.
"""

from __future__ import annotations

import math
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.core.jaxpr import Eqn, Literal
from curta.dtypes import physical_dtype

UNKNOWN = 1 << 40  # the cost of a loop whose trip count is unknown

DONE, STOPPED = 0, 1

# Offsets in a cancellation token: whether the call is to stop, the address of `poll`.
FLAG, POLL = 0, 8


@dataclass(frozen=True, eq=False, kw_only=True)
class Callee:
    """The interface of a native function for its callers. It holds no address.

    Fields:
        signature: dtype and shape of each result, then of each argument.
        results: the number of results.
        cost: estimated simple scalar operations of a call; UNKNOWN or more if a trip
            count is unknown.
        arena_word: index, among the constant words, of the address of the arena.
        arena_bytes: size of the arena that the caller provides; 0 for none.
        temporaries: bytes of memory that a call takes, including the stack.
        in_place: results that share the buffer of an argument. The caller passes one
            address for both.
        runs_python: True if Python may run during the call, so that an exception may
            be pending when it returns STOPPED.
        is_host_call: True if the function is Python itself. It returns nothing, and
            stores DONE as the last constant word when it succeeds.
        cancellable: True if it polls the cancellation token at `token_word`. Results
            of a cancelled call are undefined.
        eqn: the equation that it runs, if it runs a single one.
    """

    signature: tuple[tuple[Any, tuple[Any, ...]], ...]
    results: int
    cost: int
    arena_word: int = 0
    arena_bytes: int = 0
    temporaries: int = 0
    in_place: frozenset[int] = frozenset()
    runs_python: bool = False
    is_host_call: bool = False
    cancellable: bool = False
    eqn: Eqn | None = None

    @property
    def token_word(self) -> int:
        """Index of the address of the cancellation token among the constant words."""
        return self.arena_word + 1

    def array_bytes(self, array: int) -> int:
        """Return the size in bytes of a result or, counting on, of an argument."""
        dtype, shape = self.signature[array]
        return int(dtype.itemsize) * math.prod(shape)


_HOST_CALL_COST = 1 << 12


@dataclass(frozen=True, eq=False, kw_only=True)
class HostCall(Callee):
    """An equation that runs in Python, by the `eval` rule of its op.

    The arguments are the operands that are not literals. Without an equation it gives
    Python the chance to run signal handlers: programs that call Python run in the
    caller's thread, where nothing else answers signals.
    """

    cost: int = _HOST_CALL_COST
    runs_python: bool = True
    is_host_call: bool = True


SIGNALS: HostCall = HostCall(signature=(), results=0)


def host_call(eqn: Eqn) -> HostCall:
    """Return the callee that runs an equation in Python."""
    operands = [v.aval for v in eqn.invars if not isinstance(v, Literal)]
    arrays = [*(v.aval for v in eqn.outvars), *operands]
    signature = tuple((physical_dtype(a.dtype), a.shape) for a in arrays)
    return HostCall(signature=signature, results=len(eqn.outvars), eqn=eqn)
