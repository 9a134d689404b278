"""Arguments that functions of arrays do not take, and what they say."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax, nn

X = jnp.array([1.5, 2.0, 2.0])
KEYS = curta.random.split(curta.random.key(0), 3)


@pytest.mark.parametrize("value", [[1, 2], (1, 2), "a", None, {}, object()])
@pytest.mark.parametrize("name", ["cos", "neg", "exp", "erf", "sign", "sqrt", "real"])
def test_ops_name_the_operand_that_is_no_array(name, value):
    function = getattr(lax, name)
    message = rf"Error interpreting argument to {name} as an array\. The problematic"
    for f in function, curta.jit(lambda: function(value)):
        with pytest.raises(TypeError, match=message):
            f(value) if f is function else f()


@pytest.mark.parametrize("several", [curta.jit, curta.vmap, curta.grad])
def test_the_place_of_the_operand_is_told(several):
    x = jnp.ones(3) if several is curta.vmap else 1.0
    with pytest.raises(TypeError, match="passed to atan2 at position 1"):
        several(lambda x: lax.atan2(x, "a"))(x)
    with pytest.raises(TypeError, match=r"numpy\.ndarray.* to add at position 0"):
        several(lambda x: lax.add(np.array(["a"]), x))(x)


MISTAKES = [
    (lambda: jnp.max(KEYS), TypeError, "reduce_max does not accept dtype key<fry>"),
    (lambda: jnp.min(KEYS), TypeError, "reduce_min does not accept dtype key<fry>"),
    (lambda: jnp.sum(KEYS), TypeError, "reduce_sum does not accept dtype key<fry>"),
    (lambda: jnp.copy([1, 2]), TypeError, "copy requires ndarray or scalar arguments"),
    (lambda: jnp.copy(None), TypeError, "copy requires ndarray or scalar arguments"),
    (
        lambda: jnp.matvec(X, X),
        ValueError,
        "input with shape .3,. does not have enough dimensions",
    ),
    (
        lambda: jnp.vecmat(X[:2], X[:, None]),
        ValueError,
        "inconsistent size for core dimension 'n': 2 vs 3",
    ),
    (
        lambda: jnp.diagonal(X[None], axis1=0, axis2=5),
        ValueError,
        "axis 5 is out of bounds",
    ),
    (
        lambda: jnp.pad(X, 1, mode="reflect", reflect_type="none"),
        ValueError,
        "reflect_type must be",
    ),
    (
        lambda: jnp.ravel_multi_index((X, X), (2, 2)),
        ValueError,
        "dtype=dtype.'float32'. is not an integer type",
    ),
    (
        lambda: curta.jit(lambda x: jnp.setxor1d(x, x))(X),
        curta.errors.ConcretizationTypeError,
        "Abstract tracer value encountered",
    ),
    (
        lambda: lax.bitcast_convert_type(X > 0, np.float32),
        ValueError,
        "Attempting to convert array of shape",
    ),
]


@pytest.mark.parametrize("call, error, message", MISTAKES)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_axes_may_be_numpy_integers_or_lists():
    x = jnp.arange(6.0).reshape(2, 3)
    axis = np.int64(1)
    np.testing.assert_array_equal(jnp.median(x, axis=axis), [1, 4])
    np.testing.assert_array_equal(jnp.quantile(x, 0.5, axis=axis, keepdims=True)[0], 1)
    np.testing.assert_array_equal(jnp.percentile(x, 50, axis=axis), [1, 4])
    by_list = nn.logsumexp(x, axis=[0])
    np.testing.assert_array_equal(by_list, nn.logsumexp(x, axis=0))


def test_booleans_count_as_places():
    np.testing.assert_array_equal(jnp.take(X, jnp.array([True, False])), [2.0, 1.5])


def test_sizes_of_lists_are_deprecated():
    for function, wanted in (jnp.shape, (2,)), (jnp.ndim, 1), (jnp.size, 2):
        with pytest.warns(DeprecationWarning, match="requires ndarray or scalar"):
            assert function([1, 2]) == wanted


def test_constants_of_scalars_are_not_weak():
    for function in jnp.isinf, jnp.isposinf, jnp.log10:
        for x in 1.5, 2:
            assert not function(x).weak_type
    assert not jnp.spacing(1).weak_type
    assert jnp.log2(1.5).weak_type  # a primitive of its own since 0.12
    assert jnp.isinf(2j).weak_type is False


def test_objects_that_forward_what_arrays_are_asked_for():
    class Box:
        def __init__(self, value):
            self.value = value

        def __jax_array__(self):
            return self.value

        def __getattr__(self, name):
            return getattr(self.value, name)

    def alike(x):
        box = Box(x)
        likes = (jnp.zeros_like, jnp.ones_like, jnp.empty_like)
        full = jnp.full_like(box, 2), lax.full_like(box, 2.0)
        return *[like(box).shape for like in likes], *full

    *shapes, one, two = curta.jit(alike)(jnp.ones(3))
    assert one.tolist() == two.tolist() == [2, 2, 2]
    assert one.dtype == two.dtype == np.float32


def test_shape_and_dtype_of_an_object_are_enough():
    class Described:
        shape, dtype = (2,), np.dtype(np.float32)

        def __jax_array__(self):
            raise AssertionError("asked for its values")

    likes = (jnp.zeros_like, jnp.ones_like, jnp.empty_like)
    for out in *[like(Described()) for like in likes], jnp.full_like(Described(), 2):
        assert (out.shape, out.dtype) == (Described.shape, Described.dtype)


@pytest.mark.parametrize("x", [np.arange(4), np.float64(2)], ids=str)
def test_reshaped_arrays_of_numpy_stay_so(x):
    """Programs look at them while they are traced."""
    found = []
    curta.jit(lambda: found.append(jnp.reshape(x, (-1, 1))))()
    (there,) = found
    assert type(there) is np.ndarray
    assert there.dtype == x.dtype
    assert there.shape == (np.size(x), 1)
    assert isinstance(jnp.ravel(x), curta.Array)


def test_orders_of_dims_may_be_arrays():
    x = jnp.ones((2, 3, 4))
    for order in (2, 0, 1), [2, 0, 1], np.array([2, 0, 1]):
        assert x.transpose(order).shape == (4, 2, 3)
    assert x.transpose(None).shape == x.transpose().shape == (4, 3, 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_densities_have_the_dtype_of_the_points(dtype):
    points = jnp.arange(4.0).astype(dtype)
    density, edges = jnp.histogramdd(points[:, None], 2, density=True)
    assert density.dtype == edges[0].dtype == dtype
    assert jnp.histogramdd(points[:, None], 2)[0].dtype == "int32"
