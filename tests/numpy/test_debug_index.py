"""debug_index: indices out of range raise IndexError, wherever they are used."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax

X = jnp.arange(6.0).reshape(2, 3)
ROWS = lax.GatherDimensionNumbers((1,), (0,), (0,))
TO_ROWS = lax.ScatterDimensionNumbers((1,), (0,), (0,))

BAD = {
    "scalar": (lambda i: X[i], 2, "index 2 .* axis 0 with size 2"),
    "negative": (lambda i: X[:, i], -4, "index -4 .* axis 1 with size 3"),
    "array": (lambda i: X[i], np.array([0, 1, 5, 9]), "index 5 .* axis 0"),
    "pair": (lambda i: X[(0, 1), i], np.array([1, 3]), "index 3 .* axis 1"),
    "take": (lambda i: jnp.take(X, i, axis=1), 3, "index 3 .* axis 1"),
    "flat": (lambda i: jnp.take(X, i), 6, "index 6 .* axis 0 with size 6"),
    "along": (
        lambda i: jnp.take_along_axis(X, i[None], 1),
        np.array([0, 7]),
        "index 7 .* axis 1",
    ),
    "set": (lambda i: X.at[i].set(0.0), 2, "index 2 .* axis 0"),
    "add": (lambda i: X.at[0, i].add(0.0), np.array([1, -9]), "index -9 .* axis 1"),
    "power": (lambda i: X.at[i].power(2.0), 2, "index 2 .* axis 0"),
    "window": (
        lambda i: lax.dynamic_slice(X, (0, i), (1, 2)),
        2,
        "a window of 2 at index 2 .* axis 1 with size 3",
    ),
    "last window": (lambda i: lax.dynamic_slice(X, (0, i), (1, 2)), -1, "index -1"),
    "written": (
        lambda i: lax.dynamic_update_slice(X, X[:1], (i, 0)),
        2,
        "index 2 .* axis 0",
    ),
    "in dim": (lambda i: lax.dynamic_index_in_dim(X, i, 1), 3, "index 3 .* axis 1"),
    "gather": (
        lambda i: lax.gather(X, i[:, None], ROWS, (1, 3)),
        np.array([1, 2]),
        "index 2 .* axis 0",
    ),
    "scatter": (
        lambda i: lax.scatter(X, i[:, None], X[:1], TO_ROWS),
        np.array([2]),
        "index 2 .* axis 0",
    ),
    "vmap": (curta.vmap(lambda i: X[0][i]), np.array([0, 4]), "index 4 .* axis 0"),
    "loop": (
        lambda n: lax.fori_loop(0, n, lambda i, s: s + X[0, i], 0.0),
        4,
        "index 3 .* axis 1",
    ),
    "scan": (lambda i: lax.map(lambda j: X[j, 0], i), np.array([1, 2]), "index 2"),
    "branch": (lambda i: lax.cond(i > 0, lambda: X[i, 0], lambda: 0.0), 2, "index 2"),
    "gradient": (lambda i: curta.grad(lambda x: x[0, i] ** 2)(X), 3, "index 3"),
    "of a scan": (
        lambda i: curta.grad(
            lambda x: lax.scan(lambda s, j: (s * x[0, j], s), 1.0, i)[0]
        )(X),
        np.array([1, 4]),
        "index 4",
    ),
    "again": (
        lambda i: curta.grad(curta.checkpoint(lambda x: jnp.sin(x[0, i])))(X),
        3,
        "index 3",
    ),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("jit", [False, True])
def test_out_of_range(case, jit):
    f, index, message = BAD[case]
    f = curta.jit(f) if jit else f
    index = jnp.asarray(index)
    quietly = f(index)  # as in JAX: clamped, filled or dropped
    with curta.debug_index(True):
        with pytest.raises(IndexError, match=message) as info:
            f(index)
    assert __file__ in str(info.value)
    assert str(f(index)) == str(quietly)


def test_known_indices_raise_while_tracing():
    with curta.debug_index(True):
        for f in lambda x: x[0, 7], lambda x: x[np.array([0, 7])], lambda x: x[..., -4]:
            with pytest.raises(IndexError, match="is out of bounds for axis"):
                curta.make_jaxpr(f)(X)


def test_in_range_is_left_alone():
    ids = jnp.array([0, 1, 5])

    def f(i):
        inside = X[i, i], X[-i], X.at[-1, i].set(0.0), jnp.take(X, i - 1, axis=0)
        window = lax.dynamic_slice(X, (0, -2), (2, 2))
        chosen = X.at[i + 9].get(mode="fill", fill_value=-1.0)
        dropped = X.at[i + 9].set(1.0, mode="drop"), jnp.take(X, i + 9, mode="clip")
        return inside, window, chosen, dropped, curta.ops.segment_sum(X[0], ids, 2)

    expected = f(1)
    with curta.debug_index(True):
        for run in f, curta.jit(f):
            curta.tree.map(np.testing.assert_array_equal, run(1), expected)


def test_what_an_example_does_not_do_is_no_error():
    until = curta.vmap(
        lambda n: lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + X[0][c[0]]), (0, 0.0)
        )[1]
    )
    chosen = curta.vmap(lambda i: lax.cond(i < 3, lambda: X[0][i], lambda: -1.0))
    with curta.debug_index(True):
        assert until(jnp.array([1, 3])).tolist() == [0.0, 3.0]
        with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0"):
            until(jnp.array([1, 4]))
        assert chosen(jnp.array([2, 3])).tolist() == [2.0, -1.0]


def test_small_index_types():
    x = jnp.arange(300)
    with curta.debug_index(True):
        assert x[jnp.uint8(255)] == 255
        with pytest.raises(IndexError, match="index 200 is out of bounds"):
            X[0][jnp.uint8(200)]


def test_within_ops_that_have_rules_of_their_own():
    def solve(i):
        def invert(matvec, b):
            return b / X[0, i]

        return lax.custom_linear_solve(lambda x: X[0, i] * x, X[0], invert)

    with curta.debug_index(True):
        np.testing.assert_allclose(solve(2), X[0] / 2)
        for run in solve, curta.jit(solve):
            with pytest.raises(IndexError, match="index 3 .* axis 1 with size 3"):
                run(3)
