"""Everyday calls outside `jit`: `python -m benchmarks.eager`.

Each library runs in a process of its own, so that one does not change what the other
does. Results are compared first. Then blocks of a millisecond alternate between the
processes, and the least time of a block counts: that hardly depends on other load.
`--peer NAME=PYTHON` adds a JAX by the interpreter that has it; the first one is the
`jax` of this interpreter if none is given. Ratios are to the fastest peer.
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.eager_cases import CALLS
from benchmarks.harness import first_line
from benchmarks.report import time_text

ROOT = Path(__file__).parents[1]


class Peer:
    """A library in its own process."""

    def __init__(self, library: str, python: str) -> None:
        command = [python, "-m", "benchmarks.eager_cases", library]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, cwd=ROOT)
        self.title = f"{library} {self.ask('version')}"

    def ask(self, asked: str, call: str = "") -> Any:
        """The worker's answer; raises what it raised."""
        pickle.dump((asked, call), self.process.stdin)
        self.process.stdin.flush()
        answer = pickle.load(self.process.stdout)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait()


@dataclass(frozen=True)
class Found:
    """The least seconds of a call by each library, Curta first, or a problem."""

    call: str
    seconds: Sequence[float] = ()
    problem: str = ""

    @property
    def ratio(self) -> float:
        return self.seconds[0] / min(self.seconds[1:])

    def cells(self) -> list[str]:
        if self.problem:
            return [f"`{self.call}`", self.problem]
        times = map(time_text, self.seconds)
        return [f"`{self.call}`", *times, f"{self.ratio:.2f}"]


def differs(ours: Sequence[Any], theirs: Sequence[Any]) -> str:
    """How two results differ; "" if they are equal up to rounding."""
    if len(ours) != len(theirs):
        return f"{len(ours)} leaves, {len(theirs)} of JAX"
    for a, b in zip(ours, theirs):
        if isinstance(a, str) or isinstance(b, str):
            if a != b:
                return f"{a} of JAX {b}"
        elif (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"is {a.dtype}{a.shape}, of JAX {b.dtype}{b.shape}"
        elif not np.allclose(a, b, 1e-5, 1e-5):
            return f"is {a}, of JAX {b}"
    return ""


def measured(call: str, peers: Sequence[Peer], rounds: int) -> Found:
    try:
        first, *others = (peer.ask("result", call) for peer in peers)
        problem = next(filter(None, (differs(first, other) for other in others)), "")
        if problem:
            return Found(call, problem=problem)
        blocks = [[p.ask("seconds", call) for p in peers] for _ in range(rounds)]
    except Exception as error:
        return Found(call, problem=f"{type(error).__name__}: {first_line(error)}")
    return Found(call, [*map(min, zip(*blocks))])


def summary(rows: Sequence[Found]) -> str:
    timed = [row for row in rows if not row.problem]
    mean = statistics.geometric_mean(row.ratio for row in timed)
    slow = [f"`{row.call}` {row.ratio:.2f}" for row in timed if row.ratio > 1]
    above = "; ".join(slow) or "none"
    return f"{len(timed)} calls, geometric mean {mean:.2f}. Above 1: {above}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="calls that contain this")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--peer", action="append", default=[], help="NAME=PYTHON")
    options = parser.parse_args()
    pythons = [peer.split("=", 1)[-1] for peer in options.peer] or [sys.executable]
    peers = [Peer("curta", sys.executable), *(Peer("jax", path) for path in pythons)]
    header = ["call", *(peer.title for peer in peers), "ratio"]
    print("| " + " | ".join(header) + " |")
    print("|---|" + "---:|" * (len(header) - 1))
    rows = []
    for call in CALLS:
        if options.only in call:
            rows.append(measured(call, peers, options.rounds))
            print("| " + " | ".join(rows[-1].cells()) + " |", flush=True)
    for peer in peers:
        peer.end()
    if rows:
        print("\n" + summary(rows))


if __name__ == "__main__":
    main()
