"""`ds`: slices by their start, which may be traced, and their size."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp

X = np.arange(24.0, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (lambda i: curta.ds(i, 2), X[1:3]),
        (lambda i: (curta.ds(i, 2), curta.ds(i, 4)), X[1:3, 1:5]),
        (lambda i: (..., curta.ds(i, 2, 3)), X[:, 1:7:3]),
        (lambda i: (None, i, curta.ds(2)), X[None, 1, :2]),
        (lambda i: (np.array([0, 2]), curta.ds(i, 3)), X[[0, 2], 1:4]),
        (lambda i: curta.ds(None), X),
    ],
)
@pytest.mark.parametrize("wrapper", [lambda f: f, curta.jit])
def test_index_means_its_slice_with_known_and_traced_starts(index, expected, wrapper):
    out = wrapper(lambda x, i: x[index(i)])(jnp.asarray(X), 1)
    np.testing.assert_array_equal(out, expected)


def test_starts_past_the_end_move_back_and_negative_ones_count_from_it():
    x = jnp.arange(5)
    np.testing.assert_array_equal(x[curta.ds(4, 2)], [3, 4])
    np.testing.assert_array_equal(x[curta.ds(-3, 2)], [2, 3])


def test_updates_batches_and_gradients():
    x = jnp.arange(5.0)
    np.testing.assert_array_equal(x.at[curta.ds(1, 2)].add(9), [0, 10, 11, 3, 4])
    rows = curta.vmap(lambda i: x[curta.ds(i, 2)])(jnp.arange(3))
    np.testing.assert_array_equal(rows, [[0, 1], [1, 2], [2, 3]])
    slope = curta.grad(lambda x, i: x[curta.ds(i, 2)].sum())(x, 2)
    np.testing.assert_array_equal(slope, [0, 0, 1, 1, 0])
    missing = x.at[curta.ds(4, 2)].get(mode="fill", fill_value=-1)
    np.testing.assert_array_equal(missing, [-1, -1])


def test_slices_are_pytrees_of_what_is_traced():
    part = curta.jit(lambda part, x: x[part])(curta.ds(jnp.int32(1), 2), jnp.arange(4))
    np.testing.assert_array_equal(part, [1, 2])
    assert curta.tree.leaves(curta.ds(1, 2)) == []
    assert curta.ds(1, 2) == curta.ds(1, 2) != curta.ds(1, 3)


def test_errors_name_what_is_wrong():
    x = jnp.arange(4)
    with pytest.raises(ValueError, match="`stride` must be >= 0"):
        curta.ds(0, 2, -1)
    with pytest.raises(ValueError, match="Non-static stride"):
        curta.ds(0, 2, jnp.int32(1))
    with pytest.raises(TypeError, match="slice_sizes must be less than or equal"):
        x[curta.ds(0, 9)]
    with pytest.raises(TypeError, match="Shapes must be 1D sequences of concrete"):
        curta.jit(lambda n: x[curta.ds(0, n)])(2)
