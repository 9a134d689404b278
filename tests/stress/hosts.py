"""Search for programs that hosts compute wrongly in parts.

    python -m tests.stress.hosts --minutes 10 [--seed 1] [--compiled]
    python -m curta.run -n 2 -m tests.stress.hosts --compiled

    python -m tests.stress.hosts --minutes 10 --arrays 4

Random programs (stress/fuzz) are partitioned over random meshes, their arguments and
results split at random, and run on simulated hosts, or on so many processes; the
results are compared with those of whole arrays. With `--arrays` they are called as
users do, by `jit`, on arrays over simulated hosts, each on a mesh of its own, some of
them donated. Hypothesis shrinks failures, which are printed.
"""

from __future__ import annotations

import argparse
import collections
import math
import os
import secrets
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from tests.stress.fuzz import strategies
from tests.stress.fuzz.checks import Outs, compare, evaluated, outcome, settings_of
from tests.stress.fuzz.instructions import INSTRUCTIONS
from tests.stress.fuzz.programs import Program, arguments, transformed

import curta
from curta._settings.tuning import Tuning
from curta.config import config, tuning
from curta.core.evaluate import evaluate
from curta.hosts.engine import of_process
from curta.hosts.group import HostGroup
from curta.hosts.launched import launched
from curta.hosts.simulated import run_on_hosts
from curta.partition.host_mesh import grouped
from curta.partition.partition import LocalProgram, partition
from curta.runtime.backends import executable
from curta.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from curta.transforms.partial_eval import prune

# All collectives of compiled programs are begun early and done late.
BEGUN = Tuning(overlapped_bytes=1)
MESHES = ((2,), (4,), (2, 2), (4, 2), (2, 4), (8,), (2, 2, 2))
ROUND = 50


def _sharding(rng: np.random.Generator, mesh: Mesh, aval: Any) -> NamedSharding:
    """Some dims split along some axes that divide them."""
    axes = [n for n in rng.permutation(mesh.axis_names) if rng.random() < 0.7]
    entries: list[Any] = [()] * aval.ndim
    for name in map(str, axes):
        fits = [
            d
            for d, n in enumerate(aval.shape)
            if n and n % (mesh.size_of(entries[d]) * mesh.shape[name]) == 0
        ]
        if fits:
            entries[rng.choice(fits)] += (name,)
    return NamedSharding(mesh, PartitionSpec(*entries))


