"""Aliases, constants, dtypes and index makers of `curta.numpy`."""

import copy
import io
import pickle

import ml_dtypes
import numpy as np
import pytest

import curta
import curta.numpy as jnp

X = np.array([[3, 1, 2], [0, 5, 4]])


def test_extrema_and_shifts_under_other_names():
    np.testing.assert_array_equal(jnp.amax(X, axis=0), X.max(0))
    np.testing.assert_array_equal(jnp.amin(X, axis=1, keepdims=True), X.min(1)[:, None])
    np.testing.assert_array_equal(jnp.bitwise_invert(X), ~X)
    np.testing.assert_array_equal(jnp.bitwise_left_shift(X, 2), X << 2)
    np.testing.assert_array_equal(jnp.bitwise_right_shift(X, 1), X >> 1)
    np.testing.assert_allclose(jnp.radians(180.0), np.pi, rtol=1e-6)


def test_index_makers():
    assert jnp.s_[1:3, ::2] == np.s_[1:3, ::2] == jnp.index_exp[1:3, ::2]
    assert jnp.index_exp[0] == (0,) and jnp.s_[0] == 0
    assert jnp.newaxis is None and jnp.asarray(X)[jnp.newaxis].shape == (1, 2, 3)
    for ours, numpys in zip(jnp.ogrid[0:2, 0:1:3j], np.ogrid[0:2, 0:1:3j], strict=True):
        np.testing.assert_allclose(ours, numpys)


def test_constants():
    assert jnp.euler_gamma == np.euler_gamma
    assert (jnp.pi, jnp.e, jnp.inf) == (np.pi, np.e, np.inf)


def test_printing():
    x = jnp.array([1.5, 2.0])
    assert jnp.array_repr(x) == "ArrayImpl([1.5, 2. ], dtype=float32)"
    assert jnp.array_str(x) == "[1.5 2. ]"


def test_savez_round_trips():
    file = io.BytesIO()
    jnp.savez(file, first=jnp.arange(3), second=jnp.ones((2, 2)))
    file.seek(0)
    found = jnp.load(file)
    np.testing.assert_array_equal(found["first"], np.arange(3))
    np.testing.assert_array_equal(found["second"], np.ones((2, 2)))


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("cdouble", np.complex128),
        ("csingle", np.complex64),
        ("complex_", np.complex128),
        ("float_", np.float64),
        ("int_", np.int64),
        ("uint", np.uint64),
        ("single", np.float32),
        ("double", np.float64),
    ],
)
def test_aliases_of_dtypes(name, dtype):
    assert jnp.dtype(getattr(jnp, name)) == np.dtype(dtype)
    halved = curta.dtypes.canonicalize_dtype(dtype)
    assert jnp.asarray(X).astype(halved).dtype == halved


@pytest.mark.parametrize(
    "name",
    [
        "float6_e2m3fn",
        "float6_e3m2fn",
        "float8_e3m4",
        "float8_e4m3",
        "float8_e4m3b11fnuz",
        "float8_e4m3fnuz",
        "float8_e5m2fnuz",
    ],
)
def test_narrow_floats_round_as_ml_dtypes_does(name):
    dtype = getattr(jnp, name)
    x = np.linspace(-3, 3, 25).astype(np.float32)
    want = x.astype(getattr(ml_dtypes, name)).astype(np.float32)
    np.testing.assert_array_equal(jnp.asarray(x).astype(dtype).astype("float32"), want)
    narrowed = curta.jit(lambda x: x.astype(dtype).astype("float32"))(x)
    np.testing.assert_array_equal(narrowed, want)


@pytest.mark.parametrize(("name", "values"), [("int1", [-1, 0]), ("uint1", [0, 1])])
def test_integers_of_one_bit(name, values):
    dtype = getattr(jnp, name)
    assert jnp.array(values, dtype).astype("int32").tolist() == values


def test_abstract_dtypes():
    assert jnp.issubdtype("complex64", jnp.inexact)
    assert jnp.flexible is np.flexible and jnp.character is np.character
    assert jnp.object_ is np.object_
    assert not jnp.issubdtype("float32", jnp.flexible)


def test_calls_have_the_names_that_users_know():
    x = jnp.ones((2, 3))
    assert "name=logaddexp\n" in str(curta.make_jaxpr(jnp.logaddexp)(x, x))
    assert "name=logaddexp\n" in str(curta.make_jaxpr(curta.nn.softplus)(x))
    assert "name=logaddexp2\n" in str(curta.make_jaxpr(jnp.logaddexp2)(x, x))


def test_vecdot_is_one_product_of_batches():
    x, y = jnp.arange(6.0).reshape(2, 3), jnp.arange(3.0)
    (eqn,) = curta.make_jaxpr(jnp.vecdot)(x, y).eqns
    assert eqn.primitive.name == "dot_general"
    np.testing.assert_array_equal(jnp.vecdot(x, y), [5, 14])
    np.testing.assert_array_equal(jnp.vecdot(x * 1j, y), [-5j, -14j])
    np.testing.assert_array_equal(jnp.vecdot(x, x, axis=0), [9, 17, 29])


def test_scalar_types_are_classes():
    kind = jnp.float32
    assert isinstance(kind, type) and kind.__name__ == "float32"
    assert repr(kind) == "<class 'curta.numpy.float32'>"
    assert kind == np.float32 and hash(kind) == hash(np.float32)
    assert isinstance(np.float32(1), kind) and not isinstance(1.0, kind)
    assert pickle.loads(pickle.dumps(kind)) is copy.deepcopy(kind) is kind
    assert "float32" in str(kind | None) and "float32" in kind.__doc__
    assert jnp.float32(1).dtype == np.dtype(kind) == kind.dtype
    assert not hasattr(kind, "value")


@pytest.mark.parametrize("x64", [False, True])
def test_what_the_namespace_says_of_itself(x64):
    with curta.enable_x64(x64):
        info = jnp.ones(1).__array_namespace__().__array_namespace_info__()
        wide = ["int64"] if x64 else []
        assert sorted(info.dtypes(kind="signed integer")) == [
            "int16", "int32", *wide, "int8"
        ]  # fmt: skip
        count = {False: 9, True: 13}
        assert len(info.dtypes()) == len(info.dtypes(kind=("bool", "numeric")))
        assert len(info.dtypes(device=curta.devices()[0])) == count[x64]
        assert info.dtypes(kind=()) == {}
        for kind, scalar in (
            ("real floating", float),
            ("complex floating", complex),
            ("integral", int),
            ("indexing", int),
        ):
            assert info.default_dtypes()[kind] == jnp.zeros(1, scalar).dtype
        assert jnp.zeros(()).device in info.devices() and None in info.devices()
        assert info.default_device() is None
        assert not info.capabilities()["boolean indexing"]
        with pytest.raises(KeyError, match="fixed point"):
            info.dtypes(kind="fixed point")
