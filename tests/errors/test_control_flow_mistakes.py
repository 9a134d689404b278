"""Control flow: mistakes and answers."""

import pytest
from tests.errors.checks import check_message

import curta.numpy as jnp
from curta import lax

X = jnp.arange(3.0)

# what goes wrong, the mistake, the class, JAX's opening words, what helps
MISTAKES = [
    (
        "cond branches",
        lambda: lax.cond(True, lambda x: x, lambda x: (x, x), 1.0),
        TypeError,
        "cond branch outputs must have the same pytree",
        "Revise true_fun and/or false_fun so that",
    ),
    (
        "cond dtypes",
        lambda: lax.cond(True, lambda x: x, lambda x: jnp.int32(1), 1.0),
        TypeError,
        "cond branches must have equal output types",
        "Revise true_fun and/or false_fun so that",
    ),
    (
        "cond pred",
        lambda: lax.cond(X > 0, lambda x: x, lambda x: x, 1.0),
        TypeError,
        "Pred must be a scalar, got [False True True]",
        "",
    ),
    (
        "cond pred str",
        lambda: lax.cond("a", lambda x: x, lambda x: x, 1.0),
        TypeError,
        "Pred must be a scalar, got a of type <class",
        "",
    ),
    (
        "cond fun",
        lambda: lax.cond(True, 1.0, 2.0),
        TypeError,
        "lax.cond: true_fun and false_fun arguments",
        "true_fun and false_fun arguments should be",
    ),
    ("switch none", lambda: lax.switch(0, []), ValueError, "Empty branch sequence", ""),
    (
        "switch float",
        lambda: lax.switch(0.5, [lambda: 1, lambda: 2]),
        TypeError,
        "Index type must be an integer, got 0.5 as",
        "",
    ),
    (
        "while carry",
        lambda: lax.while_loop(lambda c: c < 3, lambda c: (c, c), 0),
        TypeError,
        "while_loop body function carry input and",
        "Revise the function so that the carry",
    ),
    (
        "while cond",
        lambda: lax.while_loop(lambda c: c, lambda c: c, 1.0),
        TypeError,
        "cond_fun must return a boolean scalar, but",
        "",
    ),
    (
        "while cond shape",
        lambda: lax.while_loop(lambda c: c < 3, lambda c: c, X),
        TypeError,
        "cond_fun must return a boolean scalar, but",
        "",
    ),
    (
        "fori bounds",
        lambda: lax.fori_loop(0.0, 3, lambda i, c: c, 0),
        TypeError,
        "lower and upper arguments to fori_loop must",
        "",
    ),
    (
        "scan carry",
        lambda: lax.scan(lambda c, x: ((c, c), x), 0.0, X),
        TypeError,
        "scan body function carry input and carry",
        "Revise the function so that the carry",
    ),
    (
        "scan shape",
        lambda: lax.scan(lambda c, x: (jnp.ones(2), x), 1.0, X),
        TypeError,
        "scan body function carry input and carry",
        "Revise the function so that all output",
    ),
    (
        "scan lengths",
        lambda: lax.scan(lambda c, x: (c, x), 0.0, (X, jnp.ones(4))),
        ValueError,
        "scan got values with different leading axis",
        "3, 4",
    ),
    (
        "scan length arg",
        lambda: lax.scan(lambda c, x: (c, x), 0.0, X, length=5),
        ValueError,
        "scan got `length` argument of 5 which",
        "",
    ),
    (
        "scan nolength",
        lambda: lax.scan(lambda c, x: (c, x), 0.0, None),
        ValueError,
        "scan got no values to scan over and `length`",
        "",
    ),
    (
        "scan out",
        lambda: lax.scan(lambda c, x: c, 0.0, X),
        TypeError,
        "scan body output must be a pair, got",
        "",
    ),
    (
        "scan scalar",
        lambda: lax.scan(lambda c, x: (c, x), 0.0, 1.0),
        ValueError,
        "scan got value with no leading axis to scan",
        "float32[]",
    ),
    (
        "map scalar",
        lambda: lax.map(lambda x: x, 1.0),
        ValueError,
        "scan got value with no leading axis to scan",
        "float32[]",
    ),
]


@pytest.mark.parametrize(
    ("mistake", "kind", "opening", "help"),
    [row[1:] for row in MISTAKES],
    ids=[row[0] for row in MISTAKES],
)
def test_message(mistake, kind, opening, help):
    check_message(mistake, kind, opening, help)
