"""What the environments of launchers say of the processes that they start."""

import pytest

from curta.hosts.launched import launched

SLURM = {
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "8",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_ID": "4097",
}
TPU = {"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "w0,w1,w2"}


def test_open_mpi():
    names = ("RANK", "SIZE", "LOCAL_RANK")
    found = launched({f"OMPI_COMM_WORLD_{n}": str(i) for i, n in enumerate(names, 1)})
    assert (found.index, found.count, found.local) == (1, 2, 3)
    assert found.coordinator is found.otherwise is None


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("node001", "node001"),
        ("node001,host2", "node001"),
        ("node[001-015],host2", "node001"),
        ("node[001,007-015],host2", "node001"),
    ],
)
def test_slurm(nodes, first):
    found = launched({**SLURM, "SLURM_STEP_NODELIST": nodes})
    assert (found.index, found.count, found.local) == (3, 8, 1)
    assert found.coordinator is None and found.otherwise == f"{first}:61441"


def test_a_batch_script_is_no_step():
    assert launched({n: v for n, v in SLURM.items() if n != "SLURM_STEP_ID"}) is None


def test_tpus():
    found = launched(TPU)
    assert (found.index, found.count, found.coordinator) == (1, 3, "w0:8482")
    assert found.local is None
    several = {
        "MEGASCALE_NUM_SLICES": "2",
        "MEGASCALE_SLICE_ID": "1",
        "MEGASCALE_COORDINATOR_ADDRESS": "first:1",
        "JAX_COORDINATOR_PORT": "77",
    }
    found = launched({**TPU, **several})
    assert (found.index, found.count, found.coordinator) == (4, 6, "first:77")


def test_nothing_is_launched():
    assert launched({"TPU_WORKER_HOSTNAMES": "w0"}) is launched({}) is None
