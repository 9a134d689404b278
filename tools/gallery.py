"""Run the programs of examples/, and over JAX too where it is installed.

    python tools/gallery.py [--missing] [--no-jax] [NAME ...]

Their pictures, what they print and how long they took go to examples/out, from which
the gallery of the documentation is made. Over JAX, a program runs with `jax` for
`curta` in its imports; its pictures are thrown away. A program of a library that is not
installed is not run, and named.
"""

import argparse
import importlib.util
import json
import os
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
TO_JAX = (
    ("import curta as jax", "import jax"),
    ("import curta.numpy as jnp", "import jax.numpy as jnp"),
    ("from curta", "from jax"),
    ("import curta.as_jax", "import jax"),
)
NEEDS = {"nuts": "numpyro"}
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
    """Seconds that a process took, and those of processors; what it printed."""

    seconds: float
    busy: float
    output: str


def run(path: Path, source: str, out: Path) -> Run:
    start, before = time.perf_counter(), used()
    done = subprocess.run(
        [sys.executable, "-c", RUN, ROOT, str(path), "--out", str(out)],
        input=source,
        capture_output=True,  # progress bars are not shown
        text=True,
    )
    if done.returncode:
        raise RuntimeError(f"{path.name} failed:\n{done.stderr}")
    return Run(time.perf_counter() - start, used() - before, done.stdout)


def used() -> float:
    """The seconds of processors that ended processes have taken."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def is_runnable(path: Path) -> bool:
    """Whether the library that a program is written for, if any, is installed."""
    library = NEEDS.get(path.stem)
    return library is None or importlib.util.find_spec(library) is not None


def run_all(paths: list[Path], with_jax: bool) -> None:
    runs = json.loads(RUNS.read_text()) if RUNS.exists() else {}
    for number, path in enumerate(paths, 1):
        print(f"gallery {number}/{len(paths)}: {path.stem}", flush=True)
        source = path.read_text()
        with tempfile.TemporaryDirectory() as folder:
            ours = run(path, source, Path(folder))
            pictures = sorted(p.name for p in Path(folder).glob("*.png"))
            for name in pictures:
                (OUT / name).write_bytes((Path(folder) / name).read_bytes())
            output = ours.output.replace(folder, "examples/out")
        theirs = None
        if with_jax:
            with tempfile.TemporaryDirectory() as folder:
                theirs = run(path, over_jax(source), Path(folder))
        runs[path.stem] = {
            "seconds": ours.seconds,
            "busy": ours.busy,
            "jax_seconds": theirs and theirs.seconds,
            "jax_busy": theirs and theirs.busy,
            "processors": len(os.sched_getaffinity(0)),
            "output": output,
            "pictures": pictures,
        }
        RUNS.write_text(json.dumps(dict(sorted(runs.items())), indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="programs; all, if none is named")
    parser.add_argument("--missing", action="store_true", help="those never run")
    parser.add_argument("--no-jax", action="store_true")
    options = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    known = json.loads(RUNS.read_text()) if RUNS.exists() else {}
    paths = sorted(EXAMPLES.glob("*.py"))
    if options.names:
        paths = [p for p in paths if p.stem in options.names]
    if options.missing:
        paths = [p for p in paths if p.stem not in known]
    for path in paths:
        if not is_runnable(path):
            print(
                f"not run: {path.name} needs {NEEDS[path.stem]} (make gallery has it)"
            )
    paths = list(filter(is_runnable, paths))
    has_jax = importlib.util.find_spec("jax") is not None
    run_all(paths, has_jax and not options.no_jax)


if __name__ == "__main__":
    main()
