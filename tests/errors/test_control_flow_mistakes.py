"""Control flow: mistakes and answers."""

import pytest
from tests.errors.checks import check_message

import curta.numpy as jnp
from curta import lax

X = jnp.arange(3.0)

# what goes wrong, the mistake, the class, JAX's opening words, what helps
MISTAKES = [
    ("cond None", lambda: lax.cond(None, int, int), TypeError, "cond predicate is", ""),
    (
        "cond complex",
        lambda: lax.cond(1j, lambda: 1, lambda: 2),
        TypeError,
        "Pred type must be either boolean or number, got complex64",
        "",
    ),
    (
        "cond str result",
        lambda: lax.cond(True, lambda: {"a": "b"}, lambda: {"a": "c"}),
        TypeError,
        "function <lambda>",
        "traced for cond returned a value of type <class 'str'> at output component"
        " ['a'], which is not a valid JAX type",
    ),
    (
        "cond leaf",
        lambda: lax.cond(
            True, lambda: {"a": X, "b": 1}, lambda: {"a": X[:2], "b": 1.5}
        ),
        TypeError,
        "cond branches must have equal output types",
        "at path ['a'] has type float32[3] but the corresponding output of false_fun"
        " has type float32[2]",
    ),
    (
        "switch operand",
        lambda: lax.switch(0, [int, int], 1.0, operand=2.0),
        TypeError,
        "if 'operand' keyword is passed then no positional operands",
        "",
    ),
    (
        "switch index list",
        lambda: lax.switch([0], [lambda: 1, lambda: 2]),
        TypeError,
        "Branch index must be scalar, got [0] of shape (1,).",
        "",
    ),
    (
        "switch index str",
        lambda: lax.switch("a", [lambda: 1, lambda: 2]),
        TypeError,
        "Index type must be an integer, got a.",
        "",
    ),
    (
        "while callables",
        lambda: lax.while_loop(1, lambda c: c, 0),
        TypeError,
        "lax.while_loop: body_fun and cond_fun arguments should be callable.",
        "",
    ),
    (
        "while leaf",
        lambda: lax.while_loop(
            lambda s: s["i"] < 3,
            lambda s: {"i": s["i"] + 1, "x": s["x"].astype(int)},
            {"i": 0, "x": X},
        ),
        TypeError,
        "while_loop body function carry input and carry output must have equal types",
        "component s['x'] has type float32[3] but the corresponding output carry"
        " component has type int32[3], so the dtypes do not match",
    ),
    (
        "fori callable",
        lambda: lax.fori_loop(0, 3, None, 0),
        TypeError,
        "lax.fori_loop: body_fun argument should be callable.",
        "",
    ),
    (
        "scan callable",
        lambda: lax.scan(None, 0, X),
        TypeError,
        "lax.scan: f argument should be a callable.",
        "",
    ),
    (
        "scan unroll",
        lambda: lax.scan(lambda c, x: (c, x), 0.0, X, unroll=-1),
        ValueError,
        "`unroll` must be a `bool` or a non-negative `int`.",
        "",
    ),
    (
        "scan output",
        lambda: lax.scan(lambda c, x: (c, object()), 0.0, X),
        TypeError,
        "function <lambda>",
        "traced for scan returned a value of type <class 'object'> at output component"
        " [1], which is not a valid JAX type",
    ),
    (
        "reduce dims",
        lambda: lax.reduce(X, 0.0, lax.add, (1,)),
        ValueError,
        "reduction axes (1,) contains out-of-bounds indices for float32[3]",
        "",
    ),
    (
        "reduce shapes",
        lambda: lax.reduce((X, X[:2]), (0.0, 0.0), lambda a, b: a, (0,)),
        ValueError,
        "reduce requires operands of one shape, got (3,), (2,).",
        "",
    ),
    (
        "reduce result",
        lambda: lax.reduce(X, 0.0, lambda a, b: a > b, (0,)),
        ValueError,
        "the function of reduce must return what it takes, scalars of type float32[]",
        "it returned bool[]",
    ),
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
