"""A pytest plugin: writes what became of each test as one line of JSON.

Lines, not a file at the end, as a suite may run out of time or crash. `CURTA_OUTCOMES`
names the file; of `CURTA_PART` = k, every k-th test is run, the same ones each time.
"""

import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest
from absl import flags


class _Outcomes:
    def __init__(self, path: Path, part: int) -> None:
        self._path, self._part = path, part

    def _write(self, test: str, outcome: str, message: str, seconds: float) -> None:
        line = {
            "test": test,
            "outcome": outcome,
            "message": message,
            "seconds": round(seconds, 3),
        }
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [
            item for item in items if zlib.crc32(item.nodeid.encode()) % self._part == 0
        ]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            outcome = report.outcome
            if hasattr(report, "wasxfail"):  # failed as it should, or should not have
                outcome = "passed" if outcome == "skipped" else "failed"
            self._write(report.nodeid, outcome, _message(report), report.duration)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write(report.nodeid, "not collected", _message(report), 0.0)


def _message(report: Any) -> str:
    """The last line of the exception."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else report.longreprtext
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if crash is None:
        marked = [line for line in lines if line.startswith("E ")]
        return marked[-1][1:].strip() if marked else (lines[-1] if lines else "")
    return " ".join(lines)[:300]


def pytest_configure(config: pytest.Config) -> None:
    flags.FLAGS.mark_as_parsed()  # suites for absl's own runner ask for its flags
    path = os.environ.get("CURTA_OUTCOMES")
    if path is not None:
        part = int(os.environ.get("CURTA_PART", "1"))
        config.pluginmanager.register(_Outcomes(Path(path), part))
