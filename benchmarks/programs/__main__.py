"""Whole programs with libraries over Curta and JAX: `python -m benchmarks.programs`.

Each runs in fresh processes, in turns: one of each library, with an empty cache of
kernels, then Curta once more with the cache that it left. JAX has its own settings,
which keep nothing on disk: `cold` and `warm` are divided by the same time. A first call
is from building the model to the first result; imports are not in it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np

from benchmarks.harness import CLOCKS, Timing
from benchmarks.machine import this_machine
from benchmarks.programs import PROGRAMS
from benchmarks.report import HEADER, Row, markdown, save

# The ratio aimed at, by what is measured.
GROUPS = {
    "programs, step": ("step", 0.30),
    "programs, first call cold": ("cold", 0.22),
    "programs, first call warm": ("warm", 0.05),
    "programs, peak memory": ("peak", 0.60),
}

Told = dict[str, float]


def run(library: str, program: str, cache: str, seconds: float, clock: str) -> dict:
    """The report of a process on a program."""
    command = [sys.executable, "-m", "benchmarks.programs.run", library, program]
    done = subprocess.run(
        [*command, "--seconds", str(seconds), "--clock", clock],
        env=os.environ | {"CURTA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode:
        raise RuntimeError(f"over {library}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def one_round(program: str, seconds: float, clock: str) -> tuple[Told, Told]:
    """The times of Curta and JAX; RuntimeError if their results differ."""
    with tempfile.TemporaryDirectory() as cache:
        peer = run("jax", program, cache, seconds, clock)
        cold = run("curta", program, cache, seconds, clock)
        warm = run("curta", program, cache, 0.0, clock)
    for mine, theirs in zip(cold["answer"], peer["answer"], strict=True):
        x, y = np.asarray(mine, float), np.asarray(theirs, float)
        atol = peer["rtol"] * max(1e-6, float(np.abs(y).max(initial=0)))
        if not np.allclose(x, y, rtol=peer["rtol"], atol=atol):
            raise RuntimeError(f"the answers differ by {np.abs(x - y).max():.2g}")
    curta = dict(cold=cold["first"], warm=warm["first"], **_kept(cold))
    return curta, dict(cold=peer["first"], warm=peer["first"], **_kept(peer))


def _kept(told: dict) -> Told:
    return {name: told[name] for name in ("step", "peak")}


def timings(program: str, rounds: int, seconds: float, clock: str) -> dict[str, Timing]:
    """Medians by what is measured; a problem if there is one."""
    samples: dict[str, tuple[list[float], list[float]]]
    samples = defaultdict(lambda: ([], []))
    try:
        for _ in range(rounds):
            for i, told in enumerate(one_round(program, seconds, clock)):
                for name, value in told.items():
                    samples[name][i].append(value)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return {name: Timing(problem=str(error)) for name, _ in GROUPS.values()}
    return {k: Timing(*map(statistics.median, pair)) for k, pair in samples.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0, help="of steps, a round")
    parser.add_argument("--clock", default="wall", choices=CLOCKS)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "out")
    options = parser.parse_args()
    print("\t".join(HEADER))
    done: dict[str, list[Row]] = {group: [] for group in GROUPS}
    for module, names in PROGRAMS.items():
        for program in (f"{module}.{name}" for name in names):
            if options.only not in program:
                continue
            told = timings(program, options.rounds, options.seconds, options.clock)
            for group, (name, target) in GROUPS.items():
                title, size = f"{name}: {program}", name == "peak"
                row = Row(title, target, told[name], is_size=size, group=group)
                done[group].append(row)
                print("\t".join(row.cells()), flush=True)
    rows = [row for members in done.values() for row in members]
    machine = this_machine()
    save(rows, machine, options.out, "programs")
    print()
    print(markdown(rows, machine))


if __name__ == "__main__":
    main()
