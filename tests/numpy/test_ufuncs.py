"""`ufunc` objects: folding, accumulating, updating, against NumPy."""

import numpy as np
import pytest
from tests.numpy.test_against_numpy import assert_same, sample

import curta
from curta import numpy as jnp

NAMES = [
    *("add", "multiply", "maximum", "minimum", "logaddexp", "logaddexp2"),
    *("logical_and", "logical_or", "logical_xor"),
]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor"]


@pytest.mark.parametrize("name", [*NAMES, *BITS])
@pytest.mark.parametrize("axis", [0, 1, None])
def test_reduce(name, axis):
    x = sample((3, 4), "int32" if name in BITS else "float32", 2)
    ours, theirs = getattr(jnp, name), getattr(np, name)
    assert_same(ours.reduce(x, axis=axis), theirs.reduce(x, axis=axis))
    kept = ours.reduce(x, axis=axis, keepdims=True)
    assert_same(kept, theirs.reduce(x, axis=axis, keepdims=True))


@pytest.mark.parametrize("name", ["add", "multiply", "maximum"])
def test_accumulate_outer_and_reduceat(name):
    x, y = sample((3, 4), "float32"), sample((2,), "float32", 1)
    ours, theirs = getattr(jnp, name), getattr(np, name)
    assert_same(ours.accumulate(x, axis=1), theirs.accumulate(x, axis=1))
    assert_same(ours.outer(x, y), theirs.outer(x, y))
    starts = np.array([0, 2, 1])
    assert_same(ours.reduceat(x, starts, axis=1), theirs.reduceat(x, starts, axis=1))
    none = starts[:0]
    assert_same(ours.reduceat(x, none, axis=1), theirs.reduceat(x, none, axis=1))


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "maximum"])
def test_at(name):
    x, places = sample((4,), "float32"), np.array([0, 0, 3])
    values = np.array([1.0, 2.0, 3.0], "float32")
    expected = x.copy()
    getattr(np, name).at(expected, places, values)
    assert_same(getattr(jnp, name).at(x, places, values, inplace=False), expected)
    with pytest.raises(NotImplementedError, match="cannot operate inplace"):
        getattr(jnp, name).at(x, places, values)


def test_negative_at():
    assert jnp.negative.at(jnp.arange(3), 1, inplace=False).tolist() == [0, -1, 2]


def test_where_and_initial():
    x, mask = sample((3, 4), "float32"), sample((3, 4), "bool", 1)
    ours = jnp.maximum.reduce(x, initial=-1.0, where=mask)
    assert_same(ours, np.maximum.reduce(x, initial=-1.0, where=mask))
    with pytest.raises(ValueError, match="does not have an identity"):
        jnp.maximum.reduce(x, where=mask)


def test_frompyfunc():
    f = jnp.frompyfunc(lambda x, y: 2 * x + y, 2, 1, identity=0)
    x = np.arange(6.0).reshape(2, 3)
    assert_same(f(x, 1.0), 2 * x + 1)
    folded = curta.jit(lambda x: f.reduce(x, axis=1))(x)
    assert_same(folded, [(2 * (2 * 0 + a) + b) * 2 + c for a, b, c in x])
    assert_same(f.accumulate(x[0]), [0, 1, 4])
    assert (f.nin, f.nout, f.identity) == (2, 1, 0)
    with pytest.raises(AttributeError):
        f.identity = 1
    assert isinstance(jnp.add, jnp.ufunc)
    assert repr(jnp.add) == "<jnp.ufunc 'add'>"


@pytest.mark.parametrize("name", ["atan", "amax", "around", "conj", "divide", "mod"])
def test_other_names_of_a_function(name):
    fun = getattr(jnp, name)
    assert fun.__name__ == name
    x = sample((3,), "float32")
    args = (x, x) if name in ("divide", "mod") else (x,)
    assert_same(fun(*args), getattr(np, name)(*args))


class Wrapped:
    """Gives an array when asked for one."""

    def __init__(self, x):
        self.x = x

    def __jax_array__(self):
        return jnp.asarray(self.x)


def test_operands_that_give_arrays():
    x = np.array([3.0, 1.0, 2.0], "float32")
    assert_same(jnp.delete(Wrapped(x), Wrapped(np.array(1))), [3.0, 2.0])
    assert_same(jnp.full_like(Wrapped(x), Wrapped(2.0)), [2.0, 2.0, 2.0])
    assert_same(jnp.einsum(Wrapped(x), (0,), ()), x.sum())
    assert (jnp.shape(Wrapped(x)), jnp.ndim(Wrapped(x))) == ((3,), 1)
    assert jnp.size(Wrapped(x)) == 3
    assert_same(jnp.tril_indices_from(Wrapped(np.ones((2, 2))))[0], [0, 1, 1])
    with curta.disable_jit():
        assert_same(jnp.corrcoef(Wrapped(x), Wrapped(x)), np.corrcoef(x, x))


def test_properties_of_ufuncs_cannot_be_set():
    for function in jnp.add, jnp.frompyfunc(lambda x: x, 1, 1):
        for name in "nargs", "nin", "nout", "identity", "_func":
            with pytest.raises(AttributeError):
                setattr(function, name, None)


def test_an_array_is_no_dtype():
    x = jnp.zeros(2)
    if np.lib.NumpyVersion(np.__version__) >= "2.4.0":
        with pytest.warns(DeprecationWarning, match="Implicit conversion of an array"):
            assert np.dtype(x) == x.dtype
    with pytest.raises(ValueError, match="Passing an array as a dtype"):
        jnp.zeros(2, x)
