"""Writes that cover their target are the values written."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.host_target import host
from curta.compiler.pipeline import compile_jaxpr
from curta.compiler.rewrite.simplify import simplify

X, V = jnp.zeros((6, 5, 4)), jnp.arange(120.0).reshape(6, 5, 4)
ONE = lax.slice(X, (0, 0, 0), (1, 5, 4))  # a single row

COVER = {
    "all": (lambda x, v: x.at[:, :, :].set(v + 1), X),
    "ellipsis": (lambda x, v: x.at[...].set(v), X),
    "a number": (lambda x, v: x.at[:].set(3.0), X),
    "the one row": (lambda x, v: x.at[0].set(v[2]), ONE),
    "clipped": (lambda x, v: x.at[7].set(v[2], mode="clip"), ONE),
    "update slice": (lambda x, v: lax.dynamic_update_slice(x, v, (3, 1, 2)), X),
    "converted": (lambda x, v: x.at[:].set((v * 1.5).astype(np.int32)), X),
}
PART = {
    "dropped": (lambda x, v: x.at[1].set(v[2]), ONE),
    "unknown row": (lambda x, v: x.at[v[0, 0, 0].astype(int)].set(v[2]), ONE),
    "part": (lambda x, v: x.at[1:].set(v[1:]), X),
    "added": (lambda x, v: x.at[:].add(v), X),
    "rows in another order": (lambda x, v: x.at[jnp.arange(6)[::-1]].set(v), X),
}


def ops(fun, x):
    return {e.op.name for e in simplify(curta.make_jaxpr(fun)(x, V).jaxpr, host()).eqns}


@pytest.mark.parametrize("name", [*COVER, *PART])
def test_equals_eval(name):
    fun, x = (COVER | PART)[name]
    with curta.disable_jit():
        expected = fun(x, V)
    np.testing.assert_array_equal(curta.jit(fun)(x, V), expected)
    given = curta.jit(fun, donate_argnums=0)(x + 0, V)
    np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize("name", COVER)
def test_nothing_is_updated(name):
    fun, x = COVER[name]
    assert not ops(fun, x) & {"scatter", "dynamic_update_slice"}


@pytest.mark.parametrize("name", PART)
def test_updates_of_a_part_stay(name):
    fun, x = PART[name]
    assert ops(fun, x) & {"scatter", "scatter-add"}


def test_written_values_are_computed_in_place():
    x, v = jnp.zeros((300, 200)), jnp.ones((300, 200))

    def fun(x, v):
        return x.at[:, :].set(jnp.sin(v) + jnp.roll(v, 1, axis=0)) * 2

    assert compile_jaxpr(curta.make_jaxpr(fun)(x, v)).native.temporaries == 0
