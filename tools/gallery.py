"""Run the programs of examples/ for the gallery of the documentation.

    python tools/gallery.py [--changed] [--times] [NAME ...]

Pictures and printed output go to examples/out, from which the pages are made.
`--changed` runs the programs whose source or library differs from their last run.
`--times` also measures processor time, with an empty kernel cache, with a filled one,
and over JAX (with `jax` for `curta` in the imports), and writes it to TIMES, which
belongs to the repository. Programs whose library is not installed are listed and
skipped.
"""

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = str(Path(__file__).parents[1])
EXAMPLES = Path(__file__).parents[1] / "examples"
OUT = EXAMPLES / "out"
RUNS = OUT / "gallery.json"
TIMES = Path(__file__).parents[1] / "docs/gallery/times.json"
TO_JAX = (
    ("import curta as jax", "import jax"),
    ("import curta.numpy as jnp", "import jax.numpy as jnp"),
    ("from curta", "from jax"),
    ("import curta.as_jax", "import jax"),
)
NEEDS = {"nuts": "numpyro"}
PICTURES = {".png", ".webp"}
# The source comes by standard input, and finds its data beside `__file__`.
RUN = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from tools import figures
figures.draw_both()
del sys.path[0]
path = sys.argv.pop(1)
code = compile(sys.stdin.read(), path, "exec")
exec(code, {"__name__": "__main__", "__file__": path})
"""


def over_jax(source: str) -> str:
    """The program with its imports changed."""
    for ours, theirs in TO_JAX:
        source = source.replace(ours, theirs)
    return source


class Run(NamedTuple):
    """Wall-clock and processor seconds of a process, and its output."""

    seconds: float
    busy: float
    output: str


def run(path: Path, source: str, out: Path, cache: Path | None = None) -> Run:
    start, before = time.perf_counter(), used()
    done = subprocess.run(
        [sys.executable, "-c", RUN, ROOT, str(path), "--out", str(out)],
        input=source,
        capture_output=True,  # progress bars are not shown
        text=True,
        env=os.environ | ({"CURTA_CACHE_DIR": str(cache)} if cache else {}),
    )
    if done.returncode:
        raise RuntimeError(f"{path.name} failed:\n{done.stderr}")
    return Run(time.perf_counter() - start, used() - before, done.stdout)


def used() -> float:
    """The processor seconds of all child processes that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def is_runnable(path: Path) -> bool:
    """Return True if the library that the program needs, if any, is installed."""
    library = NEEDS.get(path.stem)
    return library is None or importlib.util.find_spec(library) is not None


def digest(path: Path) -> str:
    """Return a hash of a program and of the version of the library it needs."""
    library = NEEDS.get(path.stem)
    version = importlib.metadata.version(library) if library else ""
    return hashlib.sha256(path.read_bytes() + version.encode()).hexdigest()[:16]


def draw(path: Path) -> dict[str, object]:
    """Run a program and keep its pictures; return the entry of gallery.json."""
    with tempfile.TemporaryDirectory() as folder:
        done = run(path, path.read_text(), Path(folder))
        files = sorted(p for p in Path(folder).iterdir() if p.suffix in PICTURES)
        for file in files:
            (OUT / file.name).write_bytes(file.read_bytes())
        output = done.output.replace(folder, "examples/out")
    return {
        "digest": digest(path),
        "output": output,
        "pictures": [file.name for file in files],
    }


def measured(path: Path) -> dict[str, float]:
    """Measure processor seconds: an empty kernel cache, a filled one, and JAX."""
    source = path.read_text()
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache"
        first, later = (run(path, source, Path(folder), cache) for _ in range(2))
        theirs = run(path, over_jax(source), Path(folder))
    found = {"first": first.busy, "later": later.busy, "jax": theirs.busy}
    return {name: round(seconds, 2) for name, seconds in found.items()}


def load(path: Path) -> dict[str, dict[str, object]]:
    return json.loads(path.read_text()) if path.exists() else {}


def save(path: Path, rows: dict[str, dict[str, object]]) -> None:
    path.write_text(json.dumps(dict(sorted(rows.items())), indent=1) + "\n")


def run_all(paths: list[Path], with_times: bool) -> None:
    runs, times = load(RUNS), load(TIMES)
    for number, path in enumerate(paths, 1):
        print(f"gallery {number}/{len(paths)}: {path.stem}", end=" ", flush=True)
        start = time.perf_counter()
        runs[path.stem] = draw(path)
        save(RUNS, runs)
        if with_times:
            times[path.stem] = dict(measured(path))
            times["_machine"] = {
                "jax": importlib.metadata.version("jax"),
                "python": platform.python_version(),
                "processors": len(os.sched_getaffinity(0)),
                "date": time.strftime("%Y-%m-%d"),
            }
            save(TIMES, times)
        print(f"{time.perf_counter() - start:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs; default: all")
    parser.add_argument("--changed", action="store_true", help="skip unchanged ones")
    parser.add_argument("--times", action="store_true", help="measure, over JAX too")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    paths = sorted(EXAMPLES.glob("*.py"))
    if options.names:
        paths = [p for p in paths if p.stem in options.names]
    for path in paths:
        if not is_runnable(path):
            print(f"skipped: {path.name} needs {NEEDS[path.stem]}")
    paths = list(filter(is_runnable, paths))
    if options.changed:
        known = load(RUNS)
        every = len(paths)
        paths = [p for p in paths if known.get(p.stem, {}).get("digest") != digest(p)]
        print(f"gallery: {len(paths)} of {every} programs changed since their last run")
    run_all(paths, options.times)


if __name__ == "__main__":
    main()
