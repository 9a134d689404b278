"""Finding tracers that outlive their trace, for `jax_check_tracer_leaks`."""

from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Iterator
from typing import Any

from curta.config import config
from curta.core.trace import Trace, TracedValue

_LONGEST_CHAIN = 8


class LeakCheck:
    """What becomes of a trace: made while it runs, `finish` is called at its end.

    The caller must have let go of the trace and its tracers by then.
    """

    def __init__(self, trace: Trace):
        self.trace: Any = weakref.ref(trace)

    def finish(self) -> None:
        """Raise an Exception that names the holders of leaked tracers, if any."""
        if self.trace() is None:
            return
        gc.collect()
        trace = self.trace()
        if trace is None:
            return
        leaked = [x for x in gc.get_referrers(trace) if isinstance(x, TracedValue)]
        if leaked:
            report = _report(leaked.pop())
            raise Exception(
                f"Leaked trace {type(trace).__name__}. Leaked tracer(s):\n\n{report}\n"
                "\nReturn the value from the function that is transformed, or compute"
                " it outside, instead of storing it."
            )


def leak_check(trace: Trace) -> LeakCheck | None:
    """The check of a trace that has ended, if leaks are looked for."""
    return LeakCheck(trace) if config.jax_check_tracer_leaks else None


def _report(tracer: TracedValue) -> str:
    name = type(tracer).__name__
    line = getattr(tracer, "source", "<unknown>")
    chain = "\n".join(_holders(tracer))
    return (
        f"{tracer}{tracer._origin_msg()}\nThis {name} with object id {id(tracer)} was"
        f" created on line:\n  {line}\n{chain}"
    )


def _holders(x: Any) -> Iterator[str]:
    """A chain of who refers to `x`, up to something that lives by itself."""
    for _ in range(_LONGEST_CHAIN):
        holder = _holder(x)
        if holder is None:
            return
        yield f"{_named(x)} is referred to by {_named(holder)}"
        x = holder


def _holder(x: Any) -> Any:
    for holder in gc.get_referrers(x):
        if not isinstance(holder, (types.FrameType, types.GeneratorType)):
            return holder
    return None


def _named(x: Any) -> str:
    label = f" ({x.__name__})" if hasattr(x, "__name__") else ""
    return f"<{type(x).__name__} {id(x)}>{label}"
