"""A small fixed part of the search for faults (`make fuzz`), and what it has found."""

from pathlib import Path

import pytest
from tests.stress.fuzz import strategies
from tests.stress.fuzz.checks import check
from tests.stress.fuzz.programs import Program

KEPT = sorted((Path(__file__).parent / "fuzzed").glob("*.json"))


@pytest.mark.parametrize("path", KEPT, ids=lambda p: p.stem)
def test_found_before(path, monkeypatch):
    monkeypatch.setenv("CURTA_CHECK", "1")  # what the compiler makes is verified, too
    check(Program.from_json(path.read_text()))


@pytest.mark.parametrize("number", range(4))
def test_random_programs(number):
    strategies.try_programs(number, 12, check, strategies.programs(large=False))
