"""Runs the table: `python -m benchmarks [--only softmax] [--seconds 1.5]`."""

import argparse
import importlib
import itertools
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import ModuleType

from benchmarks.array_cases import ARRAY_CASES
from benchmarks.cases import CASES
from benchmarks.conv_cases import CONV_CASES
from benchmarks.donated_cases import DONATED_CASES
from benchmarks.first_calls import FIRST_CALLS
from benchmarks.harness import attempt, measure
from benchmarks.linalg_cases import LINALG_CASES
from benchmarks.loop_cases import LOOPS
from benchmarks.lowering import LOWERINGS
from benchmarks.machine import Machine, this_machine
from benchmarks.processes import PROCESSES
from benchmarks.random_cases import RANDOM_CASES
from benchmarks.report import HEADER, Row, markdown, save
from benchmarks.rnn_cases import RNN_CASES, RNN_PROCESSES
from benchmarks.short_row_cases import SHORT_ROW_CASES

SUBMODULES = ("lax", "nn", "numpy", "ops", "random", "tree")


def library(name: str) -> ModuleType:
    for submodule in SUBMODULES:
        importlib.import_module(f"{name}.{submodule}")
    return importlib.import_module(name)


def rows(only: str, seconds: float, machine: Machine) -> Iterator[Row]:
    curta, jax = library("curta"), library("jax")
    one_process = (
        *(CASES, ARRAY_CASES, LINALG_CASES, RANDOM_CASES, CONV_CASES, LOOPS),
        *(RNN_CASES, DONATED_CASES, LOWERINGS, SHORT_ROW_CASES),
    )
    for case in itertools.chain(*one_process):
        if only in case.name:
            timing = attempt(partial(measure, case, curta, jax, seconds))
            floor = machine.floor(case.read, case.written, case.flops)
            yield Row(case.name, case.target, timing, floor)
    for name, measure_processes, target in (*PROCESSES, *RNN_PROCESSES, *FIRST_CALLS):
        if only in name:
            yield Row(name, target, attempt(measure_processes), is_size="size" in name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--seconds", type=float, default=1.5, help="a case, at least")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "out")
    options = parser.parse_args()

    machine = this_machine()
    print("\t".join(HEADER))
    done = []
    for row in rows(options.only, options.seconds, machine):
        print("\t".join(row.cells()), flush=True)
        done.append(row)
    save(done, machine, options.out)
    print()
    print(markdown(done, machine))


if __name__ == "__main__":
    main()
