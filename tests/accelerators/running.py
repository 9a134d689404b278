"""Running pytest in a process of its own, and what became of the tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]

#: Begins the reason of tests that were left out for want of time.
NOT_BEGUN = "not begun"


class Outcome(NamedTuple):
    """How many tests passed, failed, ..., why others were skipped, and the seconds.

    `stopped` says why the process had no end of its own; empty if it had.
    """

    counts: Counter[str]
    reasons: Counter[str]
    seconds: float
    stopped: str = ""

    @property
    def is_good(self) -> bool:
        """Whether nothing failed, and something was collected."""
        bad = self.counts["failed"] or self.counts["errors"] or self.stopped
        return not bad and bool(self.counts)

    def __str__(self) -> str:
        said = [f"{n} {outcome}" for outcome, n in self.counts.items() if n]
        if self.stopped:
            said.append(self.stopped)
        return ", ".join(said) or "nothing ran"


def run_pytest(
    paths: Sequence[str],
    environment: Mapping[str, str],
    options: Sequence[str] = (),
    limit: float | None = None,
) -> Outcome:
    """Run tests, whose output is passed on; after `limit` seconds they are killed."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
        command += [f"--junitxml={report}", *options, *paths]
        running = subprocess.Popen(
            command, env={**os.environ, **environment}, cwd=ROOT, start_new_session=True
        )
        stopped = ""
        try:
            status = running.wait(limit)
            # 0: all passed; 1: some failed; 5: there were none.
            if status not in (0, 1, 5):
                stopped = f"pytest ended with status {status}"
        except subprocess.TimeoutExpired:
            stopped = f"killed after {limit:.0f} s"
        finally:
            _kill_session(running)
        counts, reasons = _read(report) if report.exists() else (Counter(), Counter())
    return Outcome(counts, reasons, time.monotonic() - begin, stopped)


def _kill_session(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        process.wait()


def _read(report: Path) -> tuple[Counter[str], Counter[str]]:
    """Outcomes, and reasons of tests that were skipped, of a report in JUnit's XML."""
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    outcomes = {"failure": "failed", "error": "errors", "skipped": "skipped"}
    for case in ElementTree.parse(report).iter("testcase"):
        found = next((e for e in case if e.tag in outcomes), None)
        if found is None:
            counts["passed"] += 1
        elif found.tag == "skipped":
            reason = found.get("message", "").removeprefix("Skipped: ")
            reasons[reason] += 1
            late = reason.startswith(NOT_BEGUN)
            counts[NOT_BEGUN if late else "skipped"] += 1
        else:
            counts[outcomes[found.tag]] += 1
    return counts, reasons
