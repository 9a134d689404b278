"""`lax.reduce`: known reductions, any function, several arrays together."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax

X = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.mark.parametrize(
    ("computation", "init", "op"),
    [
        (lax.add, 0.0, "reduce_sum"),
        (lax.mul, 1.0, "reduce_prod"),
        (lax.max, -np.inf, "reduce_max"),
        (lax.min, np.inf, "reduce_min"),
    ],
)
def test_known_reductions_need_no_loop(computation, init, op):
    jaxpr = curta.make_jaxpr(lambda x: lax.reduce(x, init, computation, (1,)))(X)
    assert [eqn.op.name for eqn in jaxpr.eqns] == [op]


def test_bitwise_reductions():
    x = np.int32([[6, 3], [2, 7]])
    np.testing.assert_array_equal(lax.reduce(x, 0, lax.bitwise_or, (0,)), [6, 7])
    np.testing.assert_array_equal(lax.reduce(x, -1, lax.bitwise_and, (0,)), [2, 3])
    np.testing.assert_array_equal(lax.reduce(x, 0, lax.bitwise_xor, (0,)), [4, 4])


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), ()])
def test_any_function(axes):
    def run(x):
        return lax.reduce(x, 0.0, lambda a, b: a + 1.0 * b, axes)

    expected = X.sum(tuple(axes)) if axes else X
    np.testing.assert_allclose(run(X), expected)
    np.testing.assert_allclose(curta.jit(run)(X), expected)
    np.testing.assert_allclose(curta.vmap(run)(np.stack([X, 2 * X]))[1], 2 * expected)
    np.testing.assert_allclose(curta.grad(lambda x: run(x).sum())(X), np.ones_like(X))


def test_another_start_counts_once():
    np.testing.assert_array_equal(lax.reduce(X, 5.0, lax.add, (0,)), X.sum(0) + 5)


def test_arrays_together():
    places = lax.broadcasted_iota("int32", X.shape, 1)

    def greater(x, y):
        pick = x[0] > y[0]
        return jnp.where(pick, x[0], y[0]), jnp.where(pick, x[1], y[1])

    values, found = lax.reduce((-X, places), (-np.inf, 0), greater, (1,))
    np.testing.assert_array_equal(values, [0, -4, -8])
    np.testing.assert_array_equal(found, [0, 0, 0])


def test_no_elements_give_the_start():
    x = np.ones((0, 3), np.float32)
    found = lax.reduce(x, 2.0, lambda a, b: a * b, (0,))
    np.testing.assert_array_equal(found, [2, 2, 2])


def test_structures_agree():
    with pytest.raises(ValueError, match="Operands must have the same tree structure"):
        lax.reduce((X, X), 0.0, lax.add, (0,))
