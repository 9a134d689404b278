"""The examples compute the same on several hosts as in one process."""

import numpy as np
import pytest

from curta.config import config

from .programs import examples

NAMES = ("heat", "transformer", "digits")
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


@pytest.fixture(scope="module")
def alone():
    """The curves of one process."""
    return {name: getattr(examples, name)() for name in NAMES}


@pytest.fixture
def simulated():
    """Four simulated hosts, of one device each."""
    config.update("curta_simulate_hosts", 4)
    yield
    config.update("curta_simulate_hosts", 1)


@pytest.mark.parametrize("name", NAMES)
def test_four_simulated_hosts(alone, simulated, name):
    np.testing.assert_allclose(getattr(examples, name)(), alone[name], **CLOSE)


def test_training_goes_on_from_what_was_saved(alone, simulated, tmp_path):
    examples.digits(tmp_path, epochs=1)
    config.update("curta_simulate_hosts", 2)
    found = examples.digits(tmp_path)
    np.testing.assert_allclose(found, alone["digits"], **CLOSE)
