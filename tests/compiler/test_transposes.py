"""Maps that read neighbors in another order than they write them: in tiles."""

import itertools

import numpy as np
import pytest
from tests.compiler.native import Native
from tests.compiler.programs import staged

import curta
import curta.numpy as jnp
from curta._settings.tuning import Tuning
from curta.compiler.fuse.assemble import assemble
from curta.compiler.fuse.fuse import fuse
from curta.compiler.host_target import host
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.transposes import RowTranspose
from curta.compiler.llvm.types import Type
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.schedule import Loop
from curta.compiler.lower.item_lowering import lower_to_items
from curta.compiler.rewrite.inline import inline_calls
from curta.compiler.rewrite.simplify import simplify
from curta.compiler.schedule.kernels import kernel_schedule

U = np.arange(30_000, dtype=np.float32).reshape(200, 150)
LONG = 2 * Tuning().piece_of_map + 5


def plan_of(fun, shape, dtype=np.float32):
    program = lower_to_items(staged(fun, np.zeros(shape, dtype)).jaxpr, host())
    (group,) = fuse(program).groups
    return kernel_schedule(assemble(group, program.builder), host())


@pytest.mark.parametrize("columns", [2, 3, 8, 15])
def test_a_few_columns_are_read_once(columns):
    """A turn takes all columns of some rows: their lines are read from memory once."""
    plan = plan_of(lambda x: [x.T], (LONG, columns))
    assert plan.block == Loop(plan.outer[-1], "serial", columns)
    assert plan.piece == Tuning().piece_of_neighbours
    assert plan.iterations == -(-LONG // plan.piece)


def test_other_transposes():
    tile = Tuning().tile
    square = plan_of(lambda x: [x.T], (LONG, tile))
    assert square.block == Loop(square.outer[-1], "tile", tile, "overlap", tile)
    assert square.piece == tile
    assert plan_of(lambda x: [x.T], (LONG, 1)).block is None  # a copy
    assert plan_of(lambda x: [x.T], (300, 3)).block is None  # stays in the caches
    assert plan_of(lambda x: [x.T], (LONG, 3), np.int8).block is None


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
    """Not by the dims of the result, two of them merged: that needs divisions."""

    def fun(x):
        return [x.transpose(order).reshape(merged)]

    for dtype in (np.float32, np.complex64):
        x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        program = lower_to_items(staged(fun, x).jaxpr, host())
        (group,) = fuse(program).groups
        kernel = assemble(group, program.builder)
        atoms = [a for load in kernel.loads() for a in load.offset.atoms()]
        assert atoms and all(isinstance(a, LoopVar) for a in atoms)
        found = curta.jit(fun)(x)[0]
        np.testing.assert_array_equal(found, x.transpose(order).reshape(merged))


COLUMNS = {
    "stack": lambda lib, x: lib.stack([x, x + 1], -1),
    "stack of three": lambda lib, x: lib.stack([x, x + 1, x - x], -1),
    "reshaped stack": lambda lib, x: lib.stack([x, x + 1], -1).reshape(x.shape[0], -1),
    "reshaped stack of five": lambda lib, x: lib.stack([x] * 5, -1).reshape(-1),
    "repeat": lambda lib, x: lib.repeat(x, 3, 1),
    "repeat both": lambda lib, x: lib.repeat(lib.repeat(x, 2, 0), 2, 1),
    "tile": lambda lib, x: lib.tile(x, (2, 3)),
    "tile of few columns": lambda lib, x: lib.tile(x[:, :3], (1, 40)),
    "reversed": lambda lib, x: x[:, ::-1] + x[:, 1::2].sum(),
    "every other": lambda lib, x: x[:, ::2],
}


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float32, np.complex64])
@pytest.mark.parametrize("shape", [(200, 150), (3, 37), (1, 5)])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_side_by_side(name, shape, dtype):
    """Elements of neighboring columns are stored together, whole vectors and rests."""
    fun, x = COLUMNS[name], np.arange(np.prod(shape)).reshape(shape) % 91
    x = (x % 2 == 1) if dtype is np.bool_ else x.astype(dtype)
    if dtype is np.bool_ and "stack" in name:
        x = x.astype(np.int16)
    if x.shape[1] == 5 and name == "every other":
        x = x[:, :2]
    found = curta.jit(lambda x: fun(jnp, x))(x)
    np.testing.assert_array_equal(found, fun(np, x).astype(found.dtype))


@pytest.mark.parametrize("name", ["reshaped stack", "repeat", "tile"])
def test_reshaped_columns_take_no_divisions(name):
    closed = inline_calls(curta.make_jaxpr(lambda x: COLUMNS[name](jnp, x))(U))
    program = lower_to_items(simplify(closed.jaxpr, host()), host())
    atoms = [a for i in program.items for x in i.loads for a in x.offset.atoms()]
    assert atoms and all(isinstance(a, LoopVar) for a in atoms)


def test_products_without_sums_whose_batch_is_not_in_front():
    x, y = np.arange(6.0).reshape(3, 2), np.arange(8.0).reshape(4, 2)
    product = curta.jit(
        lambda x, y: curta.lax.dot_general(x, y, (((), ()), ((1,), (1,))))
    )
    np.testing.assert_array_equal(product(x, y), np.einsum("ib,jb->bij", x, y))


@pytest.mark.parametrize("kind", ["f32", "i64"])
@pytest.mark.parametrize("assembles", [True, False])
def test_rows_to_columns(kind, assembles):
    """Whole squares, ones that overlap, short rows; rows that are missing."""
    width = host().vector_bytes
    vector = Type(kind, width // Type(kind).size)
    module = Module(True, width, True, assembles and host().assembles)
    what = RowTranspose(vector)
    what.emit(module)
    transpose, lanes = Native(module, what.name), vector.lanes
    for last, steps in itertools.product((0, lanes - 2, lanes - 1), (0, 3, lanes, 41)):
        rows = np.arange(lanes * (steps + 2)).reshape(lanes, steps + 2)
        rows = np.ascontiguousarray(rows, {"f32": "f4", "i64": "i8"}[kind])
        columns = np.full((steps + 1, lanes + 3), -1, rows.dtype)
        transpose(columns, lanes + 3, rows, steps + 2, last, steps)
        expected = rows[np.minimum(np.arange(lanes), last), :steps].T
        np.testing.assert_array_equal(columns[:steps, :lanes], expected)
        assert (columns[:, lanes:] == -1).all() and (columns[steps:] == -1).all()
