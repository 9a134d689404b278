"""Reductions against NumPy: axes, keepdims, where, initial, dtypes, no elements."""

import numpy as np
import pytest
from tests.numpy.test_against_numpy import assert_same, sample

import curta
from curta import numpy as jnp

AXES = [None, 0, -1, (0, 2), ()]
PLAIN = ["sum", "prod", "mean", "var", "std", "max", "min", "any", "all"]
NANS = ["nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin"]


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("keepdims", [True, False])
def test_axes(name, axis, keepdims):
    x = sample((2, 3, 4), "float32")
    ours = getattr(jnp, name)(x, axis=axis, keepdims=keepdims)
    assert_same(ours, getattr(np, name)(x, axis=axis, keepdims=keepdims), 1e-4)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "any", "all"])
def test_where(name):
    x, mask = sample((3, 4), "float32"), sample((3, 4), "bool", 1)
    mask[:, 0] = True
    ours = getattr(jnp, name)(x, axis=1, where=mask)
    assert_same(ours, getattr(np, name)(x, axis=1, where=mask))


@pytest.mark.parametrize("name", ["max", "min", "sum", "prod"])
def test_initial_and_where(name):
    x, mask = sample((3, 4), "float32"), sample((3, 4), "bool", 1)
    settings = {"axis": 1, "initial": 2.0, "where": mask}
    assert_same(getattr(jnp, name)(x, **settings), getattr(np, name)(x, **settings))


@pytest.mark.parametrize("name", NANS)
def test_nan(name):
    x = sample((3, 4), "float32")
    x[0, 1] = x[2, 3] = np.nan
    assert_same(getattr(jnp, name)(x, axis=1), getattr(np, name)(x, axis=1))
    assert_same(getattr(jnp, name)(x), getattr(np, name)(x))


DTYPES = {
    "sum": {"int8": "int32", "uint8": "uint32", "bool": "int32", "float16": "float16"},
    "prod": {"int8": "int32", "bool": "int32", "bfloat16": "bfloat16"},
    "mean": {"int8": "float32", "bool": "float32", "float16": "float16"},
    "var": {"int32": "float32", "complex64": "float32", "bfloat16": "bfloat16"},
    "max": {"int8": "int8", "bool": "bool", "float16": "float16"},
    "cumsum": {"int8": "int8", "bool": "int32", "float16": "float16"},
}


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes(name):
    for given, result in DTYPES[name].items():
        assert getattr(jnp, name)(jnp.ones(3, given)).dtype == result


def test_half_precision_sums_in_float32():
    x = jnp.full(4096, 1.0, "float16")
    assert float(jnp.sum(x)) == 4096.0
    assert float(jnp.mean(jnp.full(70000, 2.0, "float16"))) == 2.0


def test_dtype_argument():
    assert jnp.sum(jnp.ones(3, bool), dtype="float32").dtype == "float32"
    assert jnp.mean(jnp.ones(3, "int32"), dtype="float16").dtype == "float16"


def test_no_elements():
    empty = jnp.zeros((0, 3))
    assert jnp.sum(empty) == 0
    assert jnp.prod(empty) == 1
    assert np.isnan(jnp.mean(empty))
    assert jnp.max(empty, axis=1).shape == (0,)
    for name in "max", "min":
        match = f"zero-size array to reduction operation {name} which has no identity"
        with pytest.raises(ValueError, match=match):
            getattr(jnp, name)(empty)
        assert getattr(jnp, name)(empty, initial=1.0) == 1.0
    with pytest.raises(ValueError, match="attempt to get argmax of an empty sequence"):
        jnp.argmax(empty)


def test_extremes_carry_nan():
    x = jnp.array([1.0, jnp.nan, 3.0])
    assert np.isnan(jnp.max(x))
    assert np.isnan(jnp.min(x))
    assert jnp.argmax(x) == 1


def test_results_are_strongly_typed():
    assert not jnp.sum(2.0).weak_type
    assert not jnp.mean(2.0).weak_type


def test_average_with_weights():
    x, w = sample((3, 4), "float32"), np.abs(sample((4,), "float32", 1)) + 1
    ours, total = jnp.average(x, axis=1, weights=w, returned=True)
    theirs, expected = np.average(x, axis=1, weights=w, returned=True)
    assert_same(ours, theirs)
    assert_same(total, expected)


def test_variance_of_too_few_is_nan():
    assert np.isnan(jnp.var(jnp.ones(1), ddof=1))
    with pytest.raises(ValueError, match="ddof and correction can't be provided"):
        jnp.var(jnp.ones(3), ddof=1, correction=1)


ERRORS = [
    (lambda: jnp.sum([1, 2]), TypeError, "sum requires ndarray or scalar arguments"),
    (lambda: jnp.sum(jnp.ones(3), axis=1), ValueError, "axis 1 is out of bounds"),
    (
        lambda: jnp.sum(jnp.ones(3), axis=(0, 0)),
        ValueError,
        "duplicate value in 'axis'",
    ),
    (lambda: jnp.sum(jnp.ones(3), where=jnp.ones(3)), ValueError, "where must be None"),
    (lambda: jnp.max(jnp.ones(3), where=jnp.ones(3, bool)), ValueError, "identity"),
    (lambda: jnp.sum(jnp.ones(3), initial=jnp.ones(3)), ValueError, "must be a scalar"),
    (lambda: jnp.sum(jnp.ones(3), out=1), NotImplementedError, "The 'out' argument"),
    (
        lambda: curta.jit(lambda x, a: jnp.sum(x, axis=a))(jnp.ones(3), 0),
        curta.errors.ConcretizationTypeError,
        "The axis argument must be known statically",
    ),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
