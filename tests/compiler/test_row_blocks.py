"""Short rows: the reductions of as many rows as a register has lanes end together."""

from dataclasses import replace

import numpy as np
import pytest
from tests.compiler.programs import staged

import curta
import curta.numpy as jnp
from curta.compiler.fuse.assemble import assemble
from curta.compiler.fuse.fuse import fuse
from curta.compiler.host_target import host
from curta.compiler.llvm.row_blocks import _dealt
from curta.compiler.lower.item_lowering import lower_to_items
from curta.compiler.schedule.kernels import kernel_schedule


def kernel_of(fun, shape, dtype):
    program = lower_to_items(staged(fun, np.zeros(shape, dtype)).jaxpr, host())
    (group,) = fuse(program).groups
    return assemble(group, program.builder)


def plan_of(fun, shape, dtype=np.float32):
    target = replace(host(), vector_bytes=64)
    return kernel_schedule(kernel_of(fun, shape, dtype), target, often=True)


def test_which_rows_end_together():
    def apart(fun, shape):
        return not plan_of(fun, shape).together

    assert not apart(lambda x: [jnp.argmax(x, 1)], (1000, 10))
    assert not apart(lambda x: [jnp.exp(x).sum(1)], (1000, 10))
    assert not apart(lambda x: [x[:, ::-1].max(1)], (1000, 10))
    assert apart(lambda x: [jnp.argmax(x, 1)], (1000, 1000))  # long
    assert apart(lambda x: [jnp.argmax(x, 1)], (20, 10))  # few
    assert apart(lambda x: [jnp.argmax(x, 0)], (10, 1000))  # columns
    assert apart(lambda x: [x + 1], (1000, 10))


def test_a_block_has_as_many_rows_as_a_register_lanes():
    def block(rows, dtype):
        plan = plan_of(lambda x: [jnp.max(x, 1)], (rows, 10), dtype)
        assert plan.iterations == -(-rows // plan.block.factor)
        return plan.block.factor

    assert block(1024, np.float32) == 16
    assert block(1024, np.int8) == 64
    assert block(1000, np.float32) == 8  # which leaves none over
    assert block(1001, np.float32) == 16


def test_only_blocks_of_what_keeps_its_operands_overlap(limits):
    limits(row_blocks=0)

    def overlaps(fun, rows=1001):
        return plan_of(fun, (rows, 10)).block.tail == "overlap"

    assert overlaps(lambda x: [jnp.argmax(x, 1)])
    assert not overlaps(lambda x: [jnp.argmax(x, 1)], 15)  # there is none before
    assert not overlaps(lambda x: [x - x.max(1, keepdims=True)])


@pytest.mark.parametrize(("lanes", "chunk"), [(16, 4), (64, 16), (8, 2), (4, 4)])
def test_each_row_ends_in_its_own_lane(lanes, chunk):
    """Of two neighbors in a row, the first is always the left operand."""

    def tree(rows):
        if len(rows) == 1:
            return [(rows[0], i, i + 1) for i in range(lanes)]
        half = len(rows) // 2
        both = tree(rows[:half]) + tree(rows[half:])
        even, odd = ([both[i] for i in side] for side in _dealt(lanes, half, chunk))
        pairs = zip(even, odd, strict=True)
        assert all((r, end) == (s, start) for (r, _, end), (s, start, _) in pairs)
        return [(r, start, end) for (r, start, _), (_, _, end) in zip(even, odd)]

    assert tree(range(lanes)) == [(row, 0, lanes) for row in range(lanes)]


def results(x):
    wide = x.astype(np.float32)
    return [
        *(jnp.argmax(x, 1), jnp.argmin(x, 1), x.max(1), x.sum(1), (x > 0).any(1)),
        *(curta.nn.log_softmax(wide), curta.nn.logsumexp(wide, 1)),
        *(x[:, 1:].max(1), (wide * jnp.arange(x.shape[1])).sum(1)),
        wide / (1 + abs(wide).sum(1, keepdims=True)),
    ]


@pytest.mark.parametrize("columns", [2, 3, 10, 16, 20, 37])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_])
def test_values(columns, dtype, limits):
    """The same as row by row; the last block of rows has only some, or overlaps."""
    x = (5 * np.random.default_rng(columns).standard_normal((67, columns))).astype(
        dtype
    )
    if dtype == np.float32:
        x[3, 1], x[7, 1], x[5], x[8] = np.nan, np.inf, np.nan, -np.inf
    limits(short_row=-1)
    apart = curta.jit(results)(x)
    limits(short_row=64, row_blocks=0, little_cost=0)
    together = curta.jit(lambda x: results(x))(x)
    for got, want in zip(together, apart, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [3, 64, 67])
def test_equal_rows_have_equal_results(rows, limits):
    """Wherever in a block they are."""
    limits(row_blocks=0, little_cost=0)
    row = np.random.default_rng(0).standard_normal(19).astype(np.float32)
    f = curta.jit(lambda x: [x.sum(1), curta.nn.softmax(x), jnp.exp(x).mean(1)])
    for result in f(np.tile(row, (rows, 1))):
        np.testing.assert_array_equal(result, np.stack([result[0]] * rows))


def test_what_is_of_a_row_alone_is_a_vector(limits):
    """Computed before the loop of a row, from what lies side by side."""
    limits(row_blocks=0, little_cost=0)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((67, 17)), rng.standard_normal(67)
    x, y = x.astype(np.float32), y.astype(np.float32)
    f = curta.jit(lambda x, y: (x * (y * 2 + 1)[:, None]).max(1))
    np.testing.assert_array_equal(f(x, y), (x * (y * 2 + 1)[:, None]).max(1))


@pytest.mark.parametrize("rows", [1000, 1001])
def test_a_result_may_lie_where_the_operand_was(rows, limits):
    limits(row_blocks=0, little_cost=0)
    x = np.random.default_rng(0).standard_normal((rows, 17)).astype(np.float32)
    step = curta.jit(lambda x: x - x.max(1, keepdims=True), donate_argnums=0)
    given = jnp.array(x)
    result = step(given)
    assert given.is_deleted()
    np.testing.assert_array_equal(result, x - x.max(1, keepdims=True))
