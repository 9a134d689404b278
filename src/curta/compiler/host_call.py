"""Ops that run in Python, called by native code: callbacks, and what has no code.

A host call has the address of a function like any native program has, so that loops and
branches around it are native code. An exception cannot pass through native code: it
waits in its thread until the native functions have returned, each at once, and is then
raised (`raise_pending`).
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from curta.compiler.native import NativeProgram
from curta.core.avals import ShapedArray
from curta.core.evaluate import as_numpy, evaluate_op
from curta.core.jaxpr import Eqn, Literal
from curta.dtypes import physical_dtype

NDArray = np.ndarray[Any, Any]
_COST = 1 << 12  # in simple operations, as costs of programs are


class _Pending(threading.local):
    """The exception of the thread's host call that failed."""

    error: BaseException | None = None


_pending = _Pending()


def host_call(eqn: Eqn) -> NativeProgram:
    """A program that runs an eqn by the `eval` rule of its op.

    Its arguments are the operands that are no literals.
    """
    operands = [v.aval for v in eqn.invars if not isinstance(v, Literal)]
    results = [v.aval for v in eqn.outvars]
    function = _HOST_FUNCTION(_function(eqn, results, operands))
    return NativeProgram(
        code=function,
        address=ctypes.cast(function, ctypes.c_void_p).value or 0,
        signature=tuple((physical_dtype(a.dtype), a.shape) for a in results + operands),
        results=len(results),
        constants=(0,),
        cost=_COST,
        arena_place=0,
        arena_bytes=0,
        temporaries=0,
        runs_python=True,
    )


_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def _function(
    eqn: Eqn, results: Sequence[ShapedArray], operands: Sequence[ShapedArray]
) -> Callable[[int], None]:
    """`f(table)`, which stores 0 as the last word of the table when it succeeds."""
    outs, ins = list(map(_view, results)), list(map(_view, operands))
    words = ctypes.c_uint64 * (len(outs) + len(ins) + 1)
    op = eqn.op
    # What code of the user is given it may keep, when the memory is used for others.
    taken = np.array if op.runs_python else np.asarray
    literals = [
        as_numpy(v.val, v.aval) if isinstance(v, Literal) else None for v in eqn.invars
    ]

    def run(address: int) -> None:
        try:
            table = words.from_address(address)
            places = list(table)
            views = iter(map(_at, ins, places[len(outs) :]))
            args = [taken(next(views)) if x is None else x for x in literals]
            with np.errstate(all="ignore"):
                found = evaluate_op(op, args)
            for view, place, value in zip(outs, places, found, strict=False):
                target = _at(view, place)
                target[...] = value.reshape(target.shape)
            table[-1] = 0
        except BaseException as error:  # native code cannot pass it on
            _pending.error = error

    return run


_View = tuple[tuple[int, ...], Any, Any]


def _view(aval: ShapedArray) -> _View:
    """What makes an array of an address: its shape, its dtype, its bytes."""
    dtype = physical_dtype(aval.dtype)
    size = math.prod(aval.shape) * dtype.itemsize
    return aval.shape, dtype, ctypes.c_char * size if size else None


def _at(view: _View, address: int) -> NDArray:
    shape, dtype, block = view
    if block is None:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, block.from_address(address))


def raise_pending() -> NoReturn:
    """Raise the exception of the host call that failed."""
    error, _pending.error = _pending.error, None
    try:
        # Without one, the call was interrupted before its first line.
        raise error or KeyboardInterrupt
    finally:
        del error
