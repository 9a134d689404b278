"""Programs that save state are killed at any time: what was saved last is there.

    python -m tests.stress.state --kills 50

Each program saves trees, one after the other, all of whose elements are the number of
the step, and says when a step is saved. It is killed after a random while; what is
restored must be whole, and no older than what it said.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

import curta
from curta import P, state
from curta.config import config
from curta.sharding import NamedSharding

SHAPE = (64, 512)


def tree_of(number: int) -> dict[str, Any]:
    """A tree all of whose elements are a number."""
    mesh = curta.make_mesh((4,), ("x",))
    rows = NamedSharding(mesh, P("x"))
    values = np.full(SHAPE, number, np.float32)
    return {
        "w": curta.device_put(values, rows),
        "b": [np.full(3, number), number],
    }


def program(folder: str) -> None:
    """Save step after step, until somebody ends the program."""
    number = (state.step(folder) or 0) if os.path.exists(f"{folder}/index.json") else 0
    while True:
        number += 1
        state.save(folder, tree_of(number), step=number)
        print(number, flush=True)


def killed_once(folder: str, seconds: float) -> int:
    """Kill a program that has saved for a while; the last step it told of."""
    command = [sys.executable, "-m", "tests.stress.state", "--program", folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()  # it has started, which takes longest
        time.sleep(seconds)
        os.kill(process.pid, signal.SIGKILL)
        told = [first, *process.stdout]
    assert process.returncode == -signal.SIGKILL, "the program ended by itself"
    return max(int(line) for line in told if line.endswith("\n"))


def check(folder: str, told: int) -> int:
    """The step that is restored, which must be whole, and `told` or later."""
    found = state.restore(folder)
    number = state.step(folder)
    assert number is not None and number >= told, f"step {number} after {told}"
    leaves = curta.tree_util.tree_leaves(found)
    assert all((np.asarray(x) == number).all() for x in leaves), f"step {number}"
    assert np.shape(found["w"]) == SHAPE
    return number


def kills(count: int, seed: int) -> list[int]:
    """The steps restored after each of so many kills."""
    random.seed(seed)
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for _ in range(count):
            told = killed_once(folder, random.random() * 0.05)
            found.append(check(folder, told))
    return found


def main() -> None:
    """Kill programs; or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--program", help="save in this folder until killed")
    options = parser.parse_args()
    config.update("jax_num_cpu_devices", 4)
    config.update("curta_simulate_hosts", 4)
    if options.program:
        program(options.program)
    steps = kills(options.kills, options.seed)
    print(f"{len(steps)} kills, up to step {steps[-1]}: each time the last was whole")


if __name__ == "__main__":
    main()
