"""Programs that `stress.hosts` has found, on arrays over simulated hosts."""

from pathlib import Path

import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

from curta.config import config
from stress.fuzz.programs import Program
from stress.hosts import as_arrays, check

FOUND = sorted((Path(__file__).parent / "found").glob("*.json"))


@pytest.mark.parametrize("path", FOUND, ids=lambda p: p.stem)
def test_it_does_as_in_one_process(path, eight_devices):  # noqa: F811
    program = Program.from_json(path.read_text())
    before = config.curta_simulate_hosts
    config.update("curta_simulate_hosts", 4)
    try:
        for _ in range(4):
            check(program, as_arrays)
    finally:
        config.update("curta_simulate_hosts", before)
