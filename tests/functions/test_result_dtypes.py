"""The dtypes of results: those of JAX 0.12, for each row and each dtype that it takes.

A line of result_dtypes.txt has the name of a row, the name of its calls, and for each
dtype the dtypes of the results of the first call, as `jax.eval_shape` gives them. A new
row needs its line.
"""

from pathlib import Path

import pytest
from tests.functions import checks
from tests.functions.tables import MODULES

import curta

FILE = Path(__file__).parent / "result_dtypes.txt"
NOT_BATCHED = {"lax.pbroadcast"}  # by JAX's `vmap`, which the row needs


def expected():
    """The dtypes of results by row, calls and dtype."""
    found = {}
    for line in FILE.read_text().splitlines():
        name, calls, *results = line.split()
        for result in results:
            dtype, _, wanted = result.partition(":")
            found[name, calls, dtype] = wanted
    return found


EXPECTED = expected()


def result_dtypes(row, dtype):
    split = checks.Split(checks.first_call(row, dtype))
    function = row.function(curta)
    out = curta.eval_shape(lambda arrays: split.run(function, arrays), split.arrays)
    return ",".join(x.dtype.name for x in curta.tree.leaves(out))


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.split(".")[-1])
def test_result_dtypes(module):
    rows = [row for row in module.TABLE if "jit" not in row.without]
    wrong = {}
    for row in rows:
        if row.name in NOT_BATCHED:
            continue
        for x64 in False, True:
            with curta.enable_x64(x64):
                for dtype in checks.dtypes_of(row, x64):
                    key = row.name, row.calls.__name__, dtype
                    got = result_dtypes(row, dtype)
                    if got != EXPECTED.get(key):
                        wrong[key] = got, EXPECTED.get(key)
    assert wrong == {}
