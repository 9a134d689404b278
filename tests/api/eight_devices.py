"""Eight virtual devices for the tests of a module: import the fixture."""

import pytest

from curta.config import config


@pytest.fixture(autouse=True)
def eight_devices():
    before = config.jax_num_cpu_devices
    config.update("jax_num_cpu_devices", 8)
    yield
    config.update("jax_num_cpu_devices", before)
