"""What the environment says of the processes that a launcher has started."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from curta._base.lazy_dataclass import dataclass

Environment = Mapping[str, str]

# Set by `curta run` for processes that need no MPI.
COORDINATOR = "CURTA_COORDINATOR_ADDRESS"
COUNT = "CURTA_NUM_PROCESSES"
INDEX = "CURTA_PROCESS_ID"

# The number of the process, how many there are, and the number among those of the
# machine, as launchers of MPI programs say it.
_MPI = (
    # Open MPI
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),  # MPICH, Intel MPI, srun --mpi=pmi2
    ("PMIX_RANK", "SLURM_NTASKS", "SLURM_LOCALID"),  # srun --mpi=pmix
)
_SLURM = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")

_TPU_PORT = 8482  # JAX's, which processes that share no launcher cannot agree on


@dataclass(frozen=True)
class Launched:
    """Which of how many processes this is; by MPI, or with a coordinator's address.

    `local` is its number among those of the machine, if each has a device of its own.
    `fallback` is an address that is good where there is no MPI.
    """

    index: int
    count: int
    coordinator: str | None = None
    local: int | None = None
    fallback: str | None = None


def launched(environment: Environment) -> Launched | None:
    """What the launcher says; None if there is none.

    >>> launched({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}).index
    1
    """
    if COORDINATOR in environment:
        index, count = int(environment[INDEX]), int(environment[COUNT])
        return Launched(index, count, environment[COORDINATOR])
    for names in _MPI:
        if names[0] in environment and names[1] in environment:
            return _of_launcher(environment, *names)
    # In a batch script, which runs once, there is no step. A step that says nothing of
    # PMI has not started the processes of an MPI program, even where MPI is installed.
    if all(n in environment for n in (*_SLURM[:2], "SLURM_STEP_ID")):
        step = _of_launcher(environment, *_SLURM)
        return dataclasses.replace(step, coordinator=step.fallback, fallback=None)
    return _of_tpus(environment)


def _of_launcher(e: Environment, index: str, count: str, local: str) -> Launched:
    number = int(e[local]) if local in e else None
    return Launched(int(e[index]), int(e[count]), None, number, _of_slurm(e))


def _of_slurm(environment: Environment) -> str | None:
    """An address on the first node of a step of SLURM, as JAX has it.

    >>> _of_slurm({"SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "gpu[03,07-9],other"})
    'gpu03:61447'
    """
    nodes = environment.get("SLURM_STEP_NODELIST")
    job = environment.get("SLURM_JOB_ID")
    if not nodes or not job:
        return None
    result = re.match(r"([^,[]+)(?:\[([^],-]+))?", nodes)
    if result is None:
        return None
    port = environment.get("JAX_COORDINATOR_PORT") or int(job) % 4096 + 61440
    return f"{result[1]}{result[2] or ''}:{port}"


def _of_tpus(environment: Environment) -> Launched | None:
    """A worker of Google's Kubernetes, which knows the others of its slice.

    >>> worker = _of_tpus({"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "a,b"})
    >>> worker.index, worker.count, worker.coordinator
    (1, 2, 'a:8482')
    """
    names = environment.get("TPU_PROCESS_ADDRESSES") or environment.get(
        "TPU_WORKER_HOSTNAMES"
    )
    if not names or "TPU_WORKER_ID" not in environment:
        return None
    workers = names.split(",")
    slices = int(environment.get("MEGASCALE_NUM_SLICES") or 1)
    of_slice = int(environment.get("MEGASCALE_SLICE_ID") or 0)
    first = environment.get("MEGASCALE_COORDINATOR_ADDRESS") or workers[0]
    port = environment.get("JAX_COORDINATOR_PORT") or _TPU_PORT
    index = int(environment["TPU_WORKER_ID"]) + of_slice * len(workers)
    host = first.partition(":")[0]
    return Launched(index, slices * len(workers), f"{host}:{port}")
