"""A program run and measured in a process of its own, which writes a report.

python -m curta.command_line.measured [--calls] [-m] REPORT BEGAN program ...
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from curta.api.jit_cache import forget_fast_calls
from curta.api.kernel_cache import kernel_cache_statistics
from curta.command_line import programs
from curta.core import recorder
from curta.monitoring import register_event_duration_secs_listener

Interval = tuple[float, float]
_TRACING = "/jax/core/compile/jaxpr_trace_duration"
_COMPILATION = "/jax/core/compile/backend_compile_duration"


def main() -> None:
    """Run the program of the command line and write the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("report")
    parser.add_argument("began", type=float, help="the time.time() of the start")
    parser.add_argument("--calls", action="store_true")
    programs.add_program(parser)
    options = parser.parse_args()
    importing = time.time() - options.began
    spans: dict[str, list[Interval]] = {_TRACING: [], _COMPILATION: []}

    def listen(event: str, seconds: float, **_: Any) -> None:
        if event in spans:
            now = time.perf_counter()
            spans[event].append((now - seconds, now))

    register_event_duration_secs_listener(listen)
    if options.calls:
        recorder.start(".")
        forget_fast_calls()
    try:
        programs.run_here(options.program, options.module)
    finally:
        recorded = recorder.current()
        report = {
            "importing": importing,
            "tracing": covered(spans[_TRACING]),
            "compilation": covered(spans[_COMPILATION]),
            "kernels": kernel_cache_statistics().compiles,
            "functions": [] if recorded is None else functions(recorded.events),
        }
        with open(options.report, "w") as file:
            json.dump(report, file)


def covered(intervals: Iterable[Interval]) -> float:
    """The time that intervals cover, of which some lie in others.

    >>> covered([(0.0, 3.0), (1.0, 2.0), (5.0, 6.0)])
    4.0
    """
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total


def functions(events: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """How often compiled functions were called, and how long that took, in seconds."""
    calls: dict[str, list[float]] = defaultdict(list)
    for event in events:
        if event["cat"] == "program":
            calls[event["name"]].append(event["dur"] / 1e6)
    return [
        {
            "name": name,
            "calls": len(times),
            "first": times[0],
            "median": statistics.median(times),
            "total": sum(times),
        }
        for name, times in calls.items()
    ]


if __name__ == "__main__":
    main()
