"""Jobs of the net: processes that run many programs, watched from outside."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.multiprocess.net.worker import AGAIN, ALONE, WRONG_ALONE

ENGINES = ("mpi", "tcp", "simulated")
_LOOK = 0.2  # seconds between two looks at what processes wrote
_GRACE = 15.0  # seconds for processes to say themselves that they hang
SLOW = 10.0  # times the processor time of one host
LITTLE = 0.02  # seconds that a call on one host counts as at least


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program in a layout: `right`, or the failure.

    `ratio` is the processor time of a call over that on one host, which counts as at
    least `LITTLE`: of the quickest of the calls behind the first, and of the slowest
    process, which spins while it waits for another. `seconds` is that processor time.
    `parts` are digests of the parts of the results on all hosts.
    """

    name: str
    layout: str
    state: str
    ratio: float = 0.0
    seconds: float = 0.0
    parts: frozenset[int] = frozenset()

    @property
    def is_right(self) -> bool:
        """Whether every process has the results of one host."""
        return self.state == "right"


@dataclass
class Job:
    """Programs on so many ranks, by an engine; `seconds` is the limit of each."""

    engine: str
    ranks: int
    names: Sequence[str]
    seconds: float = 120.0
    say: Callable[[Outcome], None] = lambda outcome: None
    outcomes: list[Outcome] = field(default_factory=list)
    refused: int = 0  # programs that one host refuses, or computes wrongly, too

    def run(self) -> list[Outcome]:
        """Run all; processes are started again behind a program that ends them."""
        first = 0
        with tempfile.TemporaryDirectory() as folder:
            listed = Path(folder) / "names"
            listed.write_text("\n".join(self.names))
            while first < len(self.names):
                logs = Path(folder) / f"from{first}"
                logs.mkdir()
                why = self._started(listed, logs, first)
                first = self._collected(logs, why, first)
        return self.outcomes

    def _started(self, names: Path, logs: Path, first: int) -> str:
        """Run from a number on; why the processes ended, empty if in order."""
        worker = "tests.multiprocess.net.worker"
        program = ["-m", worker, str(names), str(logs), str(first)]
        environment = {**os.environ, "CURTA_HOSTS_TIMEOUT": str(self.seconds)}
        command = [sys.executable, *program]
        if self.engine == "simulated":
            environment["CURTA_SIMULATE_HOSTS"] = str(self.ranks)
        else:
            launcher = ["-m", "curta.run", "-n", str(self.ranks), "--engine"]
            command = [sys.executable, *launcher, self.engine, *program]
        with (logs / "output").open("w") as output:
            process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
            hung = self._watch(process, logs)
        if hung:
            return f"hung for {self.seconds + _GRACE:.0f} s"
        text = (logs / "output").read_text(errors="replace").replace("\0", "")
        status = process.returncode
        return f"ended with status {status}: {text[-1500:]}" if status else ""

    def _watch(self, process: subprocess.Popen[bytes], logs: Path) -> bool:
        """Wait for processes to end; end them if none writes for too long."""
        written, since = -1, time.monotonic()
        while process.poll() is None:
            time.sleep(_LOOK)
            now = sum(p.stat().st_size for p in logs.iterdir() if p.name.isdigit())
            if now != written:
                written, since = now, time.monotonic()
            elif time.monotonic() - since > self.seconds + _GRACE:
                _end(process)
                return True
        return False

    def _collected(self, logs: Path, why: str, first: int) -> int:
        """Add what processes wrote; the number of the program to go on with."""
        files = [p for p in logs.iterdir() if p.name.isdigit()]
        each = [[*_lines(p)] for p in files]
        steps: dict[tuple[int, str], list[dict[str, Any]]] = {}
        for line in (x for lines in each for x in lines if "number" in x):
            if line["state"] != "begin":
                steps.setdefault((line["number"], line["layout"]), []).append(line)
        alone = {n: s for (n, layout), s in steps.items() if layout == ALONE}
        for (number, layout), lines in steps.items():
            self._add(number, layout, lines, alone.get(number, []))
        if not why and len(files) and all(x and x[-1]["state"] == "end" for x in each):
            return len(self.names)
        last = max(
            ((x[-1]["number"], x[-1]["layout"]) for x in each if x), default=None
        )
        number, layout = last or (first, "start")
        where = [
            f"process {p.name}: {x[-1:]}" for p, x in zip(files, each, strict=True)
        ]
        text = f"{why}; {'; '.join(where)}"
        self._came(Outcome(self.names[number], layout, text))
        return int(number) + 1

    def _add(
        self,
        number: int,
        layout: str,
        lines: list[dict[str, Any]],
        alone: list[dict[str, Any]],
    ) -> None:
        wrong = [x["state"] for x in lines if x["state"] != "right"]
        if layout == ALONE:
            self.refused += bool(wrong)
            return
        state = wrong[0] if wrong else "right"
        if state.startswith(WRONG_ALONE):  # a fault of the compiler's
            print(f"  {self.names[number]}: {state}", flush=True)
            self.refused += 1
            return
        seconds, ratio = (0.0, 0.0) if wrong else _cost(lines, alone)
        if state == "right" and ratio > SLOW:
            state = f"slow: {ratio:.1f} times the processor time of one host"
        parts = frozenset(p for x in lines for p in x.get("parts", ()))
        self._came(Outcome(self.names[number], layout, state, ratio, seconds, parts))

    def _came(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        self.say(outcome)


def _cost(
    lines: list[dict[str, Any]], alone: list[dict[str, Any]]
) -> tuple[float, float]:
    """The processor time of the slowest process, and its ratio to that on one host."""
    least = min(map(_again, alone), default=0.0)
    most = max(map(_again, lines), default=0.0)
    return most, most / max(least, LITTLE)


def _again(line: dict[str, Any]) -> float:
    """The processor time of the quickest call of a process behind the first."""
    return min((float(line[which]) for which in AGAIN if which in line), default=0.0)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text().splitlines():
        with contextlib.suppress(json.JSONDecodeError):  # the end of a killed process
            yield json.loads(line)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a launcher and what it has started."""
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
