"""What methods, updates and functions of arrays say of their other arguments."""

import numpy as np
import pytest
from tests.errors.checks import check_message

import curta
import curta.numpy as jnp

M = jnp.ones((2, 3))
V = jnp.ones(3)

LISTED = "requires ndarray or scalar arguments, got"

# the mistake, the class, the opening words, what helps
MISTAKES = [
    # keywords
    (
        lambda: M.at[0].set(1, nope=1),
        TypeError,
        "IndexedUpdate.set() got an unexpected keyword argument 'nope'",
        "unique_indices",
    ),
    (lambda: M.at[0].divide(1, nope=1), TypeError, "IndexedUpdate.divide() got", ""),
    (lambda: M.at[0].apply(jnp.sin, nope=1), TypeError, "IndexedUpdate.apply()", ""),
    (
        lambda: M.flatten(nope=1),
        TypeError,
        "flatten() got an unexpected keyword argument 'nope'",
        "",
    ),
    (
        lambda: curta.jit(lambda x: x.clip(axis="x"))(M),
        TypeError,
        "clip() got an unexpected keyword argument 'axis'",
        "",
    ),
    (
        lambda: curta.jit(lambda x: x.copy("C"))(M),
        TypeError,
        "copy() takes 1 positional argument but 2 were given",
        "",
    ),
    (lambda: jnp.int8.nope, AttributeError, "type object 'int8' has no attribute", ""),
    # arguments that are no numbers
    (lambda: jnp.vecdot(M, object()), TypeError, f"jnp.vecdot {LISTED}", "position 1"),
    (lambda: jnp.vecdot("x", M), TypeError, "asarray: expected ArrayLike, got x", ""),
    (lambda: jnp.clip(M, 0, [1]), TypeError, f"clip {LISTED}", "position 2"),
    (lambda: jnp.unique_all([1]), TypeError, f"unique_all {LISTED}", "list"),
    (lambda: jnp.unique_counts([1]), TypeError, f"unique_counts {LISTED}", "list"),
    (lambda: jnp.unique_inverse([1]), TypeError, f"unique_inverse {LISTED}", "list"),
    (lambda: jnp.unique_values([1]), TypeError, f"unique_values {LISTED}", "list"),
    (lambda: jnp.arange(None), TypeError, "arange must be given a real number", ""),
    (lambda: jnp.polyfit(V, V, 1, "x"), ValueError, "could not convert string to", ""),
    (lambda: jnp.var(M, ddof=[1]), TypeError, "var, argument ddof, requires", "list"),
    (lambda: jnp.std(M, correction=[1]), TypeError, "std, argument correction,", ""),
    (lambda: jnp.nanvar(M, ddof=1j), TypeError, "le does not accept dtype", ""),
    (
        lambda: curta.jit(lambda x: jnp.std(x, ddof=[1]))(M),
        TypeError,
        "std, argument ddof, requires",
        "",
    ),
    (lambda: jnp.repeat(M, 1.5), TypeError, "jnp.repeat: repeats must have", "float64"),
    (lambda: jnp.repeat(V, V), TypeError, "jnp.repeat: repeats must have", "float32"),
    (lambda: jnp.linalg.norm(V, ord=1j), TypeError, "The order of a vector norm", "1j"),
    (lambda: jnp.linalg.norm(V, ord=object()), TypeError, "The order of a vector", ""),
    (lambda: M[np.array(["x"])], TypeError, "Indexer must have integer or", "<U1"),
    # arguments that do not fit
    (lambda: jnp.histogramdd(M, range=1), ValueError, "For sample.shape=(2, 3)", "1"),
    (lambda: jnp.histogram2d(V, V, range=(1, 2)), ValueError, "For sample.shape", ""),
    (lambda: jnp.logaddexp.reduce(M, initial=V), ValueError, "initial value must", ""),
    (
        lambda: jnp.subtract.reduce(M, initial=V),
        ValueError,
        "initial value must be",
        "",
    ),
    (lambda: jnp.piecewise(M, [M > 0], {}), ValueError, "with 1 condition(s)", "got 0"),
    (
        lambda: jnp.promote_types(object, int),
        ValueError,
        "dtype=dtype('O') is not a valid dtype for JAX type promotion",
        "",
    ),
]


@pytest.mark.parametrize("mistake, kind, opening, help", MISTAKES)
def test_says_what_is_wrong(mistake, kind, opening, help):
    check_message(mistake, kind, opening, help)


def test_fractions_of_degrees_of_freedom():
    x = jnp.array([1.0, jnp.nan, 3.0])
    np.testing.assert_allclose(jnp.nanvar(x, ddof=0.5), 2 / 1.5, rtol=1e-6)
