"""The benchmarks run (here against Curta itself, and for no longer than they must)."""

import ast
import math
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import explained, programs
from benchmarks.__main__ import library
from benchmarks.cases import CASES, jit_dict
from benchmarks.conv_cases import CONV_CASES
from benchmarks.donated_cases import DONATED_CASES
from benchmarks.first_calls import FIRST_CALLS
from benchmarks.foreign.__main__ import Row as ForeignRow, same, summary
from benchmarks.foreign.suites import SUITES
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


def test_foreign_programs_load_and_run():
    suite = SUITES["complaints"]
    name = "chain of joints"
    assert name in suite.names(Path(), "S")
    loaded = suite.load(Path(), name, "S", "curta")
    value = loaded.wait(loaded.call(*loaded.fresh()))
    (gram,) = loaded.results(value, [])
    assert gram.shape == (35, 35)


def test_foreign_results_are_compared_by_shape_and_scale():
    x = np.array([1.0, 1e-9, np.nan])
    assert same([x], [x + [1e-7, 1e-7, 0]], rtol=1e-5)
    assert not same([x], [x + [1e-3, 0, 0]], rtol=1e-5)
    assert not same([x], [x[:2]], rtol=1e-5)
    assert not same([x], [x, x], rtol=1e-5)


def test_foreign_summary_names_rows_above_one_and_omits_failures():
    rows = [
        ForeignRow("npbench/a", 1, 2, wall=0.5, processor=0.5, first=0.5, memory=1),
        ForeignRow("npbench/b", 4, 2, wall=2.0, processor=2.0, first=0.5, memory=1),
        ForeignRow("npbench/c", remarks=["curta: TypeError: no"]),
    ]
    assert (
        summary(rows)[-1] == "| npbench | 2 | 1.000 | 1.000 | 0.500 | npbench/b 2.00 |"
    )
