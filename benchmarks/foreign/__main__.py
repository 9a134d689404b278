"""Programs of other projects over Curta and JAX: `python -m benchmarks.foreign`.

The suites are fetched by git, or taken from clones that `--from` names. Every program
runs in a process for each library. Results are compared first: with NumPy's, where the
suite has a version in NumPy, and those of both libraries with each other. Then samples
of the processes alternate. Ratios are taken of the samples of one turn, and the median
is reported; with more than one `--jax`, against the faster. Memory is the peak of a
call beyond the arguments, with all that the library keeps.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.foreign.suites import SUITES, Suite

ROOT = Path(__file__).parents[2]
SAMPLE_SECONDS = 0.03  # a sample repeats a program until it takes about this long
MIN_PEAK = 1 << 20  # bytes below which memory is not compared
HEADER = ("program", "Curta", "JAX", "wall", "processor", "first", "memory", "remark")


@dataclass(frozen=True)
class Row:
    """Ratios of a program, Curta to the faster JAX; nan where it did not run."""

    name: str
    curta: float = math.nan  # seconds of wall time
    jax: float = math.nan
    wall: float = math.nan
    processor: float = math.nan
    first: float = math.nan
    memory: float = math.nan
    remarks: list[str] = field(default_factory=list)

    def cells(self) -> list[str]:
        ratios = (self.wall, self.processor, self.first, self.memory)
        times = (f"{1e3 * t:.3g} ms" for t in (self.curta, self.jax))
        return [self.name, *times, *(f"{r:.2f}" for r in ratios), self.remark]

    @property
    def remark(self) -> str:
        return "; ".join(self.remarks).replace("|", "/")


class Child:
    """A process that runs a program over one library."""

    def __init__(self, python: str, library: str, cpu: str, cache: str):
        flags = os.environ.get("XLA_FLAGS", "")
        env = os.environ | {"JAX_PLATFORMS": "cpu", "CURTA_CACHE_DIR": cache}
        env |= {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
        if cpu:
            env |= {"CURTA_CPU": cpu, "XLA_FLAGS": f"{flags} --xla_cpu_max_isa=AVX2"}
        self.process = subprocess.Popen(
            [python, "-m", "benchmarks.foreign.run", library],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=env,
        )

    def ask(self, *command: Any) -> list[Any]:
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return ["error", "the process ended"]
        line = self.process.stdout.readline()
        return json.loads(line) if line else ["error", "the process ended"]

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream
            stream.close()


def folder_of(suite: str, source: Path | None) -> Path:
    """The clone of a suite; without `source`, it is cloned from GitHub, once."""
    repository = SUITES[suite].repository
    name = repository.rpartition("/")[2]
    if source:
        return source / name
    folder = Path(__file__).parents[1] / "out" / "foreign" / name
    if repository and not folder.exists():
        url = f"https://github.com/{repository}"
        subprocess.run(["git", "clone", "--depth", "1", url, str(folder)], check=True)
    return folder


def measure(suite: str, folder: Path, name: str, options: argparse.Namespace) -> Row:
    pythons = [(options.curta, "curta"), *((p, "jax") for p in options.jax)]
    if SUITES[suite].has_numpy and not options.no_numpy:
        pythons.append((options.curta, "numpy"))
    title = f"{suite}/{name}"
    with tempfile.TemporaryDirectory() as cache:
        children = [Child(p, lib, options.cpu, cache) for p, lib in pythons]
        try:
            kept = [f"{cache}/results{i}.npz" for i in range(len(children))]
            loaded = [
                child.ask("load", suite, str(folder), name, options.preset, path)
                for child, path in zip(children, kept, strict=True)
            ]
            wrong = [
                f"{lib}: {told[1]}"
                for (_, lib), told in zip(pythons, loaded, strict=True)
                if told[0] != "ok" and lib != "numpy"
            ]
            if wrong:
                return Row(title, remarks=wrong)
            wrong = list(differences(SUITES[suite], pythons, loaded, kept))
            timed = 1 + len(options.jax)
            return ratios(title, children[:timed], loaded[:timed], wrong, options)
        finally:
            for child in children:
                child.end()


def differences(
    suite: Suite, pythons: list[Any], loaded: list[Any], kept: list[str]
) -> Iterator[str]:
    """Remarks on results that differ: from NumPy's, else from the first JAX's."""
    libraries = [library for _, library in pythons]
    arrays: list[list[np.ndarray]] = []
    for told, path in zip(loaded, kept, strict=True):
        if told[0] == "ok":
            with np.load(path) as saved:
                arrays.append([saved[key] for key in saved.files])
        else:
            arrays.append([])
    peer = "numpy" if arrays[-1] and libraries[-1] == "numpy" else "jax"
    oracle = arrays[-1] if peer == "numpy" else arrays[1]
    for i, library in enumerate(libraries):
        if library != peer and not same(arrays[i], oracle, suite.rtol):
            yield f"{library} differs from {peer}"


def same(ours: list[np.ndarray], theirs: list[np.ndarray], rtol: float) -> bool:
    if len(ours) != len(theirs):
        return False
    for x, y in zip(ours, theirs, strict=True):
        scale = np.max(np.abs(y[np.isfinite(y)]), initial=1e-30) if y.size else 1
        if x.shape != y.shape or not np.allclose(
            x, y, rtol=rtol, atol=rtol * float(scale), equal_nan=True
        ):
            return False
    return True


def ratios(
    title: str,
    children: list[Child],
    loaded: list[Any],
    wrong: list[str],
    options: argparse.Namespace,
) -> Row:
    """Sample the children in turns."""
    once = [child.ask("time", 1)[1] for child in children]
    calls = [max(1, min(2000, int(SAMPLE_SECONDS / max(t, 1e-7)))) for t in once]
    rounds = options.rounds if max(once) < 1 else 3
    samples = [
        [c.ask("time", n)[1:] for c, n in zip(children, calls, strict=True)]
        for _ in range(rounds)
    ]

    def ratio(kind: int) -> float:
        return max(
            statistics.median(t[0][kind] / max(t[i][kind], 1e-9) for t in samples)
            for i in range(1, len(children))
        )

    best = [min(turn[i][0] for turn in samples) for i in range(len(children))]
    peaks = [max(child.ask("peak")[1], MIN_PEAK) for child in children]
    firsts = [told[1] for told in loaded]
    return Row(
        title,
        curta=best[0],
        jax=min(best[1:]),
        wall=ratio(0),
        processor=ratio(1),
        first=firsts[0] / min(firsts[1:]),
        memory=peaks[0] / min(peaks[1:]),
        remarks=wrong,
    )


def summary(rows: list[Row]) -> list[str]:
    """A line for each suite: geometric means, and the rows above 1."""
    head = "| suite | programs | wall | processor | first | above 1 |"
    lines = [head, "|---|---:|---:|---:|---:|---|"]
    for suite in SUITES:
        mine = [r for r in rows if r.name.startswith(f"{suite}/") and r.wall == r.wall]
        if not mine:
            continue
        means = (
            statistics.geometric_mean(max(getattr(r, kind), 1e-4) for r in mine)
            for kind in ("wall", "processor", "first")
        )
        slow = "; ".join(f"{r.name} {r.wall:.2f}" for r in mine if r.wall > 1)
        cells = (suite, str(len(mine)), *(f"{m:.3f}" for m in means), slow)
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def markdown(rows: list[Row]) -> str:
    table = [HEADER, ["---", *["---:"] * 6, "---"], *(row.cells() for row in rows)]
    lines = ("| " + " | ".join(cells) + " |" for cells in table)
    return "\n".join([*lines, "", *summary(rows), ""])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="source", type=Path, help="folder with clones")
    parser.add_argument("--curta", default=sys.executable, help="a Python")
    parser.add_argument("--jax", nargs="*", default=[sys.executable], help="Pythons")
    parser.add_argument("--suite", nargs="*", default=list(SUITES), choices=SUITES)
    parser.add_argument("--only", default="", help="programs whose name contains this")
    parser.add_argument("--preset", default="S", choices=("S", "M", "L", "paper"))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-numpy", action="store_true", help="don't compare with it")
    parser.add_argument(
        "--cpu", default="", help="CURTA_CPU, such as x86-64-v3; holds JAX to AVX2"
    )
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "out")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    print("\t".join(HEADER))
    rows = []
    for suite in options.suite:
        folder = folder_of(suite, options.source)
        for name in SUITES[suite].names(folder, options.preset):
            if options.only in f"{suite}/{name}":
                rows.append(measure(suite, folder, name, options))
                print("\t".join(rows[-1].cells()), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    title = f"foreign-{options.preset}{'-' + options.cpu if options.cpu else ''}"
    (options.out / f"{title}.md").write_text(markdown(rows))
    (options.out / f"{title}.json").write_text(
        json.dumps([asdict(row) for row in rows], indent=1)
    )
    print("\n" + "\n".join(summary(rows)))


if __name__ == "__main__":
    main()
