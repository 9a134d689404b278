"""The numbers of processes in the environment variables of launchers."""

import socket
from types import SimpleNamespace

import pytest

from curta.api import processes
from curta.hosts.launched import launched
from curta.hosts.ports import free_port

SLURM = {
    "SLURM_PROCID": "3",
    "SLURM_NTASKS": "8",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_ID": "0",
    "SLURM_JOB_ID": "4097",
}
TPU = {"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "w0,w1,w2"}


def test_a_port_that_no_connection_is_given():
    port = free_port()
    with socket.create_server(("127.0.0.1", 0)) as given:
        assert given.getsockname()[1] >= 32_000 > port
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_open_mpi():
    names = ("RANK", "SIZE", "LOCAL_RANK")
    found = launched({f"OMPI_COMM_WORLD_{n}": str(i) for i, n in enumerate(names, 1)})
    assert (found.index, found.count, found.local) == (1, 2, 3)
    assert found.coordinator is found.fallback is None


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
    assert found.fallback is None and found.coordinator == f"{first}:61441"


def test_slurm_that_starts_an_mpi_program():
    """The address is for where MPI is not installed."""
    pmix = {**SLURM, "SLURM_STEP_NODELIST": "node1", "PMIX_RANK": "3"}
    found = launched(pmix)
    assert (found.index, found.count, found.local) == (3, 8, 1)
    assert found.coordinator is None and found.fallback == "node1:61441"


def test_slurm_needs_no_mpi_where_mpi_is_installed(monkeypatch):
    """A plain `srun`: MPI would find each process alone."""
    seen = []
    mpi = SimpleNamespace(is_there=lambda: True)
    monkeypatch.setattr(processes, "mpi", mpi)
    starts = SimpleNamespace(
        Limits=lambda *_: None, over_tcp=lambda *given: seen.append(given)
    )
    monkeypatch.setattr(processes, "starts", starts)
    monkeypatch.setattr(processes, "devices_are_counted", lambda: False)
    monkeypatch.setattr(processes, "global_state", processes.DistributedState())
    monkeypatch.setattr(processes, "_choose_devices", lambda *_: None)
    for name, value in {**SLURM, "SLURM_STEP_NODELIST": "node[1-8]"}.items():
        monkeypatch.setenv(name, value)
    processes.initialize()
    assert seen == [(("node1", 61441), 3, 8, None)]


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
