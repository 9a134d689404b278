"""The trace state: the transformations that are active around a function.

Results should not depend on that; libraries ask to refuse what would go wrong.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from curta.core.stage import JaxprTrace
from curta.core.trace import Trace, base_trace, current_trace, use_trace
from curta.dtypes import bfloat16
from curta.transforms.vmap import BatchTrace

array_types: frozenset[type] = frozenset(
    {np.ndarray, np.bool_, bfloat16}
    | {np.dtype(c).type for c in np.typecodes["AllInteger"]}
    | {np.dtype(c).type for c in np.typecodes["AllFloat"] if c not in "gG"}
)
"""NumPy's types that enter ops."""


class TraceTag:
    """Marks the tracers of one use of a program's own trace; equal to itself alone.

    >>> from curta.extend.core import TraceTag
    >>> TraceTag() == TraceTag()
    False
    """


class OpaqueTraceState:
    """The active transformations; equal to another state if they are the same."""

    __slots__ = ("_trace",)

    def __init__(self) -> None:
        self._trace = current_trace()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpaqueTraceState) and self._trace is other._trace

    def __hash__(self) -> int:
        return hash(id(self._trace))


def get_opaque_trace_state(convention: str | None = None) -> OpaqueTraceState:
    """Return the current trace state, to compare it with a later one.

    >>> import curta
    >>> from curta.extend.core import get_opaque_trace_state
    >>> outside = get_opaque_trace_state()
    >>> outside == get_opaque_trace_state()
    True
    >>> curta.jit(lambda: outside == get_opaque_trace_state())()
    Array(False, dtype=bool)
    """
    return OpaqueTraceState()


def find_top_trace(xs: Any = ()) -> Trace:
    """The trace that processes ops on the arrays `xs`: the current one.

    >>> from curta.extend.core import find_top_trace
    >>> type(find_top_trace()).__name__
    'EvalTrace'
    """
    return current_trace()


@contextlib.contextmanager
def take_current_trace() -> Iterator[Trace]:
    """Gives the trace at work; within the block nothing is, ops are evaluated.

    >>> import curta
    >>> from curta.extend.core import set_current_trace, take_current_trace
    >>> def f(x):
    ...     with take_current_trace() as trace:
    ...         print(curta.numpy.sin(0.0))
    ...         with set_current_trace(trace):
    ...             return 2 * x
    >>> curta.jit(f)(1.0)
    0.0
    Array(2., dtype=float32, weak_type=True)
    """
    trace = current_trace()
    with use_trace(base_trace()):
        yield trace


def _traces() -> Iterator[Trace]:
    trace: Trace | None = current_trace()
    while trace is not None:
        yield trace
        trace = trace.parent


def unsafe_am_i_under_a_jit_DO_NOT_USE() -> bool:
    """Return True if what runs is being recorded.

    >>> import curta
    >>> from curta.extend.core import unsafe_am_i_under_a_jit_DO_NOT_USE as recorded
    >>> recorded(), bool(curta.jit(recorded)())
    (False, True)
    """
    return any(isinstance(trace, JaxprTrace) for trace in _traces())


def unsafe_am_i_under_a_vmap_DO_NOT_USE() -> bool:
    """Return True if what runs is mapped over a batch.

    >>> import curta
    >>> from curta.extend.core import unsafe_am_i_under_a_vmap_DO_NOT_USE as mapped
    >>> mapped()
    False
    >>> _ = curta.vmap(lambda x: print(mapped()))(curta.numpy.ones(2))
    True
    """
    return any(isinstance(trace, BatchTrace) for trace in _traces())


def unsafe_get_axis_names_DO_NOT_USE() -> list[Any]:
    """The names of the axes that collectives may use.

    >>> import curta
    >>> from curta.extend.core import unsafe_get_axis_names_DO_NOT_USE as axis_names
    >>> found = curta.vmap(lambda x: print(axis_names()), axis_name="i")
    >>> found(curta.numpy.ones(2))
    ['i']
    """
    return list(current_trace().axis_sizes())


def nonempty_axis_env_DO_NOT_USE() -> bool:
    """Return True if any named axis is in scope.

    >>> import curta
    >>> from curta.extend.core import nonempty_axis_env_DO_NOT_USE as inside
    >>> inside()
    False
    >>> _ = curta.vmap(lambda x: print(inside()), axis_name="i")(curta.numpy.ones(2))
    True
    """
    return bool(unsafe_get_axis_names_DO_NOT_USE())
