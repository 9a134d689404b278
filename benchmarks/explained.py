"""Whether `explain` accounts for the time: `python -m benchmarks.explained`.

For programs of the benchmark, compare the time of a call with the times that `explain`
measures between kernels: the kernels, and the rest of the call. Calls of both kinds
alternate, so other load affects both, and the least time of each counts, as in
`explain`. It is accepted when three calls are within 5 % of it. Calls stop after
`--seconds`; a mark shows programs without such a time. `--processor-time` uses the
clock of the process with all its threads, which depends less on other load. The last
column is the sum of kernels and rest, divided by the time of the call. The output ends
with the number of programs that differ by more than 10 %.
"""

import argparse
import heapq
import itertools
import sys
import time
from collections.abc import Callable
from typing import Any

import curta
from benchmarks.__main__ import library
from benchmarks.groups import GROUPS
from curta.api.explain import waited_call
from curta.api.readable import timed
from curta.compiler.report import clocked, report
from curta.compiler.support.threads import parallel_for_address

PROGRAMS = (
    "gelu, 1e6",
    "sin, 1e7",
    "sum over axis 0, 4096²",
    "softmax, (8192, 1024)",
    "layernorm, (8192, 1024)",
    "dot, (1024, 1024)·(1024, 1024)",
    "dot, 1024 batched (32, 32)·(32, 32)",
    "random.normal, 1e6",
    "sort, 1e6",
    "cumsum, 1e7",
    "eigh, 256²",
    "3x3 convolution, 8x14x14x256 to 256, step 1, forward",
    "attention by einsum, 8 heads, 8x256x512",
    "heat by roll, 512², 20 steps",
    "GRU-128, 512 steps, batch 32, forward",
)
TOLERANCE = 0.1
LEAST_PAIRS = 10
CONFIRMING, TRUST = 3, 0.05


Call = tuple[Any, tuple[Any, ...], dict[str, Any]]


class Recording:
    """Curta, whose compiled functions note what they are called with."""

    def __init__(self, lib: Any):
        self._lib = lib
        self.called: Call | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lib, name)

    def jit(self, fun: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        jitted = self._lib.jit(fun, **options)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.called = jitted, args, kwargs
            return jitted(*args, **kwargs)

        return call


Sample = tuple[float, tuple[float, ...]]


def least(called: Call, seconds: float, clock: int) -> tuple[float, Sample, bool]:
    """Seconds of a call, and of a call with a clock and the kernels in it.

    Last is whether both are trusted.
    """
    jitted, args, kwargs = called
    lowered = jitted.lower(*args, **kwargs)
    made = report(lowered._live)
    program = clocked(made, parallel_for_address, clock)
    explained = waited_call(lowered.compile(), args, kwargs, program.executable)
    plain: list[float] = []
    samples: list[Sample] = []
    end = time.perf_counter() + seconds
    trusted = False
    while not (plain and (trusted or time.perf_counter() > end)):
        for _ in range(LEAST_PAIRS):
            start = time.clock_gettime(clock)
            curta.block_until_ready(jitted(*args, **kwargs))
            plain.append(time.clock_gettime(clock) - start)
            samples.append(program.sample(explained))
        trusted = is_trusted(plain) and is_trusted([s for s, _ in samples])
    return min(plain), min(samples), trusted


def is_trusted(times: list[float]) -> bool:
    """Whether the least of them was met several times, more or less."""
    first, *others = heapq.nsmallest(CONFIRMING, times)
    return others[-1] <= first * (1 + TRUST)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--seconds", type=float, default=20.0, help="at most, for each")
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--list", action="store_true", help="names of all programs")
    options = parser.parse_args()
    cases = {case.name: case for case in itertools.chain(*GROUPS.values())}
    if options.list:
        print(*cases, sep="\n")
        return 0
    lib, off = Recording(library("curta")), 0
    of_process = time.CLOCK_PROCESS_CPUTIME_ID
    clock = of_process if options.processor_time else time.CLOCK_MONOTONIC
    chosen = [n for n in cases if n in PROGRAMS and options.only in n]
    print(f"{'':<54}{'call':>9}{'kernels':>9}{'rest':>9}{'ratio':>7}")
    for name in chosen:
        cases[name].make(lib)()
        assert lib.called is not None
        call, (whole, kernels), trusted = least(lib.called, options.seconds, clock)
        ratio = whole / call
        off += abs(ratio - 1) > TOLERANCE
        columns = call, sum(kernels), whole - sum(kernels)
        shown = "".join(f"{timed(t):>9}" for t in columns)
        mark = "" if trusted else "  (calls vary)"
        print(f"{name:<54}{shown}{ratio:7.2f}{mark}", flush=True)
    print(f"{len(chosen)} programs, {off} off by more than {TOLERANCE:.0%}")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
