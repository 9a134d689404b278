"""Two processes, on a core each, against one process on one core.

    python -m benchmarks.hosts [--engine tcp] [--rounds 9] [--cases heat,step]

One process and a pair of processes run in alternating rounds, and the medians are
compared. The upper bound is measured as well: two processes with half of a plate each
and no communication. With mpi4py, its sums of 64 MB are compared with ours. The load of
the machine is printed, because other load slows down processes that wait for each other
more than a single process.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import curta
from benchmarks.report import time_text
from curta import P
from curta.api.processes import global_state
from curta.hosts import mpi
from curta.hosts.launched import launched
from curta.sharding import AxisType, Mesh, NamedSharding

sys.path[:0] = [str(Path(__file__).parents[1] / "examples" / "hosts")]
heat = importlib.import_module("heat")  # which finds examples/digits.py, too
digits = importlib.import_module("digits")

ONE_THREAD = {"CURTA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
MEGABYTES_64 = 1 << 24  # numbers of four bytes
Call = Callable[[], Any]


def mesh_of_all() -> Any:
    return curta.make_mesh((curta.device_count(),), ("data",), (AxisType.Auto,))


def on(mesh: Any, *entries: Any) -> NamedSharding:
    return NamedSharding(mesh, P(*entries))


# ---- what is measured: functions that make a call, and how many steps it is


def plate(size: int) -> tuple[Call, int]:
    """Steps of the heat equation."""
    return steps_of_heat(size, size, heat.mesh_of_all())


def half_plate(size: int) -> tuple[Call, int]:
    """Steps of half of the plate, which need nothing of the other half."""
    own = np.array(curta.local_devices()).reshape(1, -1)
    auto = (AxisType.Auto, AxisType.Auto)
    return steps_of_heat(size // 2, size, Mesh(own, ("rows", "columns"), auto))


def steps_of_heat(rows: int, columns: int, mesh: Mesh) -> tuple[Call, int]:
    """Steps of as many rows and columns, on the devices of a mesh."""
    split = on(mesh, "rows", "columns")
    hot = heat.hot_rings(columns)
    if rows < columns:  # indices of the whole plate
        hot = hot((slice(0, rows), slice(None))).__getitem__
    u = curta.make_array_from_callback((rows, columns), split, hot)
    steps = 50

    @curta.jit
    def advance(u: Any) -> Any:
        return curta.lax.fori_loop(0, steps, lambda _, x: heat.step(x), u)

    return lambda: advance(u).block_until_ready(), steps


def perceptron(batch: int) -> tuple[Call, int]:
    """A step of gradient descent, the batch in parts: 1.9 million parameters."""
    mesh = mesh_of_all()
    params = digits.init_params(curta.random.key(0), (784, 1024, 1024, 10))
    params = curta.device_put(params, on(mesh))
    images = curta.device_put(np.ones((batch, 784), np.float32), on(mesh, "data"))
    labels = curta.device_put(np.zeros(batch, np.int32), on(mesh, "data"))

    @curta.jit
    def step(params: Any, images: Any, labels: Any) -> Any:
        grads = curta.grad(digits.batch_loss)(params, images, labels)
        return curta.tree.map(lambda p, g: p - 0.01 * g, params, grads)

    return lambda: curta.block_until_ready(step(params, images, labels)), 1


def demo(batch: int) -> tuple[Call, int]:
    """The step of examples/hosts/classifier.py, 19 thousand parameters."""
    mesh = mesh_of_all()
    params = curta.device_put(digits.init_params(curta.random.key(0)), on(mesh))
    state = curta.device_put(digits.init_adam(params), on(mesh))
    images = curta.device_put(np.ones((batch, 64), np.float32), on(mesh, "data"))
    labels = curta.device_put(np.zeros(batch, np.int32), on(mesh, "data"))
    key = curta.random.key(1)

    def call() -> Any:
        step = digits.train_step(params, state, key, images, labels, 0.5)
        return curta.block_until_ready(step)

    return call, 1


def small(size: int) -> tuple[Call, int]:
    """A call that computes nothing to speak of."""
    x = curta.device_put(np.zeros(size, np.float32), on(mesh_of_all(), "data"))
    add = curta.jit(lambda x: x + 1)
    return lambda: add(x), 1


CASES: dict[str, Callable[[], tuple[Call, int]]] = {
    "heat, 1024²": lambda: plate(1024),
    "heat, 2048²": lambda: plate(2048),
    "heat, 4096²": lambda: plate(4096),
    "step, batch 512": lambda: perceptron(512),
    "step, batch 2048": lambda: perceptron(2048),
    "demo, batch 64": lambda: demo(64),
    "demo, batch 1024": lambda: demo(1024),
    "call, x + 1": lambda: small(1024),
}
# Without what is sent: what each of two processes can do at best.
HALVES: dict[str, Callable[[], tuple[Call, int]]] = {
    "heat, 1024²": lambda: half_plate(1024),
    "heat, 2048²": lambda: half_plate(2048),
    "heat, 4096²": lambda: half_plate(4096),
}


def seconds(call: Call, steps: int) -> float:
    """The time of a step: the median of the calls of about a third of a second."""
    found: list[float] = []
    while sum(found) < 0.3 or len(found) < 3:
        begin = time.perf_counter()
        call()
        found.append(time.perf_counter() - begin)
    return statistics.median(found) / steps


# ---- processes


class Alone:
    """One process on one core, which is asked for the time of a step, case by case."""

    def __init__(self, core: int) -> None:
        environment = {k: v for k, v in os.environ.items() if not _of_launcher(k)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.hosts", "--alone", str(core)],
            env={**environment, **ONE_THREAD},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seconds(self, name: str) -> float:
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(name + "\n")
        process.stdin.flush()
        return float(process.stdout.readline())

    def end(self) -> None:
        self._process.communicate()


def _of_launcher(name: str) -> bool:
    own = name.startswith("CURTA_") and name != "CURTA_CACHE_DIR"
    return own or name.startswith(("OMPI_", "PMIX_", "PMI_", "PRTE_", "SLURM_"))


def serve(core: int) -> None:
    """Run the single process."""
    os.sched_setaffinity(0, {core})
    made: dict[str, tuple[Call, int]] = {}
    for line in sys.stdin:
        name = line.strip()
        if name not in made:
            made[name] = CASES[name]()
            made[name][0]()
        print(seconds(*made[name]), flush=True)


class Together:
    """Run one of the two processes."""

    def __init__(self, options: Any) -> None:
        curta.distributed.initialize()
        self.index = curta.process_index()
        cores = sorted(os.sched_getaffinity(0) | {0, 1})[:2]
        os.sched_setaffinity(0, {cores[self.index]})
        self.rounds = options.rounds
        self.alone = Alone(cores[0]) if self.index == 0 else None
        self._turns = 0

    def turn(self) -> None:
        """Synchronize both processes. Waiting uses no processor time."""
        self._turns += 1
        client = global_state.client
        assert client is not None
        client.wait_at_barrier(f"benchmarks/{self._turns}", 600_000)

    def compare(self, name: str) -> None:
        """Rounds of one process and of two."""
        call, steps = CASES[name]()
        call()
        half = HALVES[name]()[0] if name in HALVES else None
        one, two, halves = [], [], []
        if half is not None:
            half()
        for _ in range(self.rounds):
            if self.alone is not None:
                one.append(self.alone.seconds(name))
            self.turn()
            two.append(self.fixed(call, steps))
            self.turn()
            if half is not None:
                halves.append(self.fixed(half, steps))
                self.turn()
        if self.alone is not None:
            report(name, one, two, halves)

    def fixed(self, call: Call, steps: int, count: int = 9) -> float:
        """As many calls in both processes, which meet in them."""
        found = []
        for _ in range(count):
            begin = time.perf_counter()
            call()
            found.append(time.perf_counter() - begin)
        return statistics.median(found) / steps

    def sums(self) -> None:
        """Sums of 64 MB, by a program and by mpi4py."""
        mesh = mesh_of_all()
        x = np.ones(MEGABYTES_64, np.float32)
        parts = curta.make_array_from_callback(
            (2 * x.size,), on(mesh, "data"), lambda _: x
        )
        total = curta.jit(
            curta.shard_map(
                lambda x: curta.lax.psum(x, "data"),
                mesh=mesh,
                in_specs=P("data"),
                out_specs=P(),
            )
        )
        out, world = np.empty_like(x), mpi.MPI.COMM_WORLD
        own, ours = [], []
        total(parts).block_until_ready()
        for _ in range(self.rounds):
            own.append(self.fixed(lambda: world.Allreduce(x, out), 1, 3))
            ours.append(self.fixed(lambda: total(parts).block_until_ready(), 1, 3))
        if self.index == 0:
            report("sum of 64 MB, mpi4py : program", own, ours)


def report(
    name: str, one: list[float], two: list[float], halves: Sequence[float] = ()
) -> None:
    ratios = sorted(a / b for a, b in zip(one, two, strict=True))
    a, b = statistics.median(one), statistics.median(two)
    end = f"   load {os.getloadavg()[0]:.1f}"
    if halves:
        end += f"   nothing sent {a / statistics.median(halves):.2f}"
    print(
        f"{name:32} {time_text(a):>10} {time_text(b):>10} {a / b:6.2f}"
        f"   ({ratios[0]:.2f} to {ratios[-1]:.2f}){end}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=("auto", "mpi", "tcp"), default="auto")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cases", default="", help="those that begin so, by commas")
    parser.add_argument("--alone", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone is not None:
        return serve(options.alone)
    if launched(os.environ) is None:
        command = [sys.executable, "-m", "curta.run", "-n", "2"]
        command += ["--engine", options.engine, "-m", "benchmarks.hosts"]
        environment = {**os.environ, **ONE_THREAD}
        sys.exit(subprocess.run([*command, *sys.argv[1:]], env=environment).returncode)
    both = Together(options)
    if both.index == 0:
        engine = "MPI" if global_state.coordinator_address == "MPI" else "TCP"
        print(f"over {engine:27} {'one':>10} {'two':>10}  ratio", flush=True)
    for name in CASES:
        if name.startswith(tuple(options.cases.split(","))):
            both.compare(name)
    if mpi.is_there() and global_state.coordinator_address == "MPI":
        both.sums()
    if both.alone is not None:
        both.alone.end()


if __name__ == "__main__":
    main()
