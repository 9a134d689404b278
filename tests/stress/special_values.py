"""Errors of special functions and distributions against mpmath, region by region.

    python -m tests.stress.special_values                     # every function
    python -m tests.stress.special_values gammainc stats.beta # those with such names
    python -m tests.stress.special_values --jax PYTHON     # an interpreter that has JAX
    python -m tests.stress.special_values --table        # docs/design/special_values.md

Prints the regions of each function with an error above the goal, 1e-13 in float64 and
1e-6 in float32 (see `tests/accuracy/sweep.py`), with SciPy's and JAX's error; the exit
status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.special
import scipy.stats
from tests.accuracy.special_table import FUNCTIONS
from tests.accuracy.sweep import GOAL, Point, Swept, error, points

import curta
import curta.numpy
import curta.scipy.special
import curta.scipy.stats
import scipy

PAGE = Path(__file__).parents[2] / "docs" / "design" / "special_values.md"
Row = dict[tuple[str, str], float]  # errors by (package, dtype)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of functions' names")
    parser.add_argument("--jax", type=Jax, help="an interpreter that has JAX")
    parser.add_argument("--table", action="store_true", help="write the page's table")
    parser.add_argument("--dtype", choices=list(GOAL), help="only of this dtype")
    parser.add_argument("--most", type=int, default=24, help="points of a region")
    parser.add_argument("--compiled", action="store_true", help="jit each function")
    parser.add_argument("--save", help="a file for the errors, to join in a table")
    parser.add_argument("--join", nargs="*", default=[], help="files to join")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found: dict[tuple[str, str], Row] = {}
    at: dict[tuple[str, str, str], str] = {}
    for file in options.join:
        for path, region, package, dtype, worst in json.loads(Path(file).read_text()):
            found.setdefault((path, region), {})[package, dtype] = worst
    for i, function in enumerate(FUNCTIONS):
        asked = not options.names or any(n in function.path for n in options.names)
        if options.join or not asked:
            continue
        for dtype in [options.dtype] if options.dtype else GOAL:
            _measure(i, function, dtype, options, found, at)
            for region in function.regions:
                _report(function, region, dtype, found, at)
        if options.save:
            flat = [(*k, *p, e) for k, row in found.items() for p, e in row.items()]
            Path(options.save).write_text(json.dumps(flat))
    above = sum(row.get(("curta", d), 0) > g for row in found.values()
                for d, g in GOAL.items())  # fmt: skip
    print(f"{len(found)} regions of {len(FUNCTIONS)} functions, {above} above the goal")
    if options.table:
        _write(found)
    return int(above > 0)


def _measure(
    index: int,
    function: Swept,
    dtype: str,
    options: Any,
    found: dict[tuple[str, str], Row],
    at: dict[tuple[str, str, str], str],
) -> None:
    """Add the largest errors of all regions."""
    cases = {r: list(points(function, r, dtype, options.most))
             for r in function.regions}  # fmt: skip
    every = [p for region in cases.values() for p in region]
    if not every:
        return
    columns = [np.array(c, dtype) for c in zip(*(p.args for p in every), strict=True)]
    values = {
        "curta": evaluate(curta, function, columns, options.compiled),
        "scipy": evaluate(scipy, function, columns),
    }
    if options.jax:
        values["jax"] = options.jax(function, columns)
    for package, got in values.items():
        start = 0
        for region, some in cases.items():
            part, start = got[start : start + len(some)], start + len(some)
            worst, where = _worst(part, some, dtype)
            found.setdefault((function.path, region), {})[package, dtype] = worst
            if package == "curta":
                at[function.path, region, dtype] = where


def _worst(got: Any, some: list[Point], dtype: str) -> tuple[float, str]:
    errors = [error(v, p, dtype) for v, p in zip(got, some, strict=True)]
    if not errors:
        return 0.0, ""
    i = int(np.argmax(errors))
    return errors[i], f"{some[i].args}: {got[i]!r}, exact {float(some[i].exact)!r}"


def evaluate(
    package: Any, function: Swept, columns: list[Any], compiled: bool = False
) -> Any:
    """The values of a package's function, of arguments in columns."""
    call = function.on(package)
    given: list[Any] = list(columns)
    if function.path.endswith(("polygamma", "expn")):
        given[0] = given[0].astype(int)
    if package.__name__ == "scipy":
        with np.errstate(all="ignore"):
            result = call(*given)
    else:
        with package.enable_x64(True):
            call = package.jit(call) if compiled else call
            result = call(*map(package.numpy.asarray, given))
    return np.asarray(result if function.output is None else result[function.output])