def local_program(program: Program) -> tuple[LocalProgram, Any]:
    """The program of one host, for a mesh and splits that the seed chooses."""
    rng = np.random.default_rng(program.seed)
    sizes = MESHES[rng.integers(len(MESHES))]
    count = math.prod(sizes)
    names = "xyz"[: len(sizes)]
    devices = np.array(curta.devices()[:count]).reshape(sizes)
    mesh = Mesh(devices, tuple(names), (AxisType.Auto,) * len(sizes))
    shared = rng.integers(0, 2) if count > 2 else 0  # two devices of a host, or one
    numbers = [i >> shared for i in range(count)]
    if (processes := of_process().count) > 1:
        numbers = [i * processes // count for i in range(count)]
    hosts = grouped(mesh, tuple(numbers))
    closed = prune(
        curta.make_jaxpr(transformed(program, INSTRUCTIONS))(*arguments(program))
    )
    ins = [_sharding(rng, mesh, a) for a in closed.in_avals]
    outs = [_sharding(rng, mesh, a) for a in closed.out_avals]
    return partition(closed, mesh, ins, outs, hosts), closed.out_avals


def on_hosts(program: Program, compiled: bool) -> Outs:
    """The results, put together from those of the hosts."""
    with settings_of(program), tuning(BEGUN):
        local, avals = local_program(program)
        hosts, closed = local.hosts, local.closed
        args = [np.array(curta.numpy.asarray(a)) for a in arguments(program)]
        run = executable(closed) if compiled else None

        def on(host: int) -> list[Any]:
            pairs = zip(args, local.in_splits, strict=True)
            parts = [x[hosts.index(host, x.shape, split)] for x, split in pairs]
            if run is not None:
                return [
                    np.array(x) for x in run(*(np.asarray(x, order="C") for x in parts))
                ]
            with np.errstate(all="ignore"):
                return [*evaluate(closed.jaxpr, closed.consts, parts)]

        if of_process().count > 1:
            results = on_processes(on)
        else:
            results = dict(zip(hosts.hosts, run_on_hosts(on, hosts.hosts), strict=True))
        found = []
        for k, (aval, split) in enumerate(zip(avals, local.out_splits, strict=True)):
            out = np.empty(aval.shape, np.asarray(results[hosts.hosts[0]][k]).dtype)
            for host in hosts.hosts:
                out[hosts.index(host, aval.shape, split)] = results[host][k]
            found.append(out)
        return found


def _mesh(rng: np.random.Generator) -> Mesh:
    """All devices, in a grid and an order of axes by chance."""
    count = curta.device_count()
    fitting = [sizes for sizes in MESHES if math.prod(sizes) == count]
    sizes = fitting[rng.integers(len(fitting))]
    names = tuple(map(str, rng.permutation([*"xyz"[: len(sizes)]])))
    return curta.make_mesh(sizes, names, (AxisType.Auto,) * len(sizes))


def as_arrays(program: Program) -> Outs:
    """The results of `jit`, of arrays on meshes over all hosts, or on none."""
    rng = np.random.default_rng(program.seed)
    with settings_of(program), tuning(BEGUN):
        which = range(len(program.arguments))
        fun = curta.jit(
            transformed(program, INSTRUCTIONS),
            donate_argnums=[i for i in which if program.donated >> i & 1],
        )
        args = []
        for x in map(curta.numpy.array, arguments(program)):
            put = rng.random() < 0.8
            place = _sharding(rng, _mesh(rng), x.aval) if put else None
            args.append(curta.device_put(x, place) if put else x)
        return [np.array(x) for x in fun(*args)]


def everyone() -> HostGroup:
    """All processes."""
    count = of_process().count
    return HostGroup(("all",), (count,), tuple(range(count)), ("all",))


def on_processes(on: Callable[[int], list[Any]]) -> dict[int, list[Any]]:
    """The parts of results in each process, sent to all, so that all continue alike."""
    engine, group = of_process(), everyone()

    def run() -> list[Any]:
        parts = [np.asarray(x, order="C") for x in on(engine.index)]
        return [engine.all_gather(group, x[None], 0) for x in parts]

    rows = engine.in_thread_order(group.hosts, run)
    return {host: [row[host] for row in rows] for host in group.hosts}


def agreed(number: int) -> int:
    """The least of the numbers of all processes."""
    if of_process().count == 1:
        return number
    return int(of_process().all_reduce(everyone(), "min", np.array(number)))


Run = Callable[[Program], Outs]


def check(program: Program, run: Run) -> bool:
    """Compare a program on hosts with `eval`; whether it was refused by both."""
    wanted = outcome(evaluated, program)
    if isinstance(wanted, str):
        return True
    compare(program, outcome(run, program), wanted, "on hosts")
    return False


def search(
    number: int, counts: collections.Counter[str], found: list[str], run: Run
) -> None:
    """Let Hypothesis try a round of programs, and shrink the first that fails."""
    last: list[str] = []

    def checked(program: Program) -> None:
        counts["programs"] += 1
        try:
            counts["refused by eval too"] += check(program, run)
        except Exception as error:
            last[:] = [program.to_json(), f"{type(error).__name__}: {error}"]
            raise

    try:
        strategies.try_programs(
            number, ROUND, checked, strategies.programs(False, "uneven")
        )
    except Exception:
        found.append(last[1])
        print(f"\nFOUND (seed {number}) {last[1]}\n{last[0]}\n", flush=True)


def main() -> int:
    """Search for the time given; the exit status is whether something was found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 30))
    parser.add_argument(
        "--compiled", action="store_true", help="run native code, not `eval`"
    )
    parser.add_argument(
        "--arrays", type=int, metavar="HOSTS", help="call `jit`, on simulated hosts"
    )
    options = parser.parse_args()
    config.update("jax_num_cpu_devices", 8)
    if options.arrays:
        config.update("curta_simulate_hosts", options.arrays)
    if launched(os.environ) is not None:
        config.update("jax_num_cpu_devices", 8 // launched(os.environ).count)
        curta.distributed.initialize()
    first = agreed(options.seed)
    said = print if of_process().index == 0 else lambda *_, **__: None
    said(f"seed {first}", flush=True)
    counts: collections.Counter[str] = collections.Counter()
    found: list[str] = []
    end = time.monotonic() + 60 * options.minutes
    number = first
    run = as_arrays if options.arrays else partial(on_hosts, compiled=options.compiled)
    while agreed(int(time.monotonic() < end)):
        search(number, counts, found, run)
        number += 1
    said(f"{dict(counts)}, {len(found)} found")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
