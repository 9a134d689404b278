"""`x[...]`, `x.at[...]` and taking by arrays, against NumPy and by their errors."""

import functools

import numpy as np
import pytest
from tests.numpy.test_against_numpy import assert_same

import curta
from curta import numpy as jnp
from curta.config import check_static_indices

X = np.arange(60.0, dtype="float32").reshape(3, 4, 5)

BASIC = [
    *(0, -1, (1, 2), (1, -1, 3), slice(1, 3), slice(None, None, -1), slice(3, 0, -2)),
    *(..., (..., 0), (0, ..., 1), None, (slice(None), None, 2), slice(5, 9), ()),
    (slice(0, 3, 2), slice(None), slice(4, None, -3)),
    (slice(2, 1), 0),
]

ADVANCED = [
    np.array([0, 2, 1]),
    np.array([[0, 1], [2, 2]]),
    (np.array([0, 1]), np.array([3, 0])),
    (slice(None), np.array([1, -1])),
    (np.array([0, 1]), slice(None), np.array([4, 0])),
    (np.array([[0], [1]]), np.array([3, 0, 1])),
    (slice(1, None), np.array([0, 2]), slice(None, None, -2)),
    (0, np.array([1, 2])),
    (np.array([1, 2]), 0, None),
    (..., np.array([1, 2])),
    ([0, 2], slice(None)),
    np.zeros((0,), int),
    np.array([True, False, True]),
    (slice(None), np.array([True, False, True, True])),
    X > 20,
    (np.array([True, True, False]), np.array([0, 3])),
    True,
    (np.array(False), 0),
]


@pytest.mark.parametrize("index", [*BASIC, *ADVANCED], ids=str)
def test_get(index):
    theirs = X[index]
    assert_same(jnp.asarray(X)[index], theirs)
    assert_same(curta.jit(lambda x: x[index])(X), theirs)


UPDATES = {
    "set": lambda x, i, y: x.__setitem__(i, y),
    "add": lambda x, i, y: np.add.at(x, i, y),
    "subtract": lambda x, i, y: np.subtract.at(x, i, y),
    "multiply": lambda x, i, y: np.multiply.at(x, i, y),
    "min": lambda x, i, y: np.minimum.at(x, i, y),
    "max": lambda x, i, y: np.maximum.at(x, i, y),
}


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("index", [*BASIC[:14], *ADVANCED[:10]], ids=str)
def test_update(name, index):
    expected = X.copy()
    UPDATES[name](expected, index, 7.0)
    assert_same(getattr(jnp.asarray(X).at[index], name)(7.0), expected)
    jitted = curta.jit(lambda x: getattr(x.at[index], name)(7.0))
    assert_same(jitted(X), expected)


def test_update_with_arrays_and_kin():
    x = jnp.asarray(X)
    rows = np.arange(40.0, dtype="float32").reshape(2, 4, 5)
    expected = X.copy()
    expected[[2, 0]] = rows
    assert_same(x.at[jnp.array([2, 0])].set(rows), expected)
    expected = X.copy()
    expected[:, ::-2] = rows[0, 0]
    assert_same(x.at[:, ::-2].set(rows[0, 0]), expected)
    assert_same(x.at[0].divide(2.0)[0], X[0] / 2)
    assert_same(x.at[1].power(2.0)[1], X[1] ** 2)
    assert_same(x.at[1].apply(jnp.sin)[1], np.sin(X[1]))
    assert_same(x.at[1].mul(3.0)[1], X[1] * 3)
    twice = jnp.zeros(3).at[jnp.array([1, 1])].add(1.0)
    assert twice.tolist() == [0, 2, 0]


