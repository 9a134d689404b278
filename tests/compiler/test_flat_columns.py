"""Sums of few columns along rows of all accumulators of a block."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.compiler.host_target import host
from curta.compiler.llvm import column_tiles, flat_columns
from curta.compiler.loops.flat_rows import repeated_values, shared_values
from curta.compiler.loops.summation import sum_order


@pytest.fixture
def tiles(monkeypatch):
    """The rows and the pitch of each tile of accumulators."""
    found, make = [], column_tiles.SumTile.__init__

    def recorded(self, nests, fold, rows, pitch, *rest, **options):
        found.append((rows, pitch))
        make(self, nests, fold, rows, pitch, *rest, **options)

    monkeypatch.setattr(column_tiles.SumTile, "__init__", recorded)
    return found


@pytest.fixture
def repeated(monkeypatch):
    """The values that each flat sum shares between rows, and those it repeats."""
    found, sum_flat = [], flat_columns.FlatColumns._sum_flat

    def recorded(self, nest, dims, plan):
        shared = shared_values(nest, self.column, dims)
        found.append((len(shared), len(repeated_values(nest, shared))))
        sum_flat(self, nest, dims, plan)

    monkeypatch.setattr(flat_columns.FlatColumns, "_sum_flat", recorded)
    return found


def test_accumulators_of_a_block_are_rows_without_gaps(tiles):
    curta.jit(lambda x: x.sum(0))(np.ones((333, 3), np.float32))
    assert tiles == [(sum_order(host()).lanes, 3)]


@pytest.mark.parametrize(
    ("shape", "count"), [((333, 3), 1), ((333, 63), 1), ((333, 64), 0), ((5, 3), 0)]
)
def test_few_columns_of_many_rows_are_flat(repeated, shape, count):
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) % 7
    np.testing.assert_array_equal(curta.jit(lambda x: x.sum(0))(x), x.sum(0))
    assert repeated == [(0, 0)] * count


def test_values_that_rows_share_are_repeated(repeated):
    x, y = np.ones((333, 5), np.float32), np.arange(5, dtype=np.float32)
    got = curta.jit(lambda x, y: (x * jnp.sqrt(y)).sum(0))(x, y)
    np.testing.assert_allclose(got, 333 * np.sqrt(y), rtol=1e-6)
    assert repeated == [(2, 1)]  # the operand and its root
