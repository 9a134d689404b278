"""Indices, and assignment to arrays: mistakes and answers."""

import operator

import pytest
from tests.errors.checks import check_message

import curta
import curta.numpy as jnp
from curta import lax

X = jnp.arange(3.0)
N = jnp.arange(3)
M = jnp.ones((2, 3))

# what goes wrong, the mistake, the class, JAX's opening words, what helps
MISTAKES = [
    (
        "index oob static",
        lambda: X[0, 0],
        IndexError,
        "Too many indices: array is 1-dimensional, but",
        "array is 1-dimensional, but 2 were indexed",
    ),
    (
        "index float",
        lambda: X[1.0],
        TypeError,
        "Indexer must have integer or boolean type,",
        "",
    ),
    (
        "index str",
        lambda: X["a"],
        TypeError,
        "String indexing is not supported; got",
        "got idx='a'",
    ),
    ("index list", lambda: X[[0, 1]], TypeError, "Using a non-tuple sequence for", ""),
    (
        "index bool shape",
        lambda: X[jnp.array([True, False])],
        IndexError,
        "boolean index did not match shape of indexed",
        "got (2,), expected [3]",
    ),
    (
        "index two ellipses",
        lambda: M[..., ...],
        IndexError,
        "an index can only have a single ellipsis",
        "",
    ),
    (
        "len scalar",
        lambda: len(jnp.float32(1)),
        TypeError,
        "len() of unsized object",
        "",
    ),
    (
        "iter scalar",
        lambda: list(jnp.float32(1)),
        TypeError,
        "iteration over a 0-d array",
        "",
    ),
    (
        "set item",
        lambda: operator.setitem(X, 0, 1.0),
        TypeError,
        "Arrays are immutable and do not support",
        "",
    ),
    (
        "set item tracer",
        lambda: curta.jit(lambda x: operator.setitem(x, 0, 1.0))(X),
        TypeError,
        "Arrays are immutable and do not support",
        "",
    ),
    (
        "iadd item",
        lambda: operator.setitem(X, slice(0, 2), 1.0),
        TypeError,
        "Arrays are immutable and do not support",
        "",
    ),
    (
        "at set shape",
        lambda: X.at[:2].set(jnp.ones(3)),
        ValueError,
        "Incompatible types for broadcasting: input",
        "input type=float32[3] and requested",
    ),
    (
        "index conv",
        lambda: operator.index(jnp.float32(1)),
        TypeError,
        "Only integer scalar arrays can be converted",
        "",
    ),
    (
        "index conv many",
        lambda: operator.index(N),
        TypeError,
        "Only integer scalar arrays can be converted",
        "",
    ),
    (
        "take float",
        lambda: jnp.take(X, jnp.array([0.5])),
        ValueError,
        "indices must have an integer",
        "",
    ),
    (
        "dynamic slice",
        lambda: lax.dynamic_slice(X, (0, 0), (1,)),
        ValueError,
        "Length of slice indices must match number of",
        "",
    ),
    (
        "dynamic slice size",
        lambda: lax.dynamic_slice(X, (0,), (5,)),
        TypeError,
        "slice slice_sizes must be less than or equal",
        "",
    ),
]


@pytest.mark.parametrize(
    ("mistake", "kind", "opening", "help"),
    [row[1:] for row in MISTAKES],
    ids=[row[0] for row in MISTAKES],
)
def test_message(mistake, kind, opening, help):
    check_message(mistake, kind, opening, help)
