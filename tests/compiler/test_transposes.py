"""Maps that read neighbours in another order than they write them: in tiles."""

import numpy as np
import pytest
from tests.compiler.programs import staged

import curta
import curta.numpy as jnp
from curta.compiler.graph.fuse import fuse
from curta.compiler.graph.item_lowering import lower_to_items
from curta.compiler.loops.assemble import assemble
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.schedule import schedule
from curta.tuning import Tuning

LONG = 2 * Tuning().piece_of_map + 5


def plan_of(fun, shape, dtype=np.float32):
    program = lower_to_items(staged(fun, np.zeros(shape, dtype)).jaxpr)
    (group,) = fuse(program).groups
    return schedule(assemble(group, program.builder), 64)


@pytest.mark.parametrize("columns", [2, 3, 8, 15])
def test_a_few_columns_are_read_once(columns):
    """A turn takes all columns of some rows: their lines are read from memory once."""
    plan = plan_of(lambda x: [x.T], (LONG, columns))
    assert (plan.block, plan.outer[-1].extent) == (columns, columns)
    assert plan.piece == Tuning().piece_of_neighbours
    assert plan.iterations == -(-LONG // plan.piece)


def test_other_transposes():
    tile = Tuning().tile
    square = plan_of(lambda x: [x.T], (LONG, tile))
    assert (square.block, square.piece) == (tile, tile)
    assert plan_of(lambda x: [x.T], (LONG, 1)).block == 1  # a copy
    assert plan_of(lambda x: [x.T], (300, 3)).block == 1  # stays in the caches
    assert plan_of(lambda x: [x.T], (LONG, 3), np.int8).block == 1


@pytest.mark.parametrize("dtype", [np.int16, np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("shape", [(LONG, 2), (LONG, 3), (2, LONG, 5), (LONG, 15)])
def test_values(shape, dtype):
    with curta.enable_x64(True):
        x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        y = curta.jit(lambda x: (jnp.swapaxes(x, -1, -2), jnp.swapaxes(x, -1, -2) + 1))
        plain, added = y(x)
    np.testing.assert_array_equal(plain, np.swapaxes(x, -1, -2))
    np.testing.assert_array_equal(added, np.swapaxes(x, -1, -2) + np.ones((), dtype))


@pytest.mark.parametrize(
    ("shape", "order", "merged"),
    [((4, 6, 50, 8), (0, 2, 1, 3), (4, 50, 48)), ((70, 9), (1, 0), (-1,)),
     ((5, 1, 7), (2, 0, 1), (35,)), ((6, 4), (1, 0), (8, 3))],
)  # fmt: skip
def test_a_reshaped_transpose_is_walked_by_its_own_dims(shape, order, merged):
    """Not by those of the result, of which two are one: that takes divisions."""

    def fun(x):
        return [x.transpose(order).reshape(merged)]

    for dtype in (np.float32, np.complex64):
        x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        program = lower_to_items(staged(fun, x).jaxpr)
        (group,) = fuse(program).groups
        kernel = assemble(group, program.builder)
        atoms = [a for load in kernel.loads() for a in load.offset.atoms()]
        assert atoms and all(isinstance(a, LoopVar) for a in atoms)
        found = curta.jit(fun)(x)[0]
        np.testing.assert_array_equal(found, x.transpose(order).reshape(merged))