def test_functions_are_applied_as_often_as_an_index_occurs():
    x = jnp.zeros(3)
    assert x.at[jnp.array([0, 0, 1])].apply(lambda v: v + 1).tolist() == [2, 1, 0]
    assert x.at[:2].apply(jnp.cos).tolist() == [1, 1, 0]
    assert x.at[7].apply(jnp.cos).tolist() == [0, 0, 0]
    assert x.at[7].apply(jnp.cos, mode="clip").tolist() == [0, 0, 1]
    each = curta.vmap(lambda x, i: x.at[i].apply(jnp.cos))
    rows = each(jnp.zeros((2, 2)), np.arange(2))
    assert rows.tolist() == [[1, 0], [0, 1]]
    with pytest.raises(NotImplementedError, match="scatter_apply JVP not implemented"):
        curta.jvp(lambda x: x.at[0].apply(jnp.sin), (x,), (x,))


def test_out_of_bounds():
    x = jnp.arange(3)
    assert x[5] == 2
    assert x[-7] == 0
    assert x[jnp.array([1, 9])].tolist() == [1, 2]
    assert x.at[jnp.array([1, 9])].get(mode="fill", fill_value=-1).tolist() == [1, -1]
    assert x.at[jnp.array([1, 9])].get(mode="clip").tolist() == [1, 2]
    assert x.at[9].set(7).tolist() == [0, 1, 2]
    assert x.at[9].set(7, mode="clip").tolist() == [0, 1, 7]
    assert x.at[jnp.array([-1, 9])].add(5, mode="drop").tolist() == [0, 1, 7]
    negative = x.at[-1].get(mode="clip", wrap_negative_indices=False)
    assert negative == 0


def test_traced_scalars():
    x = jnp.asarray(X)
    take = curta.jit(lambda x, i, j: x[i, 1:3, j])
    assert_same(take(x, 1, -1), X[1, 1:3, -1])
    assert_same(take(x, 9, 0), X[2, 1:3, 0])
    rows = curta.vmap(lambda x, i: x[i])(x, jnp.array([0, 3, 1]))
    assert_same(rows, X[[0, 1, 2], [0, 3, 1]])


def test_gradients_through_indexing():
    x = jnp.arange(3.0)
    index = jnp.array([0, 0, 2])
    grad = curta.grad(lambda x: (x[index] * jnp.array([1.0, 2.0, 3.0])).sum())
    assert grad(x).tolist() == [3, 0, 3]
    grad = curta.grad(lambda y: (x.at[1:].set(y) ** 2).sum())
    assert grad(jnp.array([5.0, 7.0])).tolist() == [10, 14]


def test_dtypes_of_updates():
    x = jnp.zeros(2, "uint8")
    assert x.at[0].set(200).dtype == "uint8"
    with pytest.warns(FutureWarning, match="scatter inputs have incompatible types"):
        assert x.at[0].set(1.5).dtype == "uint8"


ERRORS = [
    (lambda x: x[1.0], TypeError, "Indexer must have integer or boolean type"),
    (lambda x: x["a"], TypeError, "String indexing is not supported"),
    (lambda x: x[[0, 1]], TypeError, "Using a non-tuple sequence"),
    (lambda x: x[0, 0, 0, 0], IndexError, "Too many indices: array is 3-dimensional"),
    (lambda x: x[..., ...], IndexError, "can only have a single ellipsis"),
    (lambda x: x[{}], IndexError, "only integers, slices"),
    (lambda x: x[np.ones(2, bool)], IndexError, "boolean index did not match shape"),
    (lambda x: x[:0][0], IndexError, "index is out of bounds for axis 0 with size 0"),
    (lambda x: x.at[0].get(mode="none"), ValueError, "Unknown gather mode"),
]


@pytest.mark.parametrize(("call", "kind", "text"), ERRORS)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call(jnp.asarray(X))


def test_errors_of_traced_indices():
    x = jnp.asarray(X)
    with pytest.raises(
        curta.errors.NonConcreteBooleanIndexError,
        match=r"Array boolean indices must be concrete; got bool\[3,4,5\]",
    ):
        curta.jit(lambda x: x[x > 0])(x)
    with pytest.raises(IndexError, match="Slice entries must be static integers"):
        curta.jit(lambda x, i: x[i : i + 2])(x, 0)
    with pytest.raises(TypeError, match=r"x = x\.at\[idx\]\.set\(y\)"):
        x[0] = 1


