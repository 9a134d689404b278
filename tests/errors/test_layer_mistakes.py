"""Attention, initializers and other functions of layers: mistakes and answers."""

import numpy as np
import pytest
from tests.errors.checks import check_message

import curta
import curta.numpy as jnp
from curta import nn, random

KEY = random.key(0)
Q = jnp.ones((1, 4, 2, 8))
make = nn.initializers


def attention(**options):
    return nn.dot_product_attention(Q, Q, Q, **options)


MISTAKES = {
    "window of three": (
        lambda: attention(local_window_size=(1, 2, 3)),
        ValueError,
        "local_window_size must be an int or a pair of ints, but got (1, 2, 3)",
    ),
    "window of a fraction": (
        lambda: attention(local_window_size=1.5),
        TypeError,
        "local_window_size must be an int or a pair of ints, but got 1.5",
    ),
    "mask of other heads": (
        lambda: attention(mask=jnp.ones((1, 3, 4, 4), bool)),
        ValueError,
        "mask shape should broadcast to (1, 2, 4, 4)",
    ),
    "no such axis name": (
        lambda: nn.one_hot(1, 3, axis="x"),
        NameError,
        "Found an unbound axis name: x",
    ),
    "mapped axis of another size": (
        lambda: curta.vmap(lambda x: nn.one_hot(x, 4, axis="i"), axis_name="i")(
            jnp.arange(3)
        ),
        ValueError,
        "Expected num_classes to match the size of axis i, but 4 != 3",
    ),
    "mean in a tuple": (
        lambda: nn.standardize(jnp.ones(2), mean=(1.0, 2.0)),
        TypeError,
        "standardize requires ndarray, scalar, or None arguments",
    ),
    "unsigned weights": (
        lambda: make.glorot_normal()(KEY, (2, 3), jnp.uint32),
        ValueError,
        "dtype argument to `uniform` must be a float dtype, got uint32",
    ),
    "weights of keys": (
        lambda: make.orthogonal()(KEY, (2, 3), KEY.dtype),
        ValueError,
        "dtype argument to `normal` must be a float or complex dtype, got key<fry>",
    ),
    "nested shape": (
        lambda: make.orthogonal()(KEY, ((2,), 3)),
        TypeError,
        "Shapes must be 1D sequences of concrete values of integer type",
    ),
    "shape as text": (
        lambda: make.delta_orthogonal()(KEY, "abc"),
        TypeError,
        "Shapes must be 1D sequences of concrete values of integer type",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_message(name):
    mistake, kind, opening = MISTAKES[name]
    check_message(mistake, kind, opening, "")


def test_one_hot_along_a_mapped_axis():
    indices = jnp.array([0, 2, 5])
    one = curta.vmap(
        lambda _: nn.one_hot(indices, 3, axis="i"), axis_name="i", out_axes=1
    )
    np.testing.assert_array_equal(one(jnp.arange(3)), nn.one_hot(indices, 3))
    assert curta.jit(one)(jnp.arange(3)).dtype == "float32"


def test_one_hot_tests_equality_with_its_part():
    part = curta.vmap(lambda x: nn.one_hot(x, 3, axis="i"), axis_name="i")
    np.testing.assert_array_equal(part(jnp.array([0, 0, 2])), [1.0, 0.0, 1.0])
