"""Says what the tests ran with."""

import importlib.util
import subprocess

from curta.command_line.processes import _launcher


def pytest_terminal_summary(terminalreporter):
    launcher = _launcher()
    there = importlib.util.find_spec("mpi4py") is not None
    version = "none"
    if launcher is not None:
        asked = subprocess.run(
            [launcher, "--version"], capture_output=True, text=True, check=False
        )
        version = next(filter(None, asked.stdout.splitlines()), launcher)
    terminalreporter.write_line(
        f"processes: by MPI (mpi4py {'there' if there else 'missing'}, launcher:"
        f" {version}) and over TCP, on this machine"
    )
