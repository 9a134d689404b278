"""The examples compute the same in two processes as in one."""

import json

import numpy as np
import pytest
from tests.hosts.programs import examples
from tests.multiprocess.launch import ENGINES, lines

NAMES = ("heat", "transformer", "digits")


@pytest.fixture(scope="module")
def alone():
    """The curves of one process."""
    return {name: getattr(examples, name)() for name in NAMES}


@pytest.mark.parametrize("engine", ENGINES)
def test_two_processes(alone, engine):
    (said,) = lines(engine, 2, examples.__file__)
    curves = json.loads(said)
    for name in NAMES:
        np.testing.assert_allclose(curves[name], alone[name], rtol=1e-4, atol=1e-5)
