"""Resident memory over many calls: a small part of `make stress-memory`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_flat_over_calls_and_exceptions():
    paths = [str(ROOT), *sys.path]
    command = ["-m", "tests.stress.memory", "--scale=0.02", "--only=calls,exceptions"]
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "calls: 20000" in done.stdout and "exceptions: 200" in done.stdout
