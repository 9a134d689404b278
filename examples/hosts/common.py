"""Start and report of the examples for several hosts."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

import curta as jax
from curta.hosts import traffic
from curta.hosts.launched import launched
from curta.sharding import NamedSharding, PartitionSpec

EXAMPLES = Path(__file__).parents[1]
sys.path.insert(0, str(EXAMPLES))  # `import digits` is the one for one host
# What launchers say to their processes, and must not to one that runs alone.
LAUNCHERS = ("OMPI_", "PMIX_", "PMI_", "PRTE_", "SLURM_")
OURS = ("CURTA_COORDINATOR_ADDRESS", "CURTA_NUM_PROCESSES", "CURTA_PROCESS_ID")


def parser(doc, **numbers):
    """The options of an example: its numbers, and those that all have."""
    found = argparse.ArgumentParser(description=doc.splitlines()[0])
    for name, value in numbers.items():
        found.add_argument(f"--{name}", type=type(value), default=value)
    found.add_argument(
        "--compare", action="store_true", help="run as one process first"
    )
    found.add_argument("--out", type=Path, default=EXAMPLES / "out")
    return found


def start(options, name):
    """Become one of the processes. With `--compare` one process alone has run before.

    Returns what that has reported, in the first process.
    """
    options.out.mkdir(parents=True, exist_ok=True)
    place = launched(os.environ)
    alone = None
    if options.compare and (place is None or place.index == 0):
        alone = run_alone(options, name)
    if place is not None:
        jax.distributed.initialize()
    return alone


def run_alone(options, name):
    """Run this program once more, as one process; what it reports."""
    environment = {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(LAUNCHERS) and key not in (*OURS, "CURTA_SIMULATE_HOSTS")
    }
    same = {**vars(options)}
    for other in ("compare", "folder"):
        same.pop(other, None)
    arguments = [f"--{k}={v}" for k, v in same.items() if v is not None]
    command = [sys.executable, sys.argv[0], *arguments]
    subprocess.run(command, env=environment, check=True)
    return json.loads((options.out / f"{name}_alone.json").read_text())


def host_count():
    """How many hosts there are, processes or simulated."""
    return len({device.host for device in jax.devices()})


def is_first():
    """Whether this process is the one that prints and draws."""
    return jax.process_index() == 0


class Meter:
    """A bar over calls of so many steps; the time and the bytes of each step.

    `for call in meter(calls):` measures the body, all but the first, which compiles.
    """

    def __init__(self, steps=1):
        self.steps = steps
        self.seconds, self.sent = [], []

    def __call__(self, calls):
        total = len(calls) * self.steps
        with tqdm(total=total, unit="step", disable=not is_first()) as bar:
            for call in calls:
                begin, before = time.perf_counter(), bytes_sent()
                yield call
                self.seconds.append(time.perf_counter() - begin)
                self.sent.append(bytes_sent() - before)
                bar.update(self.steps)

    def report(self, options, name, alone=None):
        """Print, in the first process, what a step costs."""
        if not is_first() or not self.seconds:
            return
        seconds = statistics.median(self.seconds[1:] or self.seconds) / self.steps
        found = {"hosts": host_count(), "seconds": seconds}
        found["bytes"] = (self.sent[1:] or self.sent)[-1] / self.steps
        kind = "simulated hosts" if jax.process_count() == 1 else "processes"
        print(f"{name} on {found['hosts']} {kind if found['hosts'] > 1 else 'process'}")
        print(f"  time of a step: {1e3 * seconds:.3f} ms")
        print(f"  bytes that a host sends in a step: {found['bytes']:,.0f}")
        if alone is not None:
            speed = alone["seconds"] / seconds
            print(f"  speed, with one process at 1: {speed:.2f}")
        file = name if found["hosts"] > 1 else f"{name}_alone"
        (options.out / f"{file}.json").write_text(json.dumps(found))


def bytes_sent():
    """The bytes that have left a host: of those here, the one that sent most."""
    return max((sum(by.values()) for by in traffic.sent().values()), default=0)


def gathered(x):
    """All elements of an array, wherever they are, as a NumPy array."""
    everywhere = NamedSharding(x.sharding.mesh, PartitionSpec())
    return np.asarray(jax.device_put(x, everywhere))
