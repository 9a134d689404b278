"""Functions of the library on concrete arrays: by a plan of `jit`'s, found out once."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.api.inner import inlined_jit, inner_jit


@pytest.fixture
def x():
    return jnp.arange(4.0) + 1


def test_calls_give_the_same_bits(x):
    for f in (jnp.sin, jnp.log2, jnp.sum, curta.nn.softmax, curta.nn.gelu):
        first, *others = [np.asarray(f(x)).tobytes() for _ in range(4)]
        assert others == 3 * [first]


def test_a_function_is_traced_once_for_all_that_calls_it(x):
    traced = []

    @inner_jit
    def f(x):
        traced.append(type(x))
        return x * 2

    f(x), f(x), curta.jit(lambda x: f(x) + 1)(x), curta.make_jaxpr(f)(x)
    assert len(traced) == 1


def test_the_first_call_of_few_ops_is_not_traced(x):
    seen = []

    @inlined_jit(static_argnames="times")
    def f(x, times=2):
        seen.append(isinstance(x, curta.core.Tracer))
        return x * times

    for _ in range(4):
        np.testing.assert_array_equal(f(x), 2 * np.arange(1.0, 5))
    assert seen == [False, True]
    np.testing.assert_array_equal(f(x, times=3), 3 * np.arange(1.0, 5))
    np.testing.assert_array_equal(f(x, 3), f(x, times=3))
    jaxpr = curta.make_jaxpr(f)(x)
    assert [e.primitive.name for e in jaxpr.eqns] == ["mul"]


def test_what_is_no_array_is_refused_at_every_call():
    for _ in range(3):
        with pytest.raises(TypeError, match="sin requires ndarray or scalar"):
            jnp.sin([1.0])
        with pytest.raises(TypeError, match="add requires ndarray or scalar"):
            jnp.add(1.0, None)
        with pytest.raises(ValueError, match="Incompatible|broadcast"):
            jnp.add(jnp.ones(3), jnp.ones((2, 2)))


def test_results_are_where_arguments_are(x):
    here = curta.device_put(x, curta.devices()[0])
    for _ in range(3):
        assert jnp.sin(here).committed and jnp.add(here, x).committed
        assert jnp.add(x, here).committed and not jnp.add(x, x).committed
        assert jnp.add(here, 1.0).sharding == here.sharding


def test_deleted_arrays_are_refused(x):
    jnp.cos(x), jnp.cos(x), jnp.cos(x)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jnp.cos(x)


def test_arguments_of_numpy_and_python(x):
    for _ in range(3):
        assert jnp.sqrt(4).weak_type and jnp.sqrt(4) == 2
        assert jnp.maximum(x, 2).dtype == np.float32
        assert jnp.sqrt(np.full(3, 4, np.float32)).tolist() == [2, 2, 2]
        assert jnp.sum(x, axis=np.int64(0)) == 10


@pytest.mark.parametrize("f", [jnp.abs, jnp.floor, jnp.sum])
def test_results_are_arrays_of_their_own(f):
    for _ in range(3):
        x = jnp.arange(5, dtype="uint32")
        (y := f(x)).delete()
        assert y is not x and x.tolist() == [0, 1, 2, 3, 4]
        both = curta.jit(lambda a, b: (a + 1, b), donate_argnums=0)
        assert both(f(x), x)[1].tolist() == [0, 1, 2, 3, 4]


def test_what_is_no_tree_is_refused_by_the_function():
    for _ in range(3):
        with pytest.raises(TypeError, match="add requires ndarray or scalar"):
            jnp.add({1: jnp.ones(2), "b": jnp.ones(2)}, 1)


def test_calls_that_cannot_be_traced_are_not_traced_again(x):
    traced = []

    @inlined_jit
    def f(x):
        traced.append(type(x))
        return x if float(x.sum()) else None

    for _ in range(5):
        f(x)
    assert len({*traced}) == 2 and sum(t is not type(x) for t in traced) == 1
