"""A sample of `make test-shrunk`: small arrays take the paths of large ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.compiler import test_random_arrays, test_random_programs
from tests.conformance import test_compiled
from tests.conformance.operations import sampled_ops

from curta.config import tuning


@pytest.fixture(autouse=True)
def shrunk() -> Iterator[None]:
    with tuning("shrunk"):
        yield


@pytest.mark.parametrize("cls", sampled_ops()[::2], ids=lambda c: c.__name__)
def test_conformance(cls: type) -> None:
    test_compiled.test_compiled_agrees_with_eval(cls, "llvm")


@pytest.mark.parametrize("seed", range(100, 110))
def test_random_programs_of_ops(seed: int) -> None:
    test_random_programs.test_random_program(seed)


@pytest.mark.filterwarnings("ignore:Some donated buffers were not usable")
@pytest.mark.parametrize("seed", range(8))
def test_random_programs_of_arrays(seed: int) -> None:
    test_random_arrays.check(seed)
