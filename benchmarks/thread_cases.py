"""The same programs on one core, on all, and called by two Python threads at once.

Each setting is a process of its own, which finds itself restricted to its cores.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from functools import cache, partial
from pathlib import Path

from benchmarks.harness import Timing

CORES = len(os.sched_getaffinity(0))
ROUNDS = 3  # processes of each library and setting, in turns

# name: how many cores the process has, and how many Python threads call
SETTINGS = {
    "on one core": (1, 1),
    "on all cores": (CORES, 1),
    "by two callers": (CORES, 2),
}
NAMES = ("map", "sum", "softmax", "product, 512", "sort", "scatter", "training step")

Found = dict[str, tuple[float, list[float]]]  # by program: seconds, sums of the results


def _run(lib: str, setting: str, directory: str) -> Found:
    program = Path(__file__).with_name("thread_programs.py")
    done = subprocess.run(
        [sys.executable, program, lib, *map(str, SETTINGS[setting])],
        env=os.environ | {"CURTA_CACHE_DIR": directory},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@cache
def _runs(setting: str) -> dict[str, list[Found]]:
    runs: dict[str, list[Found]] = {"curta": [], "jax": []}
    with tempfile.TemporaryDirectory() as directory:
        for _ in range(ROUNDS):
            for lib, found in runs.items():
                found.append(_run(lib, setting, directory))
    return runs


def _measure(name: str, setting: str) -> Timing:
    """Compared by the sums of results, then medians over processes."""
    found = {lib: [run[name] for run in runs] for lib, runs in _runs(setting).items()}
    for a, b in zip(found["curta"][0][1], found["jax"][0][1], strict=True):
        assert abs(a - b) <= 1e-3 * abs(b), f"results add up to {a} against {b}"
    return Timing(*(statistics.median(s for s, _ in runs) for runs in found.values()))


# name, how to measure it, the ratio aimed at
THREADS = [
    (f"{name}, {setting}", partial(_measure, name, setting), 1.0)
    for name in NAMES
    for setting in SETTINGS
]
