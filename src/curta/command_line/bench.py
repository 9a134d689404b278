"""`curta bench`: where the time of a program goes, from runs in processes of their own.

The first run has an empty kernel cache; the others are what users see. The times of
compiled functions come from one more run, in which each call is waited for.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from curta.api.readable import timed
from curta.command_line import programs
from curta.command_line.usage import UsageError, check_writable


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "bench", help="where a program's time goes: tracing, compiling, functions"
    )
    parser.add_argument(
        "--runs", type=int, default=3, help="processes with a warm cache (3)"
    )
    parser.add_argument(
        "--json", metavar="FILE", help="write the figures to a file as well"
    )
    programs.add_program(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the program several times and print what was measured."""
    programs.check_program(options)
    if options.runs < 1:
        raise UsageError(f"--runs must be at least 1, not {options.runs}")
    if options.json:
        check_writable(options.json)
    with tempfile.TemporaryDirectory(prefix="curta-bench-") as folder:
        cold = _measured(options, folder, calls=False)
        warm = [_measured(options, folder, calls=False) for _ in range(options.runs)]
        calls = _measured(options, folder, calls=True)
    report = {"cold": cold, "warm": warm, "functions": calls["functions"]}
    if options.json:
        with open(options.json, "w") as file:
            json.dump(report, file, indent=1)
    print(_text(report))
    return 0


def _measured(options: argparse.Namespace, folder: str, calls: bool) -> dict[str, Any]:
    """What one run of the program measured; its output goes to stderr."""
    report = os.path.join(folder, "report.json")
    flags = ["--calls"] * calls + ["-m"] * options.module
    environment = {**os.environ, "CURTA_CACHE_DIR": os.path.join(folder, "kernels")}
    start = time.time()
    module = "curta.command_line.measured"
    command = [sys.executable, "-m", module, *flags, report, repr(start)]
    ended = subprocess.run(
        [*command, *options.program], env=environment, stdout=sys.stderr, check=False
    )
    wall = time.time() - start
    if ended.returncode:
        raise UsageError(f"the program ended with status {ended.returncode}")
    if not os.path.exists(report):
        raise UsageError("the program ended without Python's own end (os._exit)")
    with open(report) as file:
        result = json.load(file)
    os.unlink(report)
    return {"wall": wall, **result}


def _text(report: dict[str, Any]) -> str:
    cold, warm = report["cold"], report["warm"]
    rows = [("", "empty cache", "kernels kept")]
    for name, title in _PARTS.items():
        later = statistics.median(run[name] for run in warm)
        rows.append((title, timed(cold[name]), timed(later)))
    kernels = str(cold["kernels"]), str(warm[-1]["kernels"])
    rows.append(("kernels compiled", *kernels))
    lines = [f"{a:<22}{b:>13}{c:>14}" for a, b, c in rows]
    walls = [run["wall"] for run in warm]
    lines.append(
        f"(kernels kept: median of {len(walls)} runs of {timed(min(walls))} to"
        f" {timed(max(walls))})"
    )
    if not report["functions"]:
        return "\n".join([*lines, "", _NO_FUNCTIONS])
    lines += ["", f"{'function':<28}{'calls':>7}{'first':>9}{'median':>9}{'all':>9}"]
    for f in sorted(report["functions"], key=lambda f: -f["total"]):
        times = timed(f["first"]), timed(f["median"]), timed(f["total"])
        lines.append(
            f"{f['name']:<28}{f['calls']:>7}" + "".join(f"{t:>9}" for t in times)
        )
    return "\n".join(lines)


_NO_FUNCTIONS = """\
No compiled function was called. Operations outside of jit take some microseconds each:
put a jit around the largest piece (python -m cProfile -s cumulative shows which)."""
_PARTS = {
    "wall": "the whole process",
    "importing": "start and import",
    "tracing": "tracing",
    "compilation": "compiling or loading",
}
