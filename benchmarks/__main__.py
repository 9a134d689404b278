"""Runs the table: `python -m benchmarks [--only softmax] [--group loops]`.

With `--clock processor` what is compared is the time that processors worked, of all
threads of a process: for machines that do something else meanwhile.
"""

import argparse
import importlib
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

from benchmarks.groups import GROUPS, PROCESS_GROUPS
from benchmarks.harness import CLOCKS, Clock, attempt, measure
from benchmarks.machine import Machine, this_machine
from benchmarks.report import HEADER, Row, markdown, save

SUBMODULES = ("image", "lax", "nn", "numpy", "ops", "random", "scipy", "tree")


def library(name: str) -> ModuleType:
    for submodule in SUBMODULES:
        importlib.import_module(f"{name}.{submodule}")
    return importlib.import_module(name)


def rows(
    machine: Machine,
    only: str = "",
    group: str = "",
    seconds: float = 1.5,
    clock: Clock = time.perf_counter,
) -> Iterator[Row]:
    curta, jax = library("curta"), library("jax")
    for name, cases in GROUPS.items():
        for case in cases if group in name else ():
            if only in case.name:
                one = partial(measure, case, curta, jax, seconds, clock)
                floor = machine.floor(case.read, case.written, case.flops)
                yield Row(case.name, case.target, attempt(one), floor, group=name)
    for name, processes in PROCESS_GROUPS.items():
        for title, measured, target in processes if group in name else ():
            if only in title:
                size = "size" in title
                yield Row(title, target, attempt(measured), is_size=size, group=name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--group", default="", help="groups whose name contains this")
    parser.add_argument("--clock", default="wall", choices=CLOCKS)
    parser.add_argument("--seconds", type=float, default=1.5, help="a case, at least")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args()

    machine = this_machine()
    print("\t".join(HEADER))
    done = []
    clock = CLOCKS[options.clock]
    for row in rows(machine, options.only, options.group, options.seconds, clock):
        print("\t".join(row.cells()), flush=True)
        done.append(row)
    save(done, machine, options.out)
    print()
    print(markdown(done, machine))


if __name__ == "__main__":
    main()
