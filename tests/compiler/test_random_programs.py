"""Random programs give what NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest
from tests.compiler.programs import RandomProgram, assert_compiles, staged

from curta.compiler.pipeline import compile_jaxpr


@pytest.mark.parametrize("seed", range(60))
def test_random_program(seed: int) -> None:
    program = RandomProgram(seed)
    args = program.arguments()
    assert_compiles(staged(program, *args), *args, rtol=1e-3)


@pytest.mark.parametrize("seed", range(60, 75))
def test_optimisations_change_nothing(seed: int) -> None:
    program = RandomProgram(seed)
    args = program.arguments()
    closed = staged(program, *args)
    with_them = compile_jaxpr(closed)(*args)
    without = compile_jaxpr(closed, optimise=False)(*args)
    for a, b in zip(with_them, without, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