def test_taking():
    x = X[0]
    places = np.array([[1, 0], [4, -1], [2, 2], [0, 3]])
    assert_same(jnp.take_along_axis(x, places, 1), np.take_along_axis(x, places, 1))
    assert_same(jnp.take(x, np.array([1, -1]), axis=0), np.take(x, [1, -1], axis=0))
    assert np.isnan(jnp.take(x, 99))
    assert_same(jnp.take(x, np.array([1, 9]), 0, mode="clip"), x[[1, 3]])
    expected = x.copy()
    np.put_along_axis(expected, places[:, :1], 7.0, 1)
    assert_same(jnp.put_along_axis(x, places[:, :1], 7.0, 1, inplace=False), expected)
    flat = np.array([0, 19, 3])
    np.put(expected, flat, [1.0, 2.0])
    after = jnp.put_along_axis(x, places[:, :1], 7.0, 1, inplace=False)
    assert_same(jnp.put(after, flat, np.array([1.0, 2.0]), inplace=False), expected)
    with pytest.raises(ValueError, match="cannot modify arrays in-place"):
        jnp.put(x, flat, 1.0)


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_put_beyond_the_ends(shape):
    """By default at the ends; negative indices count from the end before."""
    put = functools.partial(jnp.put, np.zeros(shape, "float32"), v=1.0, inplace=False)
    cases = {None: [0, 4, 5], "clip": [0, 0, 5], "wrap": [3, 4, 1]}
    for mode, places in cases.items():
        for index, place in zip((-9, -2, 7), places, strict=True):
            got = put(ind=np.array([index]), mode=mode).ravel()
            assert np.flatnonzero(got).tolist() == [place]


def test_choosing_and_compressing():
    choices = [np.arange(3), np.arange(3) * 10]
    picked = jnp.choose(np.array([1, 0, 1]), choices)
    assert_same(picked, np.choose([1, 0, 1], choices))
    with pytest.raises(ValueError, match="invalid entry in choice array"):
        jnp.choose(np.array([2]), choices)
    keep = np.array([True, False, True])
    assert_same(jnp.compress(keep, X, axis=0), np.compress(keep, X, axis=0))
    sized = curta.jit(lambda c, x: jnp.compress(c, x, size=3, fill_value=-1))
    assert sized(keep, jnp.arange(3)).tolist() == [0, 2, -1]


def test_nonzero_of_static_size():
    mask = jnp.array([1, 0, 1, 1, 0, 1])
    sized = curta.jit(lambda m: jnp.nonzero(m, size=5, fill_value=9))
    assert sized(mask)[0].tolist() == [0, 2, 3, 5, 9]
    with pytest.raises(curta.errors.ConcretizationTypeError, match="jnp.nonzero"):
        curta.jit(jnp.nonzero)(mask)


@pytest.mark.parametrize("dtype", [int, "int64", np.int16])
def test_flat_indices_have_the_dtype_that_is_asked_for(dtype):
    i = jnp.array([1, 0])
    flat = jnp.ravel_multi_index((i, i), (2, 3), dtype=dtype)
    assert flat.dtype == jnp.zeros((), dtype).dtype
    assert flat.tolist() == [4, 0]


@pytest.mark.parametrize("dtype", [float, bool])
def test_flat_indices_are_integers(dtype):
    with pytest.raises(ValueError, match="is not an integer type"):
        jnp.ravel_multi_index((jnp.arange(2),), (3,), dtype=dtype)


