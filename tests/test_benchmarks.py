"""The benchmarks run (here against Curta itself, and for no longer than they must)."""

import ast
import math
import time
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import explained, programs
from benchmarks.__main__ import library
from benchmarks.cases import CASES, jit_dict
from benchmarks.conv_cases import CONV_CASES
from benchmarks.donated_cases import DONATED_CASES
from benchmarks.first_calls import FIRST_CALLS
from benchmarks.harness import Case, Timing, attempt, measure
from benchmarks.loop_cases import LOOPS
from benchmarks.machine import Machine
from benchmarks.programs import PROGRAMS
from benchmarks.report import Row
from benchmarks.rnn_cases import RNN_CASES
from benchmarks.thread_cases import NAMES, THREADS
from benchmarks.thread_programs import programs as thread_programs

ALL = (*CASES, *CONV_CASES, *LOOPS, *RNN_CASES, *DONATED_CASES[:2])
QUICK = [case for case in ALL if case.flops + case.read < 1e7]


@pytest.fixture(scope="module")
def lib():
    return library("curta")


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.name)
def test_programs_run(case, lib):
    lib.block_until_ready(case.make(lib)())


def test_programs_of_first_calls_are_python():
    cold = [row for row in FIRST_CALLS if row[0].startswith("cold: ")]
    assert len(cold) * 2 == len(FIRST_CALLS)
    for name, measured, _ in cold:
        program, _ = measured.args
        compile(program.format(lib="curta"), name, "exec")


def test_rows_of_threads_are_the_programs_that_their_processes_time(lib):
    assert [*thread_programs(lib)] == [*NAMES]
    assert len(THREADS) == 3 * len(NAMES)


def test_whole_programs_are_functions_of_their_modules():
    for module, names in PROGRAMS.items():
        source = (Path(programs.__file__).parent / f"{module}.py").read_text()
        body = ast.parse(source).body
        functions = [x.name for x in body if isinstance(x, ast.FunctionDef)]
        assert [name for name in functions if name[0] != "_"] == [*names]


def test_measure_times_both(lib):
    timing = measure(Case("dict", jit_dict, 1.0), lib, lib, 0.0)
    assert timing.curta > 0 and timing.jax > 0


def test_explained_calls_are_those_of_the_program(lib):
    noted = explained.Recording(lib)
    jit_dict(noted)()
    call, (whole, kernels), _ = explained.least(noted.called, 0.0, time.CLOCK_MONOTONIC)
    assert call > 0 and 0 < sum(kernels) < whole


def test_disagreement_is_reported(lib):
    other = replace_jit(lib)
    timing = attempt(lambda: measure(Case("dict", jit_dict, 1.0), lib, other, 0.0))
    assert "AssertionError" in timing.problem


def replace_jit(lib):
    """A library whose `jit` gives one result too few."""

    class Broken:
        numpy, tree, block_until_ready = lib.numpy, lib.tree, lib.block_until_ready

        @staticmethod
        def jit(f):
            return lambda tree: dict(list(f(tree).items())[1:])

    return Broken


def test_report():
    class Loops:
        def bandwidth(self, size, copying):
            return 1e10

    machine = Machine("a processor", 2, 1e11, Loops())
    assert machine.floor(read=10**9, written=0, flops=10**9) == pytest.approx(0.1)
    row = Row("case", 0.5, Timing(2e-6, 8e-6), floor=1e-6)
    assert row.cells() == ["case", "2 µs", "8 µs", "0.25", "0.5", "yes", "50%"]
    broken = replace(row, timing=Timing(problem="TypeError: no"))
    assert math.isnan(broken.ratio) and not broken.met
    assert broken.cells()[-1] == "TypeError: no"
