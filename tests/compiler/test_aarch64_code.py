"""Code for 64-bit ARM is made and assembled: a small part of `make stress-aarch64`."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
OPS = "Sin,DotGeneral,Sort,ReduceSum"


def run(*arguments):
    paths = [str(ROOT), *sys.path]
    return subprocess.run(
        [sys.executable, "-m", "tests.stress.aarch64", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=900,
    )


def test_kernels_are_assembled():
    done = run(f"--only={OPS}")
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.startswith("4 programs")
