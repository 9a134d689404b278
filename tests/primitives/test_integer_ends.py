"""Integers at the ends of every width against exact ones (tests/stress/integers.py)."""

import numpy as np
import pytest
from tests.stress import integers

from curta.config import enable_x64

TABLES = [(1, integers.UNARY), (2, integers.BINARY)]
CASES = [(count, name) for count, table in TABLES for name in table]


@pytest.mark.parametrize(("count", "name"), CASES)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
def test_all_pairs(count, name, dtype):
    dtype = np.dtype(dtype)
    functions, model = TABLES[count - 1][1][name]
    args = (integers.points(dtype),) if count == 1 else integers.pairs(dtype)
    with enable_x64(True):
        found = list(integers.failures(functions[:1], model, *args))
    assert not found, found
