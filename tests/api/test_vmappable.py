"""Types of a program's own, mapped over."""

import contextlib

import pytest

import curta
import curta.numpy as jnp
from curta.interpreters import batching


class Named:
    """An array with a name for each dim."""

    def __init__(self, names, data):
        self.names, self.data = names, data


class Over:
    def __init__(self, name, axis):
        self.name, self.axis = name, axis


def example(each, index, x, over):
    names = [n for n in x.names if n != over.name]
    return Named(names, each(x.data, over.axis))


def whole(make, size, x, over):
    names = list(x.names)
    names.insert(over.axis, over.name)
    return Named(names, make(size, x.data, over.axis))


@contextlib.contextmanager
def registered(to_elt=example, from_elt=whole):
    batching.register_vmappable(Named, Over, int, to_elt, from_elt, None)
    try:
        yield
    finally:
        batching.unregister_vmappable(Named)


def square(x):
    return Named(x.names, x.data * x.data)


def test_examples_and_batches():
    x = Named(["i", "j"], jnp.arange(6.0).reshape(2, 3))
    with registered():
        mapped = curta.vmap(square, Over("i", 0), Over("i", 1), axis_size=2)
        out = curta.jit(lambda data: mapped(Named(x.names, data)).data)(x.data)
        assert mapped(x).names == ["j", "i"]
    assert (out == (x.data**2).T).all()


def test_sizes_from_arrays_beside_them():
    def scaled(x, factor):
        assert x.data.shape == (2,) and factor.shape == ()
        return x.data * factor

    x = Named(["j", "i"], jnp.ones((2, 3)))
    with registered():
        out = curta.vmap(scaled, (Over("i", 1), 0))(x, jnp.arange(3.0))
        assert out.tolist() == [[0, 0], [1, 1], [2, 2]]
        with pytest.raises(ValueError, match="inconsistent sizes|axis_size"):
            curta.vmap(square, Over("i", 0))(x)


def test_handlers_compute():
    def numbered(each, index, x, over):
        return Named(index(), each(x.data + 1, 0))

    def negated(make, size, x, over):
        return Named([], make(size, -x.data, 0))

    x = Named(["i"], jnp.arange(3.0))
    with registered(numbered, negated):
        number = curta.vmap(
            lambda x: Named([], x.data * x.names),
            Over("i", 0),
            Over("i", 0),
            axis_size=3,
        )
        out = number(x)
    assert out.data.tolist() == [0.0, -2.0, -6.0]


def test_without_registration():
    with pytest.raises(TypeError, match="vmap in_axes must be an int, None"):
        curta.vmap(square, in_axes=(Over("i", 0),))
    with pytest.raises(KeyError):
        batching.unregister_vmappable(Named)


def test_sum_match_sums_what_is_mapped_but_not_wanted_so():
    def fun(x):
        return x * 2, x, 3.0

    summed = curta.vmap(fun, out_axes=(None, 0, None), sum_match=True)
    x = jnp.arange(3.0)
    total, same, shared = summed(x)
    assert (total, shared) == (6.0, 3.0) and same.tolist() == [0.0, 1.0, 2.0]
    assert "reduce_sum[axes=(0,) out_sharding=None]" in str(curta.make_jaxpr(summed)(x))
    slope = curta.grad(
        lambda y: curta.vmap(lambda x: x * y, out_axes=None, sum_match=True)(x)
    )
    assert slope(2.0) == 3.0
    with pytest.raises(ValueError, match="got axis spec None"):
        curta.vmap(fun, out_axes=None)(x)
