"""Which decisions by limits of the tuning the tests take, and which way.

    python -m tests.stress.limits tests/conformance tests/test_random_programs.py

Runs pytest on what is named, under the default and the shrunk tuning, with limits that
write down how each comparison with them came out. Prints the places where a limit
always decided alike, and the limits that decided nothing. Options after `--` go to
pytest. The exit status is the status of the tests.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from curta._settings.tuning import Tuning, parse_tuning
from curta.config import config

SOURCE = Path(__file__).parents[2] / "src" / "curta"
KERNELS = SOURCE.parent.parent / ".pytest_cache" / "kernels"
OUTPUT = "CURTA_DECISIONS"  # the folder for what processes have seen

# By place and limit: the outcomes of comparisons; empty where it is only reckoned with.
Decisions = dict[tuple[str, str], set[bool]]


class Recorded(int):
    """A limit that knows its name, and what it decided."""

    name: str
    decisions: Decisions = defaultdict(set)

    @classmethod
    def of(cls, value: int, name: str) -> Recorded:
        made = cls(value)
        made.name = name
        return made

    def __mul__(self, other: Any) -> Any:
        product = int(self) * other
        return product if type(product) is not int else Recorded.of(product, self.name)

    __rmul__ = __mul__


def _note(name: str, outcome: bool | None) -> None:
    frame = sys._getframe(2)
    while not frame.f_code.co_filename.startswith(str(SOURCE)):
        if frame.f_back is None:
            return
        frame = frame.f_back
    path = Path(frame.f_code.co_filename).relative_to(SOURCE)
    found = Recorded.decisions[f"{path}:{frame.f_lineno}", name]
    if outcome is not None:
        found.add(outcome)


def _comparing(method: str) -> Callable[..., Any]:
    compare = getattr(int, method)
    # `size < limit` comes here as `limit > size`: limits are subclasses of int.
    more = method in ("__gt__", "__ge__")

    def decide(self: Recorded, other: Any) -> Any:
        outcome = compare(self, other)
        if outcome is not NotImplemented:
            _note(self.name, outcome is more)
        return outcome

    return decide


def _reckoning(method: str) -> Callable[..., Any]:
    reckon = getattr(int, method)

    def result(self: Recorded, other: Any) -> Any:
        _note(self.name, None)
        return reckon(self, other)

    return result


for _method in ("__lt__", "__le__", "__gt__", "__ge__"):
    setattr(Recorded, _method, _comparing(_method))
for _method in ("__floordiv__", "__rfloordiv__", "__add__", "__radd__", "__mod__"):
    setattr(Recorded, _method, _reckoning(_method))


class Watched(Tuning):
    """Limits that write down what they decide, and that they were read."""

    def __getattribute__(self, name: str) -> Any:
        value = super().__getattribute__(name)
        if type(value) is Recorded:
            Recorded.decisions["", name].add(True)
        return value


def recorded(tuning: Tuning) -> Tuning:
    """The same limits, watched."""
    values = {f.name: getattr(tuning, f.name) for f in dataclasses.fields(tuning)}
    return Watched(
        **{n: Recorded.of(v, n) if type(v) is int else v for n, v in values.items()}
    )


# ---- as a plugin of pytest


def pytest_configure(config: pytest.Config) -> None:
    """Replace the tuning of the process."""
    _replace()


def _replace() -> None:
    config.update("curta_tuning", recorded(parse_tuning(config.tuning)))


def pytest_unconfigure(config: pytest.Config) -> None:
    """Keep what was decided."""
    found = [[*key, sorted(v)] for key, v in Recorded.decisions.items()]
    path = Path(os.environ[OUTPUT]) / f"{os.getpid()}.json"
    path.write_text(json.dumps(found))


# ---- the command


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", nargs="+", help="what pytest is to run")
    options, more = parser.parse_known_args()
    status = 0
    decisions: Decisions = defaultdict(set)
    for name in ("default", "shrunk"):
        with tempfile.TemporaryDirectory() as folder:
            # Programs are compiled, and not found by their names, while watched.
            environment = {"CURTA_TUNING": name, OUTPUT: folder, "CURTA_CHECK": "1"}
            environment["CURTA_CACHE_DIR"] = str(KERNELS)
            command = [sys.executable, "-m", "pytest", "-p", "tests.stress.limits"]
            print(f"{name}: {' '.join(options.tests)}", flush=True)
            ran = subprocess.run(
                [*command, *options.tests, *more], env={**os.environ, **environment}
            )
            status = status or ran.returncode
            for file in Path(folder).iterdir():
                for place, limit, outcomes in json.loads(file.read_text()):
                    decisions[place, limit] |= set(outcomes)
    print("\n".join(report(decisions)))
    return status


def _reads(place: str, limit: str) -> bool:
    """Whether the module of a place reads the limit, and has no size made of it."""
    return bool(place) and f".{limit}" in (SOURCE / place.split(":")[0]).read_text()


def report(decisions: Decisions) -> Iterable[str]:
    """The comparisons decided one way only, and the limits not compared at all."""
    decided = {k: v for k, v in sorted(decisions.items()) if v and _reads(*k)}
    one_way = {key: v for key, v in decided.items() if len(v) == 1}
    yield f"{len(decided)} places, {len(one_way)} of which decided one way only:"
    for (place, limit), (within,) in one_way.items():
        yield f"  {place}  {limit}: always {'within' if within else 'beyond'} it"
    read = {limit for place, limit in decisions if not place}
    unread = [f.name for f in dataclasses.fields(Tuning) if f.name not in read]
    yield f"{len(unread)} limits were not read:"
    yield "  " + " ".join(unread)


if __name__ == "__main__":
    sys.exit(main())
