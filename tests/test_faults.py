"""Where memory or the cache's folder fails: a fixed part of `make stress-faults`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork and limits of Linux")
def test_faults_give_right_results_or_clear_errors():
    paths = [str(ROOT), *sys.path]
    options = ["--quick", "--kills=4", "--seed=1"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.stress.faults", *options],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "'pool: right'" in done.stdout and "pool: errors" in done.stdout
