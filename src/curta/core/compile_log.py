"""What tells the log, listeners and traces how long tracing and compiling take."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import Any

from curta.config import config
from curta.core.compile_line import watcher
from curta.core.events import record_event_duration_secs
from curta.core.recorder import span

logger: Any = logging.getLogger("curta.api.jit")


@contextlib.contextmanager
def timed(what: str) -> Iterator[None]:
    """Say how long the block took: "tracing ..." or "compilation ...".

    The log, the listeners of `curta.monitoring`, a trace that is recorded, and the line
    of a terminal are told.
    """
    start = time.perf_counter()
    kind = what.partition(" ")[0]
    work = watcher.begin(what)
    try:
        with span(what, kind):
            yield
    finally:
        if work is not None:
            watcher.end(work)
    duration = time.perf_counter() - start
    log(f"Finished {what} in {duration:.9f} sec")
    record_event_duration_secs(_EVENTS[kind], duration)


_EVENTS = {
    "tracing": "/jax/core/compile/jaxpr_trace_duration",
    "compilation": "/jax/core/compile/backend_compile_duration",
}


def log(message: str) -> None:
    """Log what is traced or compiled; as a warning with `jax_log_compiles`."""
    logger.log(logging.WARNING if config.jax_log_compiles else logging.DEBUG, message)
