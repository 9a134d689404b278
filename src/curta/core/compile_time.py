"""Blocks of code in which functions are not traced."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from curta.core.op import Op
from curta.core.trace import (
    Trace,
    Tracer,
    base_trace,
    concrete_or_none,
    current_trace,
    use_trace,
)


class CompileTimeTrace(Trace):
    """Evaluates ops on known values; the parent gets those on tracers."""

    evaluates_known = True

    def __init__(self, parent: Trace) -> None:
        self.parent: Trace = parent

    def process(self, op: Op, args: Sequence[Any]) -> Any:
        with use_trace(self._trace_of(args)) as trace:
            return trace.process(op, args)

    def custom_jvp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        with use_trace(self._trace_of(args)) as trace:
            return trace.custom_jvp(call, args)

    def custom_vjp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        with use_trace(self._trace_of(args)) as trace:
            return trace.custom_vjp(call, args)

    def memo(self) -> dict[Any, Any]:
        return self.parent.memo()

    def _trace_of(self, args: Sequence[Any]) -> Trace:
        known = not any(isinstance(x, Tracer) for x in args)
        return base_trace() if known else self.parent


@contextlib.contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """Compute values that do not depend on tracers now, not in the jaxpr.

    What does depend on them is traced, as it would be outside of the block.

    >>> import curta, curta.numpy as jnp
    >>> @curta.jit
    ... def f(x):
    ...     with curta.ensure_compile_time_eval():
    ...         n = int(jnp.arange(4).sum())
    ...     return x * n
    >>> f(2)
    Array(12, dtype=int32, weak_type=True)
    """
    trace = current_trace()
    with use_trace(trace if trace.is_evaluating() else CompileTimeTrace(trace)):
        yield


def is_concrete(x: Any) -> bool:
    """Whether the value of `x` is known now, as within `grad` without `jit`.

    >>> import curta
    >>> is_concrete(1.0), curta.jit(is_concrete)(1.0).item()
    (True, False)
    """
    return concrete_or_none(x) is not None