_JAX = """
import sys, numpy, jax, jax.scipy.special, jax.scipy.stats
jax.config.update("jax_enable_x64", True)
for line in sys.stdin:
    path, output, file = line.split()
    columns = [*numpy.load(file).values()]
    try:
        if path.endswith(("polygamma", "expn")):
            columns[0] = columns[0].astype(int)
        f = jax
        for part in path.split("."):
            f = getattr(f, part)
        value = jax.jit(f)(*columns)
        value = value if output == "None" else value[int(output)]
    except (AttributeError, TypeError, ValueError):
        value = numpy.full(columns[0].shape, numpy.nan)
    numpy.save(file[:-1] + "y", value)
    print("done", flush=True)
"""


class Jax:
    """Another interpreter, which computes values of JAX's functions."""

    def __init__(self, python: str) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([python, "-c", _JAX], **pipes)  # type: ignore

    def __call__(self, function: Swept, columns: list[Any]) -> Any:
        """The values of arguments in columns; NaN if there is no such function."""
        path = f"{function.module}.{function.path}".lstrip(".")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "columns.npz"
            np.savez(file, *columns)
            assert self.process.stdin and self.process.stdout
            self.process.stdin.write(f"{path} {function.output} {file}\n")
            self.process.stdin.flush()
            assert self.process.stdout.readline() == "done\n", "JAX has exited"
            return np.load(file.with_suffix(".npy"))


def _report(
    function: Swept,
    region: str,
    dtype: str,
    found: dict[tuple[str, str], Row],
    at: dict[tuple[str, str, str], str],
) -> None:
    row = found.get((function.path, region), {})
    mine = row.get(("curta", dtype), 0.0)
    others = {p: e for (p, d), e in row.items() if d == dtype and p != "curta"}
    if mine > GOAL[dtype]:
        beside = ", ".join(f"{p} {e:.2g}" for p, e in others.items())
        where = at[function.path, region, dtype]
        name = f"{function.path} {region}"
        print(f"{mine:9.2g} {dtype} {name} ({beside}) at {where}", flush=True)


def _write(found: dict[tuple[str, str], Row]) -> None:
    """Put the table into the page, between its marks."""
    known = {package for row in found.values() for package, _ in row}
    packages = [p for p in ("curta", "scipy", "jax") if p in known]
    head = [f"{p} {d.replace('float', 'f')}" for d in GOAL for p in packages]
    found = {k: row for k, row in found.items()
             if any(e > GOAL[d] for (_, d), e in row.items())}  # fmt: skip
    lines = ["| function | region | " + " | ".join(head) + " |"]
    lines.append("|---|---|" + "---:|" * len(head))
    for (path, region), row in found.items():
        cells = [_cell(row.get((p, d))) for d in GOAL for p in packages]
        lines.append(f"| {path} | {region} | " + " | ".join(cells) + " |")
    text = PAGE.read_text()
    start, end = text.index("<!-- table -->"), text.index("<!-- end -->")
    page = text[:start] + "<!-- table -->\n" + "\n".join(lines) + "\n" + text[end:]
    PAGE.write_text(page)


def _cell(worst: float | None) -> str:
    return "" if worst is None else "wrong" if worst >= 1 else f"{worst:.0e}"


if __name__ == "__main__":
    sys.exit(main())
