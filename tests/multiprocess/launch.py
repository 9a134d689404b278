"""Programs run as several processes, by each engine."""

from __future__ import annotations

import subprocess
import sys

ENGINES = ("mpi", "tcp")


def launch(
    engine: str, count: int, program: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run a module, or a file that ends in .py; it must end by itself."""
    kind = [] if program.endswith(".py") else ["-m"]
    return subprocess.run(
        [
            *(sys.executable, "-m", "curta.run", "-n", str(count)),
            *("--engine", engine, *kind, program, *arguments),
        ],
        capture_output=True,
        text=True,
        timeout=240,
    )


def lines(engine: str, count: int, program: str, *arguments: str) -> list[str]:
    """The output of the processes, in order; all must succeed."""
    ended = launch(engine, count, program, *arguments)
    assert ended.returncode == 0, ended.stderr + ended.stdout
    return sorted(ended.stdout.splitlines())
