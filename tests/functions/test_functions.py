"""Every public function against NumPy or SciPy, and under each transformation.

The tables in this folder have a row for each function: calls over shapes (empty and 0-d
ones among them), axes, `keepdims` and `where`, and the dtypes that it takes. Each row
is checked here: values, batches against a loop, compiled against uncompiled code,
derivatives of both modes and two orders against finite differences, and values again on
shapes drawn at random.
"""

import warnings
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from tests.functions import checks
from tests.functions.tables import ROWS

import curta
import curta.test_util

SETTINGS = hypothesis.settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[hypothesis.Phase.generate],
    suppress_health_check=list(hypothesis.HealthCheck),
)


def each(check, condition=lambda row: True):
    """One test for each row to which the check applies."""
    chosen = [row for row in ROWS if check not in row.without and condition(row)]
    names = [f"{row.name}-{row.calls.__name__}-{row.dtypes[0]}" for row in chosen]
    return pytest.mark.parametrize("row", chosen, ids=names)


def shapes_of(row):
    main = checks.main_shape(row)
    return [main, *(s for s in checks.SHAPES if s != main and row.takes(s))]


@each("values")
def test_values(row):
    """The first dtype in all calls at all shapes, the others in a few at one."""
    for i, dtype in enumerate(checks.dtypes_of(row, x64=False)):
        for shape in shapes_of(row) if i == 0 else [checks.main_shape(row)]:
            for given in row.calls_at(dtype, shape)[: None if i == 0 else 4]:
                checks.check_values(curta, row, given)


@each("values", lambda row: checks.dtypes_of(row, x64=True))
def test_values_of_64_bits(row):
    with curta.enable_x64(True):
        for dtype in checks.dtypes_of(row, x64=True):
            for given in row.calls_at(dtype, checks.main_shape(row))[:4]:
                checks.check_values(curta, row, given)


# Calls that mix dtypes or ranks, which JAX refuses under these settings too: function,
# kind of calls, dtype, number of the call. Found by running the rows with JAX 0.10.2.
REFUSED = set(
    Path(__file__).with_name("refused_promotions.txt").read_text().splitlines()
)


@each("promotion")
def test_no_promotion_but_the_users_own(row):
    """Nothing inside a function mixes dtypes or ranks without saying so."""
    first, *others = checks.dtypes_of(row, x64=False) or ["float32"]
    wide = [dtype for dtype in others if dtype.startswith("complex")][:1]
    for dtype in [first, *wide]:
        calls = row.calls_at(dtype, checks.main_shape(row))[:2]
        for i, given in enumerate(calls):
            key = f"{row.name} {row.calls.__name__} {dtype} {i}"
            with (
                curta.numpy_dtype_promotion("strict"),
                curta.numpy_rank_promotion("raise"),
            ):
                if key in REFUSED:
                    with pytest.raises((TypeError, ValueError)):
                        checks.computed(curta, row, given)
                else:
                    checks.computed(curta, row, given)


@each("jit", lambda row: checks.dtypes_of(row, x64=False))
def test_jit(row):
    checks.check_jit(curta, row, checks.dtypes_of(row, x64=False)[0])


@each("vmap", lambda row: checks.dtypes_of(row, x64=False))
def test_vmap(row):
    checks.check_vmap(curta, row, checks.dtypes_of(row, x64=False)[0])


@each("grad", lambda row: set(row.dtypes) & {"float64", "complex128"})
def test_gradients(row):
    with curta.enable_x64(True):
        for dtype in "float64", "complex128":
            if dtype in row.dtypes:
                checks.check_gradients(curta, row, dtype)


@each("values", lambda row: row.rank[0] < row.rank[1])
def test_random_shapes(row):
    least, most = row.rank
    sizes = st.integers(max(row.least, 0), max(row.least, 4))
    shapes = st.lists(sizes, min_size=least, max_size=min(most, 3)).map(tuple)
    dtypes = st.sampled_from(checks.dtypes_of(row, x64=False) or list(row.dtypes))

    @SETTINGS
    @hypothesis.given(shapes, dtypes, st.integers(0, 99), st.data())
    def check(shape, dtype, seed, data):
        calls = row.calls_at(dtype, shape, seed)
        if calls:
            checks.check_values(curta, row, data.draw(st.sampled_from(calls)))

    check()


@each("values", lambda row: {"float32", "complex64"} & {*row.dtypes})
def test_wide_arrays_of_numpy_are_taken_without_a_warning(row):
    dtype = "float32" if "float32" in row.dtypes else "complex64"
    split = checks.Split(checks.first_call(row, dtype))
    wide = np.result_type(dtype, np.float64)
    arrays = [x.astype(wide) if x.dtype == dtype else x for x in split.arrays]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Explicitly requested dtype")
        split.run(row.function(curta), arrays)
