"""Eight devices on four simulated hosts for the tests of a module."""

import pytest

from curta.config import config


@pytest.fixture(autouse=True)
def four_hosts():
    before = config.jax_num_cpu_devices, config.curta_simulate_hosts
    config.update("jax_num_cpu_devices", 8)
    config.update("curta_simulate_hosts", 4)
    yield
    config.update("jax_num_cpu_devices", before[0])
    config.update("curta_simulate_hosts", before[1])
