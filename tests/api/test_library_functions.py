"""Functions of the library on concrete arrays: by a plan of `jit`'s, found out once."""

import warnings

import numpy as np
import pytest

import curta
import curta.numpy as jnp
import curta.scipy.special
from curta._base import user_warnings
from curta.api.inner import inlined_jit, inner_jit


def donated(a, b):  # of a few types, which are no mistake to tell of
    with curta.advice("ignore"):
        return _donated(a, b)


_donated = curta.jit(lambda a, b: (a + 1, b), donate_argnums=0)
queued = curta.jit(lambda: jnp.arange(1e6))


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


@pytest.mark.parametrize("f", [jnp.abs, jnp.conj, jnp.floor, jnp.sum])
def test_results_are_arrays_of_their_own(f):
    for _ in range(3):
        x = jnp.arange(5, dtype="uint32")
        (y := f(x)).delete()
        assert y is not x and x.tolist() == [0, 1, 2, 3, 4]
        assert donated(f(x), x)[1].tolist() == [0, 1, 2, 3, 4]


def test_what_has_an_array_keeps_it():
    class Has:
        def __init__(self, x):
            self.x = x

        def __jax_array__(self):
            return self.x

    for _ in range(3):
        has = Has(jnp.arange(3.0))
        donated(jnp.squeeze(has), has.x)
        assert has.x.tolist() == [0, 1, 2]


SAME = {
    "around": lambda x: jnp.around(x.astype(int)),
    "atleast_1d": lambda x: jnp.atleast_1d(x, x)[1],
    "block": jnp.block,
    "broadcast_arrays": lambda x: jnp.broadcast_arrays(x, x)[0],
    "clip": jnp.clip,
    "conj": jnp.conj,
    "diff": lambda x: jnp.diff(x, n=0),
    "einsum": lambda x: jnp.einsum("i", x),
    "expand_dims": lambda x: jnp.expand_dims(x, ()),
    "ix_": lambda x: jnp.ix_(x)[0],
    "meshgrid": lambda x: jnp.meshgrid(x)[0],
    "moveaxis": lambda x: jnp.moveaxis(x, 0, 0),
    "pad": lambda x: jnp.pad(x, 0),
    "positive": jnp.positive,
    "ravel": jnp.ravel,
    "ravel of an array": lambda x: x.ravel(),
    "real": lambda x: x.real,
    "roll": lambda x: jnp.roll(x, (), axis=()),
    "rollaxis": lambda x: jnp.rollaxis(x, 0),
    "squeeze": lambda x: jnp.squeeze(a=x),
    "swapaxes": lambda x: jnp.swapaxes(x, 0, 0),
    "trunc": lambda x: jnp.trunc(x.astype(int)),
}


@pytest.mark.parametrize("name", SAME)
def test_functions_that_change_nothing_give_new_arrays(x, name):
    for operand in (x, queued()):
        first = np.asarray(operand).copy()
        for _ in range(3):
            out = SAME[name](operand)
            donated(out, operand)
            np.testing.assert_array_equal(operand, first)


def test_new_arrays_leave_what_is_traced_as_it_is(x):
    jaxpr = curta.make_jaxpr(lambda y: (jnp.real(y), jnp.ravel(x), jnp.squeeze(y)))(x)
    assert not jaxpr.eqns


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


WARN = {
    "sum": lambda x: jnp.sum(x, dtype="float64"),
    "var": lambda x: jnp.var(x, dtype="float64"),
    "matmul": lambda x: jnp.matmul(x, x, preferred_element_type="float64"),
    "mean": lambda x: jnp.mean(x, dtype="float64"),
}


@pytest.mark.parametrize("name", WARN)
def test_what_a_trace_warns_of_is_told_once(name, x):
    with pytest.warns(UserWarning, match="float64") as told:
        for _ in range(5):
            WARN[name](x)
    assert len(told) == 1


def test_warnings_that_are_errors_are_raised_at_every_call():
    @inlined_jit
    def by_itself(x):
        user_warnings.warn("not so")
        return x + 1

    @inner_jit
    def traced(x):
        user_warnings.warn("not so")
        return x + 1

    for f in (by_itself, traced):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(4):
                with pytest.raises(UserWarning, match="not so"):
                    f(jnp.ones(3))
        with pytest.warns(UserWarning, match="not so") as told:
            assert f(jnp.ones(3))[0] == 2 and f(jnp.ones(3))[0] == 2
        assert len(told) == 1


class Converted:
    def __init__(self, value):
        self.value = value

    def __jax_array__(self):
        return self.value


class Node(Converted):
    pass


curta.tree_util.register_pytree_node(
    Node, lambda x: ((x.value,), None), lambda _, x: Node(*x)
)


@pytest.mark.parametrize(
    "f", [jnp.sin, jnp.add, curta.nn.softmax, jnp.real, jnp.clip, jnp.sum]
)
def test_of_objects_with_jax_array_only_trees_are_arguments(f, x):
    args = [x] * (2 if f is jnp.add else 1)
    expected = f(*args)
    np.testing.assert_array_equal(f(Node(x), *args[1:]), expected)
    for g in (f, curta.jit(lambda y: f(y, *args[1:]))):
        with pytest.raises(ValueError, match=r"Triggering __jax_array__\(\)"):
            g(Converted(x), *args[1:])
    with pytest.raises(ValueError, match=r"Triggering __jax_array__\(\)"):
        curta.grad(lambda y: f(Converted(x), *args[1:]).sum() * y)(1.0)


@pytest.mark.parametrize("kind", [Converted, Node])
def test_functions_that_are_no_calls_take_objects_with_jax_array(kind, x):
    out = curta.scipy.special.expit(kind(x))
    np.testing.assert_array_equal(out, curta.scipy.special.expit(x))
    np.testing.assert_array_equal(jnp.isposinf(kind(x)), 4 * [False])
    np.testing.assert_array_equal(jnp.squeeze(kind(x)), x)
