"""Random programs give what NumPy gives."""

from __future__ import annotations

import pytest
from tests.compiler.programs import RandomProgram, assert_compiles, staged


@pytest.mark.parametrize("seed", range(60))
def test_random_program(seed: int) -> None:
    program = RandomProgram(seed)
    args = program.arguments()
    assert_compiles(staged(program, *args), *args, rtol=1e-3)