@pytest.mark.parametrize("indices", [[0, -2], [3], [2, 0, 1, -1], [], -1])
def test_distinct_indices_to_delete_may_be_traced(indices):
    deleted = curta.jit(
        lambda x, i: jnp.delete(x, i, axis=1, assume_unique_indices=True)
    )
    indices = np.array(indices, dtype=np.int32)
    assert_same(deleted(X, indices), np.delete(X, indices, axis=1))
    with pytest.raises(curta.errors.ConcretizationTypeError, match="'obj'"):
        curta.jit(jnp.delete)(X, indices)


def test_known_indices_out_of_bounds_raise_if_asked():
    x = jnp.asarray(X)
    with check_static_indices(True):
        for index in 3, (0, -5), (slice(None), np.array([1]), 9):
            with pytest.raises(IndexError, match="out of bounds for axis"):
                x[index]
            with pytest.raises(IndexError, match="out of bounds for axis"):
                curta.jit(lambda x, index=index: x[index])(x)
        assert x[-1, -4].shape == (5,)


def test_small_indices_are_kept_where_none_is_negative():
    x, i = jnp.arange(200.0), jnp.array([1, 3], jnp.int8)

    def taken(i):
        how = {"mode": "promise_in_bounds", "wrap_negative_indices": False}
        return jnp.take_along_axis(x, i, axis=0, **how)

    assert "i8[2,1]" in str(curta.make_jaxpr(taken)(i))
    assert taken(i).tolist() == [1, 3]
    assert jnp.take_along_axis(x, -i, axis=0).tolist() == [199, 197]


def test_piecewise_calls_functions_of_scalars_once_a_trace():
    seen = []

    def square(x):
        seen.append(x.shape)
        return x * x

    x = jnp.array([-2.0, 1.0, 3.0, jnp.nan])
    for _ in range(3):
        out = jnp.piecewise(x, [x < 0, x > 0, x > 2], [square, 5, jnp.negative, 7])
    assert out.tolist() == [4, 5, -3, 7]
    assert seen == [()]
    slope = curta.grad(lambda x: jnp.piecewise(x, [x > 0], [square]).sum())(x)
    assert slope.tolist() == [0, 2, 6, 0]


def test_views_of_empty_arrays():
    for dtype in "int4", "uint2", "int8", "float32":
        assert jnp.zeros((0, 8), "complex64").view(dtype).size == 0
        assert jnp.zeros((2, 0), "complex64").view(dtype).shape == (2, 0)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("value", [1.0, 3.0, 7.0])
def test_extrema_at_clipped_indices_have_the_derivatives_of_those_inside(name, value):
    def updated(x, y, place):
        return getattr(x.at[np.array([0, place])], name)(y, mode="clip")

    x, y = jnp.array([2.0, 5.0, 3.0]), jnp.array([4.0, value])
    for transform in curta.jacfwd, curta.jacrev:
        beyond = transform(updated, (0, 1))(x, y, 9)
        inside = transform(updated, (0, 1))(x, y, 2)
        for found, wanted in zip(beyond, inside, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("mode", [None, "fill", "wrap", "clip"])
def test_take_at_narrow_indices_of_long_dims(dtype, mode):
    places = np.array([1, 100, -3]).astype(dtype)
    last = int(places[2])
    expected = [1, 100, max(last, 0) if mode == "clip" else last % 33000]
    found = jnp.take(jnp.arange(33000), places, mode=mode)
    np.testing.assert_array_equal(found, expected)


def test_a_mode_is_looked_at_only_where_elements_are_gathered():
    x = jnp.arange(6.0).reshape(2, 3)
    for index in (slice(None), ..., None, (slice(None), None)):
        np.testing.assert_array_equal(x.at[index].get(mode="wrap"), x[index])
    for index in (1, slice(1, 2), jnp.array([1])):
        with pytest.raises(ValueError, match='Unknown gather mode "wrap"'):
            x.at[index].get(mode="wrap")
    with pytest.raises(ValueError, match='Unknown gather mode "wrap"'):
        x.at[:].set(1.0, mode="wrap")
    empty = jnp.zeros((0, 3))
    assert empty.at[jnp.array([1]), :0].set(1.0, mode="wrap") is empty
