"""Search for programs that Curta computes wrongly.

    python -m tests.stress.fuzz --minutes 10 [--seed 1] [--large] [--tuning shrunk]

Programs are run by their `eval` rules and compiled, with 2 threads and with 1 or 7,
with donated arguments, under several settings. Failures are shrunk by Hypothesis,
printed, and kept in tests/fuzzed/ (`--keep`), where `make test` runs them from then on.
"""

from __future__ import annotations

import argparse
import collections
import hashlib
import secrets
import sys
import time
from pathlib import Path

from tests.stress.fuzz import strategies
from tests.stress.fuzz.checks import Mismatch
from tests.stress.fuzz.workers import SECONDS, Crash, Worker

KEPT = Path(__file__).parents[3] / "tests" / "fuzzed"
ROUND = 50  # programs between two seeds of Hypothesis
SHRINKING_SECONDS = 15  # for a program, once one did not answer


class Search:
    """Worker processes, and what was found."""

    def __init__(self, tuning: str) -> None:
        more = {"CURTA_TUNING": tuning} if tuning else {}
        self.main = Worker(CURTA_NUM_THREADS="2", **more)
        self.others = [Worker(CURTA_NUM_THREADS=n, **more) for n in ("1", "7")]
        self.counts: collections.Counter[str] = collections.Counter()
        self.found: dict[str, tuple[str, str]] = {}

    def check(self, program: strategies.Program) -> None:
        """Run a program everywhere; what is wrong is raised."""
        self.counts["programs"] += 1
        text = program.to_json()
        try:
            got, refused = self.main(strategies.checked, text)
            self.counts["refused by eval too"] += refused
            other = self.others[program.seed % 2]
            other(strategies.checked_threads, text, got)
        except Exception as error:
            where = str(error.__cause__ or "").rstrip().splitlines()[-12:]
            said = "" if isinstance(error, Mismatch) else "\n".join(where)
            self.last = (text, f"{type(error).__name__}: {error}\n{said}")
            if isinstance(error, Crash):  # hundreds like it will be tried
                self.set_patience(SHRINKING_SECONDS)
            raise

    def set_patience(self, seconds: float) -> None:
        """How long the processes have for a program."""
        for worker in (self.main, *self.others):
            worker.seconds = seconds

    def round(self, number: int, count: int, large: bool) -> None:
        """Let Hypothesis try so many programs, and shrink the first that fails."""
        try:
            drawn = strategies.programs(large)
            strategies.try_programs(number, count, self.check, drawn)
        except Exception:
            text, error = self.last
            self.found.setdefault(error[:60], (text, error))
            print(f"\nFOUND (seed {number}) {error}\n{text}\n", flush=True)
            self.set_patience(SECONDS)

    def stop(self) -> None:
        """End the processes."""
        for worker in (self.main, *self.others):
            worker.stop()


def keep(found: dict[str, tuple[str, str]]) -> None:
    """Write the programs to where `make test` finds them."""
    KEPT.mkdir(exist_ok=True)
    for text, _ in found.values():
        name = hashlib.sha256(text.encode()).hexdigest()[:12]
        (KEPT / f"{name}.json").write_text(text + "\n")


def main() -> int:
    """Search for the time that was given; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="tests.stress.fuzz")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--large", action="store_true", help="some large arrays")
    parser.add_argument("--tuning", default="", help="CURTA_TUNING of the processes")
    parser.add_argument("--keep", action="store_true", help="keep failures as tests")
    options = parser.parse_args()
    number = secrets.randbits(32) if options.seed is None else options.seed
    print(f"seed {number}, {options.minutes:g} minutes", flush=True)
    search, start = Search(options.tuning), time.monotonic()
    while time.monotonic() - start < 60 * options.minutes:
        search.round(number, ROUND, options.large)
        number += 1
        print(
            f"{time.monotonic() - start:.0f} s: {dict(search.counts)},"
            f" {len(search.found)} kinds of failures",
            flush=True,
        )
    search.stop()
    if options.keep:
        keep(search.found)
    return bool(search.found)


if __name__ == "__main__":
    sys.exit(main())
