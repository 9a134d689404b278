"""Runs one program under two libraries, compares what they answer, times both."""

import gc
import statistics
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Thunk = Callable[[], Any]

Clock = Callable[[], float]
CLOCKS: dict[str, Clock] = {
    "wall": time.perf_counter,
    "processor": time.process_time,  # of all threads: what load changes less
}

SAMPLE_SECONDS = 2e-3  # one sample repeats the program until it takes about this long
MIN_SAMPLES = 7


@dataclass(frozen=True)
class Case:
    """One row of the table.

    `make(lib)` builds the inputs and returns the program as a function of no arguments;
    `lib` is the module `curta` or `jax`, its submodules imported. `read` and `written`
    are the bytes and `flops` the floating-point operations it cannot do without.
    `target` is the ratio Curta/JAX aimed at.
    """

    name: str
    make: Callable[[Any], Thunk]
    target: float
    read: int = 0
    written: int = 0
    flops: int = 0
    rtol: float = 1e-4
    atol: float = 1e-5
    wait_each: bool = True  # False: time the dispatch, wait once a sample


@dataclass(frozen=True)
class Timing:
    """Medians in seconds of one case, or why there are none."""

    curta: float = float("nan")
    jax: float = float("nan")
    problem: str = ""


def attempt(measurement: Callable[[], Timing]) -> Timing:
    """A broken case is a row of the report, not its end."""
    try:
        return measurement()
    except Exception as error:
        return Timing(problem=f"{type(error).__name__}: {first_line(error)}")


def measure(
    case: Case, curta: Any, jax: Any, seconds: float, clock: Clock = time.perf_counter
) -> Timing:
    """Compare, then time in turns, so that both meet the same state of the machine."""
    thunks = case.make(curta), case.make(jax)
    compare(leaves(curta, thunks[0]()), leaves(jax, thunks[1]()), case)
    samplers = [
        Sampler(thunk, lib.block_until_ready, case.wait_each, clock)
        for thunk, lib in zip(thunks, (curta, jax))
    ]
    gc.collect()
    gc.disable()
    try:
        times: list[list[float]] = [[], []]
        end = time.perf_counter() + seconds
        while len(times[0]) < MIN_SAMPLES or time.perf_counter() < end:
            for sampler, samples in zip(samplers, times):
                samples.append(sampler.sample())
    finally:
        gc.enable()
    return Timing(*(statistics.median(samples) for samples in times))


class Sampler:
    """Times repetitions of one thunk, enough of them to be seen by the clock."""

    def __init__(
        self, thunk: Thunk, block: Callable[[Any], Any], wait_each: bool, clock: Clock
    ):
        self.thunk, self.wait_each, self.clock = thunk, wait_each, clock
        # An array waits by its own method, which is quicker than looking for leaves.
        array = hasattr(thunk(), "block_until_ready")
        self.wait = (lambda x: x.block_until_ready()) if array else block
        self.repeat = 1
        while (per_call := self.sample()) * self.repeat < SAMPLE_SECONDS:
            wanted = 1 + int(SAMPLE_SECONDS / max(per_call, 1e-8))
            self.repeat = min(wanted, 4 * self.repeat)

    def sample(self) -> float:
        """Seconds per call."""
        thunk, wait, clock = self.thunk, self.wait, self.clock
        calls = range(self.repeat)
        start = clock()
        if self.wait_each:
            for _ in calls:
                wait(thunk())
        else:
            for _ in calls:
                result = thunk()
            wait(result)
        return (clock() - start) / self.repeat


def leaves(lib: Any, tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in lib.tree.leaves(tree)]


def compare(ours: list[np.ndarray], theirs: list[np.ndarray], case: Case) -> None:
    assert len(ours) == len(theirs), f"{len(ours)} results against {len(theirs)}"
    for a, b in zip(ours, theirs):
        assert (a.shape, a.dtype) == (b.shape, b.dtype), (
            f"{a.dtype}{a.shape} against {b.dtype}{b.shape}"
        )
        np.testing.assert_allclose(a, b, rtol=case.rtol, atol=case.atol)


def first_line(error: Exception) -> str:
    if isinstance(error, subprocess.CalledProcessError):
        return error.stderr.strip().splitlines()[-1]
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:160]
