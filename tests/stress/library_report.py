"""Outcomes of the tests of a library over JAX and over Curta, as a table."""

import collections
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

import curta

PASSED, SKIPPED, NOT_COLLECTED = "passed", "skipped", "not collected"
COLUMNS = ("library", "version", "part", "Curta", "JAX", "share", "not counted")


@dataclass
class Outcome:
    """The outcome of a test, the last line of its exception, and its time."""

    outcome: str
    message: str
    seconds: float


def outcomes(out: Path) -> dict[str, Outcome]:
    """The outcomes by test that a run has left."""
    found: dict[str, Outcome] = {}
    for line in out.read_text().splitlines():
        said = json.loads(line)
        was = found.get(said["test"])
        if was is None or was.outcome == PASSED:  # a failing teardown comes later
            known = (said["outcome"], said["message"], said["seconds"])
            found[said["test"]] = Outcome(*known)
    return found


@dataclass
class Compared:
    """The tests of a library that pass over JAX, and what they do over Curta."""

    name: str
    version: str
    part: int
    timed: bool = True
    passed: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    # Tests and files that are not compared, by reason.
    not_counted: dict[str, int] = field(default_factory=collections.Counter)
    seconds: float = 0.0
    control_seconds: float = 0.0

    def add(
        self, control: dict[str, Outcome], measured: dict[str, Outcome], limit: float
    ) -> None:
        """Count the tests that pass over JAX within `limit` seconds."""
        whole = [m for m in measured.values() if m.outcome == NOT_COLLECTED]
        never = f"not run: {whole[0].message}" if whole else "not run"
        for test, known in control.items():
            if known.outcome != PASSED:
                reasons = {
                    SKIPPED: "skipped over JAX",
                    NOT_COLLECTED: "files that JAX cannot import",
                }
                self.not_counted[reasons.get(known.outcome, "failed over JAX")] += 1
            elif known.seconds > limit:
                self.not_counted["too long over JAX"] += 1
            else:
                self._count(test, known, measured.get(test, Outcome("", never, 0.0)))

    def _count(self, test: str, known: Outcome, got: Outcome) -> None:
        self.control_seconds += known.seconds
        self.seconds += got.seconds
        if got.outcome == PASSED:
            self.passed += 1
        else:
            self.failures[test] = got.message

    def row(self) -> tuple[str, ...]:
        """The cells of the table, as `COLUMNS` names them."""
        of = self.passed + len(self.failures)
        share = f"{100 * self.passed / of:.1f} %" if of else ""
        part = "all" if self.part == 1 else f"1 of {self.part}"
        others = ", ".join(f"{n} {why}" for why, n in sorted(self.not_counted.items()))
        counts = (str(self.passed), str(of))
        return (self.name, self.version, part, *counts, share, others)

    def times(self) -> str:
        """How long the counted tests took over both."""
        if not self.timed:
            return f"{self.name}: {self.seconds:.0f} s over Curta"
        return (
            f"{self.name}: {self.seconds:.0f} s over Curta,"
            f" {self.control_seconds:.0f} s over JAX"
        )


def table(rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, aligned."""
    cells = [COLUMNS, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(COLUMNS))]
    lines = [" | ".join(map(str.ljust, row, widths)) for row in cells]
    lines.insert(1, " | ".join("-" * width for width in widths))
    return "\n".join(f"| {line} |" for line in lines)


def summary(message: str) -> str:
    """A message without what differs between tests that fail for one reason."""
    short = re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?(e[+-]?\d+)?", "#", message)
    return short[:140]


def report(done: list[Compared], not_run: dict[str, str], into: Path) -> None:
    """Print the table, which is also kept in `into`, then failing tests by message."""
    text = table([each.row() for each in done])
    text += f"\n\nJAX {version('jax')}, Curta {curta.__version__}\n"
    text += "".join(f"\nNOT RUN: {name}: {why}" for name, why in not_run.items())
    into.parent.mkdir(parents=True, exist_ok=True)
    into.write_text(text + "\n")
    print("", text, "", *(each.times() for each in done), sep="\n")
    reasons = collections.defaultdict(list)
    for each in done:
        for test, message in each.failures.items():
            reasons[summary(message)].append(f"{each.name}: {test}")
    for reason, tests in sorted(reasons.items(), key=lambda r: -len(r[1])):
        print(f"\n{len(tests)} × {reason}")
        for test in tests[:12]:
            print(f"    {test}")
