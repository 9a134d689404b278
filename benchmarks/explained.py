"""Whether `explain` accounts for the time: `python -m benchmarks.explained`.

For programs of the benchmark: the least time of a call, measured apart; the sum of the
kernels as the program runs; what `explain` counts for the call besides its kernels. The
last column is the sum of both over the call's time; the end counts those that are off
by more than 10 %. With CURTA_NUM_THREADS=1 the time is that of the processor, which
other work on the machine changes little.
"""

import argparse
import itertools
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import curta
from benchmarks.__main__ import library
from benchmarks.groups import GROUPS
from curta.api.readable import timed
from curta.compiler.report import measure, report
from curta.compiler.support.threads import num_threads, parallel_for_address

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


def least_time(call: Callable[[], None], seconds: float, clock: int) -> float:
    """The least time of a call that is waited for."""
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.clock_gettime(clock)
        call()
        best = min(best, time.clock_gettime(clock) - start)
    return best


def times(
    called: Call, seconds: float, rounds: int, clock: int
) -> tuple[float, float, float]:
    """Of the call, of its kernels, and what is left of it as `explain` counts."""
    jitted, args, kwargs = called
    traced = jitted.trace(*args, **kwargs)
    values = [np.asarray(x) for x in storage(args, kwargs)]
    made, apart, explained = report(traced.lower()._live, parallel_for_address), [], []

    def call() -> None:
        curta.block_until_ready(jitted(*args, **kwargs))

    for _ in range(rounds):
        apart.append(least_time(call, seconds / rounds, clock))
        t = measure(made, values, parallel_for_address, seconds / rounds, clock, call)
        explained.append((sum(t.kernels), t.call or 0.0))
    kernels, waited = map(min, zip(*explained))
    return min(apart), kernels, max(0.0, waited - kernels)


def storage(args: Any, kwargs: Any) -> list[Any]:
    """The arguments' arrays, of random keys the words."""
    leaves = curta.tree.leaves((args, kwargs))
    is_key = curta.dtypes.prng_key
    return [
        x._storage() if curta.dtypes.issubdtype(x.dtype, is_key) else x for x in leaves
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--seconds", type=float, default=1.0, help="for each of both")
    parser.add_argument("--rounds", type=int, default=3, help="of both, in turns")
    parser.add_argument("--list", action="store_true", help="names of all programs")
    options = parser.parse_args()
    cases = {case.name: case for case in itertools.chain(*GROUPS.values())}
    if options.list:
        print(*cases, sep="\n")
        return 0
    lib, off = Recording(library("curta")), 0
    alone = num_threads() == 1
    clock = time.CLOCK_PROCESS_CPUTIME_ID if alone else time.CLOCK_MONOTONIC
    chosen = [n for n in cases if n in PROGRAMS and options.only in n]
    print(f"{'':<54}{'call':>9}{'kernels':>9}{'around':>9}{'ratio':>7}")
    for name in chosen:
        cases[name].make(lib)()
        assert lib.called is not None
        found = times(lib.called, options.seconds, options.rounds, clock)
        ratio = (found[1] + found[2]) / found[0]
        off += abs(ratio - 1) > TOLERANCE
        shown = "".join(f"{timed(t):>9}" for t in found)
        print(f"{name:<54}{shown}{ratio:7.2f}", flush=True)
    print(f"{len(chosen)} programs, {off} off by more than {TOLERANCE:.0%}")
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
