"""A part of the net (`make test-multiprocess`): programs on real processes."""

import pytest
from tests.multiprocess.net.jobs import Job
from tests.multiprocess.net.programs import drawn
from tests.multiprocess.net.written import WRITTEN

from curta.command_line.processes import _launcher
from curta.hosts import mpi

WITH_MPI = mpi.is_there() and _launcher() is not None
# What went wrong once: cumulative ops, whose last collective one host did not need.
CUMULATIVE = [n for n in WRITTEN if "cumsum" in n or n == "grad of cummax"]
SINGLE = ["reads nothing", "sums and products that overflow"]
OPS = ("ArgMax", "Sort", "ScatterAdd")


def names(engine):
    rest = [n for n in WRITTEN if n not in (*CUMULATIVE, *SINGLE)]
    some = rest[:: 6 if engine == "tcp" else 12]
    ops = [f"op {n} 1" for n in OPS] if engine == "tcp" else []
    random = drawn(5, 3) if engine == "tcp" else []
    written = [f"written {n}" for n in (*CUMULATIVE, *SINGLE, *some)]
    return [*written, *ops, *(f"random {p.to_json()}" for p in random)]


@pytest.mark.parametrize("engine", ["tcp", "mpi"])
def test_programs_on_two_processes(engine):
    if engine == "mpi" and not WITH_MPI:
        pytest.skip("no mpi4py, or no launcher of MPI programs")
    job = Job(engine, 2, names(engine), 60.0)
    wrong = [o for o in job.run() if not o.is_right]
    assert not wrong and not job.refused
    assert len(job.outcomes) == 3 * len(job.names)
