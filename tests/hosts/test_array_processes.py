"""Arrays over several processes; each check of the program runs in all of them."""

import subprocess
import sys

PROGRAM = "tests.hosts.programs.arrays"


def test_arrays_over_two_processes(tmp_path):
    command = [sys.executable, "-m", "curta.run", "-n", "2", "--engine", "tcp"]
    ended = subprocess.run(
        [*command, "--prefix", "-m", PROGRAM, str(tmp_path / "state")],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "[1] process 1 did" in ended.stdout
