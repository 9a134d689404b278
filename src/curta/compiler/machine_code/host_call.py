"""Ops that run in Python, called by native code: callbacks, and what has no code.

A host call has the address of a function like any native program has, so that loops and
branches around it are native code. An exception cannot pass through native code: it
waits in its thread until the native functions have returned, each at once, and is then
raised (`call`).
"""

from __future__ import annotations

import ctypes
import math
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from curta._base.once import once
from curta._base.signals import is_main_thread
from curta.compiler.callee import DONE, SIGNALS, STOPPED, HostCall
from curta.compiler.machine_code.native import NativeProgram
from curta.core.evaluate import as_numpy, evaluate_op
from curta.core.jaxpr import Eqn, Literal
from curta.core.recorder import span
from curta.hosts.engine import at_line, current

NDArray = np.ndarray[Any, Any]


class _Pending(threading.local):
    """The exception of the thread's host call that failed."""

    error: BaseException | None = None


_pending = _Pending()


def load(called: HostCall) -> NativeProgram:
    """Return the native function of a host call."""
    eqn = called.eqn
    return _signals_answered() if eqn is None else _loaded(called, _evaluation(eqn))


def _evaluation(eqn: Eqn) -> Callable[..., list[NDArray]]:
    """Return the function that evaluates an equation on views of its operands."""
    # Copies for the user's code, which may keep them: the memory will be reused.
    taken = np.array if eqn.op.runs_python else np.asarray
    literals = [
        as_numpy(v.val, v.aval) if isinstance(v, Literal) else None for v in eqn.invars
    ]

    def evaluate(*views: NDArray) -> list[NDArray]:
        rest = iter(views)
        args = [taken(next(rest)) if x is None else x for x in literals]
        with np.errstate(all="ignore"), span(eqn.op.name, "python"):
            return evaluate_op(eqn.op, args)

    def met(*views: NDArray) -> list[NDArray]:
        with at_line(eqn.source_info.short):
            return evaluate(*views)

    return met if eqn.op.meets_hosts else evaluate


def _loaded(called: HostCall, function: Callable[..., list[NDArray]]) -> NativeProgram:
    """Return a native function that calls a Python function on arrays."""
    entry = _entry(function, called.signature, called.results)
    code = _HOST_FUNCTION(entry)
    return NativeProgram(
        code=code,
        address=ctypes.cast(code, ctypes.c_void_p).value or 0,
        constants=(0,),
        signature=called.signature,
        results=called.results,
        cost=called.cost,
        runs_python=True,
        is_host_call=True,
        eqn=called.eqn,
    )


_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@once
def _signals_answered() -> NativeProgram:
    return _loaded(SIGNALS, lambda: [])


def _entry(
    function: Callable[..., list[NDArray]],
    signature: Sequence[tuple[Any, tuple[int, ...]]],
    results: int,
) -> Callable[[int], None]:
    """`f(table)`, which stores DONE as the last word of the table when it succeeds."""
    views = [_view(shape, dtype) for dtype, shape in signature]
    outs, ins = views[:results], views[results:]
    words = ctypes.c_uint64 * (len(outs) + len(ins) + 1)

    def run(address: int) -> None:
        try:
            table = words.from_address(address)
            addresses = list(table)
            result = function(*map(_at, ins, addresses[len(outs) :]))
            for view, data, value in zip(outs, addresses, result, strict=False):
                target = _at(view, data)
                target[...] = value.reshape(target.shape)
            table[-1] = DONE
        except BaseException as error:  # native code cannot pass it on
            _pending.error = error

    return run


_View = tuple[tuple[int, ...], Any, Any]


def _view(shape: tuple[int, ...], dtype: Any) -> _View:
    """Shape, dtype and ctypes array of an array, to make a view at an address."""
    size = math.prod(shape) * dtype.itemsize
    return shape, dtype, ctypes.c_char * size if size else None


def _at(view: _View, address: int) -> NDArray:
    shape, dtype, block = view
    if block is None:
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, block.from_address(address))


def call(function: Callable[[int], int], table: ctypes.Array[Any]) -> None:
    """Call a program that runs Python on its table; raise what a host call raised."""
    status = STOPPED
    try:
        if is_main_thread():
            with _signals_kept():
                status = function(ctypes.addressof(table))
        else:
            status = function(ctypes.addressof(table))
    finally:
        if status != DONE:
            current().settle()
    if status != DONE:
        _raise_pending()


def fail(error: BaseException) -> None:
    """The exception to raise when the native caller has returned."""
    _pending.error = error


def _raise_pending() -> NoReturn:
    error, _pending.error = _pending.error, None
    try:
        # If there is none, ctypes ran out of memory before it made the call.
        raise error or MemoryError("a function in Python could not be called")
    finally:
        del error


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Keep what handlers of signals raise before the first line of a host call.

    Nothing there can catch it, and ctypes hands it to the hook for such exceptions.
    """
    before = sys.unraisablehook

    def hook(unraisable: Any) -> None:
        trace = unraisable.exc_traceback
        code = None if trace is None else trace.tb_frame.f_code
        # Which function it is, or, where Python does not say that (3.13), its frame.
        if _CODE in (code, getattr(unraisable.object, "__code__", None)):
            _pending.error = unraisable.exc_value
        else:
            before(unraisable)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


_CODE = _entry(lambda: [], (), 0).__code__
