"""Short rows: a vector takes the same element of as many rows as it has lanes."""

import numpy as np
import pytest
from tests.compiler.programs import staged

import curta
import curta.numpy as jnp
from curta.compiler.graph.fuse import fuse
from curta.compiler.graph.item_lowering import lower_to_items
from curta.compiler.llvm import target
from curta.compiler.loops.assemble import assemble
from curta.compiler.loops.outer_vectorisation import squares, vectorise_outer
from curta.compiler.loops.schedule import schedule

needs_masks = pytest.mark.skipif(
    target.host().vector_bytes < 32, reason="vectors without masks go along rows"
)


def plan_of(fun, shape, dtype=np.float32):
    program = lower_to_items(staged(fun, np.zeros(shape, dtype)).jaxpr)
    (group,) = fuse(program).groups
    kernel = assemble(group, program.builder)
    return vectorise_outer(kernel, schedule(kernel, 64), 64, often=True)


def test_which_rows_are_lanes():
    def along(fun, shape):
        return not plan_of(fun, shape).outer_lanes

    assert not along(lambda x: [jnp.argmax(x, 1)], (1000, 10))
    assert not along(lambda x: [jnp.exp(x).sum(1)], (1000, 10))
    assert along(lambda x: [jnp.argmax(x, 1)], (1000, 1000))  # long
    assert along(lambda x: [jnp.argmax(x, 1)], (20, 10))  # few
    assert along(lambda x: [jnp.argmax(x, 0)], (10, 1000))  # columns
    assert along(lambda x: [x[:, ::-1].max(1)], (1000, 10))  # no lines
    assert along(lambda x: [x + 1], (1000, 10))

    def windows(count):
        return lambda x: [sum(jnp.exp(x[:, k : k + 10]) for k in range(count)).sum(1)]

    assert not along(windows(3), (1000, 90))
    assert along(windows(80), (1000, 90))  # more than a thread's stack may have


def test_a_block_of_rows_is_an_iteration():
    plan = plan_of(lambda x: [jnp.argmax(x, 1)], (1001, 10))
    assert plan.block % 16 == 0
    assert plan.iterations == -(-1001 // plan.block)


def test_squares_cover_a_line():
    for extent in range(1, 70):
        parts = list(squares(extent, 16))
        assert sum(width for _, width, _ in parts) == extent
        assert all(width <= size <= 16 for _, width, size in parts if width > 1)


def results(x):
    wide = x.astype(np.float32)
    return [
        *(jnp.argmax(x, 1), jnp.argmin(x, 1), x.max(1), x.sum(1), (x > 0).any(1)),
        *(curta.nn.log_softmax(wide), curta.nn.logsumexp(wide, 1)),
        *(x[:, 1:].max(1), (wide * jnp.arange(x.shape[1])).sum(1)),
        wide / (1 + abs(wide).sum(1, keepdims=True)),
    ]


@needs_masks
@pytest.mark.parametrize("columns", [2, 3, 4, 10, 16, 37])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_])
def test_values(columns, dtype, limits):
    """The same as by vectors along rows; the last block of rows has only some."""
    x = (5 * np.random.default_rng(columns).standard_normal((67, columns))).astype(
        dtype
    )
    if dtype == np.float32:
        x[3, 1], x[7, 1], x[5], x[8] = np.nan, np.inf, np.nan, -np.inf
    limits(outer_row=-1)
    along = curta.jit(results)(x)
    limits(outer_row=64, outer_blocks=0, little_cost=0)
    across = curta.jit(lambda x: results(x))(x)
    for got, want in zip(across, along, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@needs_masks
def test_what_is_of_a_row_alone_is_a_vector(limits):
    """Computed before the loop of a row, from what lies side by side."""
    limits(outer_blocks=0, little_cost=0)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((67, 7)), rng.standard_normal(67)
    x, y = x.astype(np.float32), y.astype(np.float32)
    f = curta.jit(lambda x, y: (x * (y * 2 + 1)[:, None]).max(1))
    np.testing.assert_array_equal(f(x, y), (x * (y * 2 + 1)[:, None]).max(1))


@needs_masks
def test_a_result_may_lie_where_the_operand_was(limits):
    limits(outer_blocks=0, little_cost=0)
    x = np.random.default_rng(0).standard_normal((1001, 7)).astype(np.float32)
    step = curta.jit(lambda x: x - x.max(1, keepdims=True), donate_argnums=0)
    given = jnp.array(x)
    result = step(given)
    assert given.is_deleted()
    np.testing.assert_array_equal(result, x - x.max(1, keepdims=True))
