"""Build the development environments from nothing, in a fresh clone, and try each.

    python -m tools.fresh [NAME ...]    # all without a name

HEAD is cloned into an empty folder. Each environment is installed there by
`.ci/environment` and then must pass `pip check`, import every module that the files of
its groups import, and collect its tests. It is removed before the next one is built.
The last line says which passed, and which failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tools.groups import ROOT, Declared
from tools.imports import modules_of

# What an environment runs besides its imports.
COLLECT = ("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider")
RUNS: dict[str, tuple[tuple[str, ...], ...]] = {
    "examples": (("-c", "import curta; print(curta.numpy.ones(3).sum())"),),
    "test": (COLLECT,),
    "lint": (("-m", "ruff", "--version"), ("-m", "mypy", "--version")),
    "types": (("-m", "pyright", "--version"),),
    "dist": (("-m", "hatchling", "version"),),
    "docs": (("-m", "mkdocs", "--version"),),
    "hosts": ((*COLLECT, "tests/multiprocess"),),
    "accelerators": ((*COLLECT, "tests/accelerators"),),
    "browser": ((*COLLECT, "tests/browser"),),
    "lock": (("-m", "uv", "--version"),),
}
IMPORT = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print("imported", *sys.argv[1:])
"""


def clean_environment() -> dict[str, str]:
    """The variables of this process without those that bring other packages in."""
    dropped = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHON", "MAKEFLAGS", "MAKELEVEL"}
    return {k: v for k, v in os.environ.items() if k not in dropped}


def passes(name: str, clone: Path, declared: Declared) -> bool:
    """Whether an environment can be built in the clone and runs what it should."""
    folder = clone / f".venv-{name}"
    environment = declared.environments()[name]
    python = str(folder / "bin" / "python")
    steps: list[tuple[str, ...]] = [
        (str(clone / ".ci" / "environment"), str(folder), name)
    ]
    if environment.dependencies:
        steps.append((python, "-m", "pip", "check"))
    modules = sorted(modules_of(environment.members, declared))
    if environment.curta:
        steps.append((python, "-c", IMPORT, "curta", *modules))
    steps += [(python, *arguments) for arguments in RUNS.get(name, ())]
    variables = clean_environment()
    try:
        for step in steps:
            done = subprocess.run(
                step, cwd=clone, env=variables, capture_output=True, text=True
            )
            if done.returncode:
                print(done.stdout[-3000:], done.stderr[-3000:], "failed:", step[:4])
                return False
            print((done.stdout.strip() or "-").splitlines()[-1], flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return True


def main() -> None:
    """Build and try the environments; exit with status 1 if one fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="environments; all without a name")
    options = parser.parse_args()
    declared = Declared()
    passed, failed = [], []
    with tempfile.TemporaryDirectory(prefix="curta-fresh-") as folder:
        clone = Path(folder) / "curta"
        subprocess.run(["git", "clone", "-q", ROOT, clone], check=True)
        for name in options.names or declared.environments():
            began = time.monotonic()
            print(f"== {name}", flush=True)
            (passed if passes(name, clone, declared) else failed).append(name)
            print(f"{time.monotonic() - began:.0f} s", flush=True)
    print(f"passed: {' '.join(passed) or 'none'}; failed: {' '.join(failed) or 'none'}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
