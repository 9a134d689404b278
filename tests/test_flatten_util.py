"""Trees as vectors."""

import numpy as np
import pytest

import curta.numpy as jnp
from curta.flatten_util import ravel_pytree
from curta.tree_util import tree_leaves


def test_round_trip():
    tree = {"b": np.arange(6.0, dtype=np.float32).reshape(2, 3), "a": [np.float32(7)]}
    vector, unravel = ravel_pytree(tree)
    np.testing.assert_array_equal(vector, [7, 0, 1, 2, 3, 4, 5])
    back = unravel(vector)
    np.testing.assert_array_equal(back["b"], tree["b"])
    assert back["a"][0].shape == ()


def test_mixed_dtypes():
    tree = [np.array([1, 2], np.int32), np.array([[1.5]], np.float32)]
    vector, unravel = ravel_pytree(tree)
    assert vector.dtype == np.float32
    assert [x.dtype for x in unravel(vector)] == [np.int32, np.float32]
    with pytest.raises(TypeError, match="but expected dtype float32"):
        unravel(np.zeros(3, np.int32))


def test_one_dtype_accepts_any():
    vector, unravel = ravel_pytree(np.zeros(3, np.float32))
    assert unravel(np.zeros(3, bool)).dtype == bool
    with pytest.raises(ValueError, match=r"shape \(2,\), but expected shape \(3,\)"):
        unravel(vector[:2])


def test_empty():
    vector, unravel = ravel_pytree([])
    assert vector.shape == (0,)
    assert vector.dtype == np.float32
    assert unravel(vector) == []


def test_equal_functions_for_equal_trees():
    one, two = ravel_pytree({"a": np.zeros(2)})[1], ravel_pytree({"a": np.ones(2)})[1]
    assert one == two
    assert hash(one) == hash(two)


def test_a_vector_of_python_numbers_is_weak():
    for tree, weak in (
        ([1.0, 2.0], True),
        ([1, 2.0], False),
        ([1.0, np.ones(2)], False),
    ):
        vector, unravel = ravel_pytree(tree)
        assert vector.weak_type == weak
        assert all(not x.weak_type for x in tree_leaves(unravel(jnp.ones(vector.size))))
