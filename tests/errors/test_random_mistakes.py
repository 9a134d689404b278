"""Random keys: mistakes and answers."""

import numpy as np
import pytest
from tests.errors.checks import check_message

import curta
import curta.numpy as jnp
from curta import random

N = jnp.arange(3)

# what goes wrong, the mistake, the class, JAX's opening words, what helps
MISTAKES = [
    (
        "key float",
        lambda: random.key(1.5),
        TypeError,
        "PRNG key seed must be an integer; got",
        "got float32",
    ),
    (
        "key array",
        lambda: random.key(N),
        TypeError,
        "key accepts a scalar seed, but was given an",
        "Use jax.vmap for batching",
    ),
    (
        "key impl",
        lambda: random.key(0, impl="nope"),
        ValueError,
        'unrecognized PRNG implementation "nope". Did',
        '"threefry2x32", "rbg", "unsafe_rbg", "threefry4x32"?',
    ),
    (
        "key add",
        lambda: random.key(0) + 1,
        TypeError,
        "add does not accept dtypes key<fry>, int32.",
        "",
    ),
    (
        "key missing",
        lambda: random.normal(),
        TypeError,
        "normal() missing 1 required positional",
        "'key'",
    ),
    (
        "key int",
        lambda: random.normal(0),
        TypeError,
        "Encountered invalid PRNG key data:",
        "got ndim=0",
    ),
    (
        "key int shape",
        lambda: random.normal((3,)),
        TypeError,
        "unexpected PRNG key type <class 'tuple'>",
        "",
    ),
    (
        "key batched",
        lambda: random.normal(random.split(random.key(0))),
        ValueError,
        "normal accepts a single key, but was given a",
        "Use jax.vmap for batching",
    ),
    (
        "normal int dtype",
        lambda: random.normal(random.key(0), dtype=int),
        ValueError,
        "dtype argument to `normal` must be a float or",
        "",
    ),
    (
        "uniform shape",
        lambda: random.uniform(random.key(0), (-1,)),
        TypeError,
        "Only non-negative indices are allowed when broadcasting",
        "sizes must not be negative",
    ),
    (
        "randint float",
        lambda: random.randint(random.key(0), (2,), 0, 3, dtype=float),
        TypeError,
        "randint only accepts integer dtypes, got",
        "",
    ),
    (
        "key to numpy",
        lambda: np.asarray(random.key(0)),
        TypeError,
        "Array with PRNGKey dtype cannot be",
        "Use jax.random.key_data(arr) if you wish to",
    ),
    (
        "key sin",
        lambda: jnp.sin(random.key(0)),
        TypeError,
        "Cannot interpret 'key<fry>' as a data type",
        "",
    ),
    (
        "key grad",
        lambda: curta.grad(lambda k: 1.0)(random.key(0)),
        TypeError,
        "grad requires real- or complex-valued inputs",
        "",
    ),
    (
        "complex parameter",
        lambda: random.triangular(random.key(0), 0.0, 1j, 2.0),
        curta.errors.TypePromotionError,
        "In arguments to triangular, cannot safely cast argument of",
        "complex64 to float32",
    ),
    (
        "parameter shapes",
        lambda: random.gamma(random.key(0), jnp.ones(7), (2, 3)),
        ValueError,
        "Incompatible shapes for broadcasting: shapes=[(2, 3), (7,)]",
        "",
    ),
    (
        "shape of numpy",
        lambda: random.normal(random.key(0), np.int64(2)),
        TypeError,
        "'numpy.int64' object is not iterable",
        "Shapes must be 1D sequences",
    ),
    (
        "permutation of a list",
        lambda: random.permutation(random.key(0), [1, 2]),
        TypeError,
        "permutation requires ndarray or scalar arguments",
        "<class 'list'>",
    ),
    (
        "bounds",
        lambda: random.randint(random.key(0), (2,), None, 3),
        TypeError,
        "randint requires ndarray or scalar arguments",
        "<class 'NoneType'>",
    ),
    (
        "key text",
        lambda: random.normal("key"),
        TypeError,
        "Encountered invalid PRNG key data: expected key_data to",
        "Got key",
    ),
    (
        "seed text",
        lambda: random.key("key"),
        TypeError,
        "Value 'key' with dtype <U3 is not a valid JAX array type",
        "",
    ),
    (
        "wrap bad",
        lambda: random.wrap_key_data(jnp.ones(2)),
        TypeError,
        "Encountered invalid PRNG key data:",
        "got dtype=float32",
    ),
    (
        "wrap list",
        lambda: random.wrap_key_data([0, 0]),
        TypeError,
        "Encountered invalid PRNG key data: expected key_data to have ndim",
        "Got [0, 0]",
    ),
    (
        "negative size",
        lambda: random.normal(random.key(0), (2, -1)),
        TypeError,
        "Only non-negative indices are allowed when broadcasting static shapes",
        "got shape (2, -1)",
    ),
    (
        "axes of a permutation",
        lambda: random.permutation(random.key(0), jnp.ones((2, 3)), axis=(0,)),
        TypeError,
        "'tuple' object cannot be interpreted as an integer",
        "",
    ),
    (
        "a number as the shape of counts",
        lambda: random.multinomial(random.key(0), 5, jnp.ones(3) / 3, shape=2),
        TypeError,
        "'int' object is not iterable",
        "Shapes must be 1D sequences of concrete values of integer type, got 2",
    ),
    (
        "a traced dimension of a ball",
        lambda: curta.jit(lambda d: random.ball(random.key(0), d))(2),
        curta.errors.ConcretizationTypeError,
        "Abstract tracer value encountered where concrete value is expected",
        "The error occurred in jax.random.ball()",
    ),
    (
        "an axis that categories do not have",
        lambda: random.categorical(random.key(0), jnp.ones((2, 3)), axis=5),
        IndexError,
        "tuple index out of range",
        "axis 5 is out of bounds for array of dimension 2",
    ),
    (
        "complex trials",
        lambda: random.binomial(random.key(0), 1j, 0.5),
        TypeError,
        "binomial does not accept complex numbers",
        "",
    ),
    *(
        (
            f"a list as a parameter of {draw.__name__}",
            lambda draw=draw, args=args: draw(random.key(0), *args),
            TypeError,
            "Cannot determine dtype of [1.0]",
            "",
        )
        for draw, args in (
            (random.beta, (0.5, [1.0])),
            (random.rayleigh, ([1.0],)),
            (random.bernoulli, ([1.0],)),
        )
    ),
    (
        "None as a parameter",
        lambda: random.rayleigh(random.key(0), None),
        ValueError,
        "Invalid argument to dtype: None.",
        "",
    ),
    (
        "a list of concentrations",
        lambda: random.dirichlet(random.key(0), [1.0, 2.0]),
        TypeError,
        "dirichlet requires ndarray or scalar arguments, got <class 'list'>",
        "",
    ),
    (
        "a list as a scale",
        lambda: random.weibull_min(random.key(0), 1.0, [1.0]),
        TypeError,
        "weibull_min requires ndarray or scalar arguments, got <class 'list'>",
        "at position 1",
    ),
    (
        "a list as a parameter",
        lambda: random.double_sided_maxwell(random.key(0), [1.0], 1.0),
        TypeError,
        "double_sided_maxwell requires ndarray or scalar arguments, got <class 'list'>",
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
