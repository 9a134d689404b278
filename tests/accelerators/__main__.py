"""Tiers A to D of docs/design/stablehlo.md, in a box of time.

    python -m tests.accelerators                   # all, in half an hour
    python -m tests.accelerators --minutes 90      # 0: without a limit
    python -m tests.accelerators --tier C --tier D -n 1 -- -k donated

Tests run by parts, each in processes of its own. A part has a share of the time and
passes unused time on to the next ones. Tests are not started after the limit. The
output ends with the parts that ran, those that did not, and the reasons. The exit
status is 1 if a test fails. Options after `--` go to pytest.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.accelerators import shim
from tests.accelerators.running import Outcome, run_pytest

HERE = Path(__file__).parent


class Part(NamedTuple):
    """Tests of a tier, and their share of the time.

    With `on_devices` the default device is one of four of the shim's.
    """

    tier: str
    name: str
    paths: tuple[str, ...]
    share: float
    on_devices: bool = False


# By file; those that no part names are of tier A.
_D = ("test_pjrt_processes", "test_pjrt_endings", "test_pjrt_delays")
_C = ("test_pjrt_header", "test_pjrt_cpu", "test_pjrt_backend")
_B = (
    *("test_pjrt_ahead_of_time", "test_topologies", "test_pjrt_models"),
    *("test_pjrt_corpus", "test_vendor"),
)
_SAMPLES = ("test_conformance",)
_SUITE = (
    "tests/numpy/test_operators.py",
    "tests/numpy/test_indexing.py",
    "tests/numpy/test_reductions.py",
    "tests/random/test_gamma_loops.py",
    "tests/experimental/test_layout.py",
)


def _files(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"tests/accelerators/{name}.py" for name in names)


def parts() -> list[Part]:
    """All parts, in the order in which they run."""
    others = sorted(p.stem for p in HERE.glob("test_*.py"))
    others = [name for name in others if name not in (*_D, *_C, *_B, *_SAMPLES)]
    return [
        Part("D", "several processes", _files(_D), 0.2),
        Part("C", "the binding", _files(_C), 0.1),
        Part("C", "arrays and programs", ("tests/accelerators/on_devices",), 0.2, True),
        Part("C", "of the suite", _SUITE, 0.1, True),
        Part("A", "run by XLA:CPU", _files(others), 0.2),
        Part("B", "compiled ahead of time", _files(_B), 0.25),
        Part("A", "samples of all ops", _files(_SAMPLES), 0.25),
    ]


XLA_FLAGS = (
    # TensorFlow's default would have maxima pass over NaNs.
    "--xla_cpu_enable_fast_min_max=false",
    # By default XLA leaves out roundings to small floats between ops.
    "--xla_allow_excess_precision=false",
)


def on_the_shim(folder: Path) -> dict[str, str]:
    """Variables of a process whose default device is one of four of the shim's."""
    described = folder / "shim.json"
    options = {"cpu_device_count": 4}
    said = {"library_path": os.fspath(shim.build()), "create_options": options}
    described.write_text(json.dumps(said))
    return {
        "PJRT_NAMES_AND_LIBRARY_PATHS": f"shim:{described}",
        "JAX_PLATFORMS": "shim,cpu",
        "XLA_FLAGS": " ".join(XLA_FLAGS),
        "CURTA_CACHE_DIR": os.fspath(folder / "cache"),
        "CURTA_ON_DEVICES": "1",
    }


class _Clock:
    """Deals the time out to parts, by their shares of what is left."""

    def __init__(self, minutes: float, chosen: Sequence[Part]) -> None:
        self._end = time.monotonic() + 60 * minutes if minutes else None
        self._shares = sum(part.share for part in chosen)

    def minutes(self, part: Part) -> float:
        """Those of a part, in which its tests may begin; 0 for no limit."""
        if self._end is None:
            return 0.0
        left = max(self._end - time.monotonic(), 1.0) / 60
        result = left * part.share / self._shares
        self._shares -= part.share
        return result


# What a test that was begun in time may take beyond it.
_PATIENCE = 600.0


def _run(part: Part, minutes: float, options: Sequence[str], folder: Path) -> Outcome:
    print(f"== tier {part.tier}, {part.name}: {minutes:.1f} minutes", flush=True)
    environment = {}
    if part.on_devices:
        try:
            environment = on_the_shim(folder)
        except pytest.skip.Exception as why:
            return Outcome(Counter(), Counter({str(why): 1}), 0.0)
    limit = 60 * minutes + _PATIENCE if minutes else None
    given = ["-p", "tests.accelerators.time_box", f"--minutes={minutes}"]
    given += ["-rN", "--tb=short", *options]
    return run_pytest(part.paths, environment, given, limit)


def _say(results: Sequence[tuple[Part, Outcome]], chosen: Sequence[str]) -> None:
    print("== what ran")
    by_tier = defaultdict(list)
    for part, outcome in results:
        by_tier[part.tier].append((part.name, outcome))
    for tier in "ABCD":
        if tier not in chosen:
            print(f"tier {tier}: not asked for")
        for name, outcome in by_tier[tier]:
            print(f"tier {tier}, {name}: {outcome} ({outcome.seconds:.0f} s)")
            for reason, count in sorted(outcome.reasons.items()):
                print(f"    {count}: {reason}")
    print("tier E: not run by this command: make test-gpu")


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=30.0, help="0: no limit")
    parser.add_argument("--tier", action="append", choices="ABCD", help="these alone")
    parser.add_argument("-n", "--workers", default="2", help="processes of a part")
    parser.add_argument("pytest", nargs="*", help="options of pytest, after --")
    args = parser.parse_args()
    chosen = args.tier or list("ABCD")
    todo = [part for part in parts() if part.tier in chosen]
    clock = _Clock(args.minutes, todo)
    options = ["-n", args.workers, *args.pytest]
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for part in todo:
            outcome = _run(part, clock.minutes(part), options, Path(folder))
            results.append((part, outcome))
    _say(results, chosen)
    # A part without any test that ran says why; one that does not is a failure.
    failed = [
        outcome
        for _, outcome in results
        if not outcome.is_good
        and (outcome.counts or outcome.stopped or not outcome.reasons)
    ]
    return 1 if failed or not any(o.counts for _, o in results) else 0


if __name__ == "__main__":
    sys.exit(main())
