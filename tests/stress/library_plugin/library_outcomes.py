"""A pytest plugin: writes what became of each test as one line of JSON.

Lines, not a file at the end, as a suite may run out of time or crash. `CURTA_OUTCOMES`
names the file; of `CURTA_PART` = k, every k-th test is run, the same ones each time,
others with another `CURTA_SEED`. `CURTA_ONLY` lists the tests or files to run, if not
all.
"""

import json
import os
import zlib
from pathlib import Path
from typing import Any

import pytest
from absl import flags


class _Outcomes:
    def __init__(self, path: Path, part: int, seed: int, only: list[str]) -> None:
        self._path, self._part, self._seed, self._only = path, part, seed, only

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
        items[:] = [item for item in items if self._takes(item.nodeid)]

    def _takes(self, test: str) -> bool:
        if self._only and test not in self._only:
            return test.partition("::")[0] in self._only and self._is_in_part(test)
        return bool(self._only) or self._is_in_part(test)

    def _is_in_part(self, test: str) -> bool:
        return zlib.crc32(test.encode(), self._seed) % self._part == 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" or report.outcome != "passed":
            outcome = report.outcome
            if hasattr(report, "wasxfail"):  # not strict: it may pass too
                outcome = "passed"
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
        seed = int(os.environ.get("CURTA_SEED", "0"))
        only = json.loads(os.environ.get("CURTA_ONLY", "[]"))
        config.pluginmanager.register(_Outcomes(Path(path), part, seed, only))
