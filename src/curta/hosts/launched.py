"""What the environment says of the processes that a launcher has started."""

from __future__ import annotations

from collections.abc import Mapping

from curta.lazy_dataclass import dataclass

# Set by `curta run` for processes that need no MPI.
COORDINATOR = "CURTA_COORDINATOR_ADDRESS"
COUNT = "CURTA_NUM_PROCESSES"
INDEX = "CURTA_PROCESS_ID"

# The number of the process and how many there are, as launchers of MPI programs say it.
_MPI = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI, srun --mpi=pmi2
    ("PMIX_RANK", "SLURM_NTASKS"),  # srun --mpi=pmix
)
_SLURM = ("SLURM_PROCID", "SLURM_NTASKS")


@dataclass(frozen=True)
class Launched:
    """Which of how many processes this is; by MPI, or with a coordinator's address."""

    index: int
    count: int
    coordinator: str | None = None


def launched(environment: Mapping[str, str]) -> Launched | None:
    """What the launcher says; None if there is none.

    >>> launched({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"})
    Launched(index=1, count=4, coordinator=None)
    """
    if COORDINATOR in environment:
        index, count = int(environment[INDEX]), int(environment[COUNT])
        return Launched(index, count, environment[COORDINATOR])
    for rank, size in _MPI:
        if rank in environment and size in environment:
            return Launched(int(environment[rank]), int(environment[size]))
    rank, size = _SLURM
    # In a batch script, which runs once, there is no step.
    if rank in environment and size in environment and "SLURM_STEP_ID" in environment:
        return Launched(int(environment[rank]), int(environment[size]))
    return None
