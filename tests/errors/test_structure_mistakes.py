"""Axes, argument numbers, rules, trees and placements: mistakes and answers."""

import numpy as np
import pytest
from tests.errors.checks import check_message

import curta
import curta.numpy as jnp
from curta import tree_util

ROW = jnp.ones((1, 3))


def _with_rules(*rules):
    f = curta.custom_jvp(lambda x, y: x * y)
    f.defjvps(*rules)
    return lambda: curta.jvp(f, (1.0, 2.0), (1.0, 2.0))


def _reverse_only():
    f = curta.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda _, g: (g,))
    return f


MISTAKES = {
    "no argnums": (
        lambda: curta.grad(lambda x: x, argnums=())(1.0),
        ValueError,
        "argnums=() names no argument",
    ),
    "argnums twice": (
        lambda: curta.grad(lambda x, y: x * y, argnums=(0, -2))(1.0, 2.0),
        TypeError,
        "argnums=(0, 0) names an argument more than once",
    ),
    "argnums text": (
        lambda: curta.jacfwd(lambda x: x, argnums="x")(1.0),
        TypeError,
        "'str' object cannot be interpreted as an integer",
    ),
    "vmap dict of in_axes": (
        lambda: curta.vmap(lambda x: x, in_axes={"a": 0})(ROW),
        TypeError,
        "vmap in_axes must be an int, None",
    ),
    "vmap text of out_axes": (
        lambda: curta.vmap(lambda x: (x, x), out_axes=(0, "x")),
        TypeError,
        "vmap out_axes must be an int, None, or (nested) container",
    ),
    "vmap boolean out_axes": (
        lambda: curta.vmap(lambda x: x, out_axes=True),
        TypeError,
        "vmap out_axes must be an int, None, or (nested) container",
    ),
    "pmap out_axes": (
        lambda: curta.pmap(lambda x: x, out_axes=-3)(ROW),
        ValueError,
        "axis -3 is out of bounds for array of dimension 2",
    ),
    "too few rules": (
        _with_rules(lambda t, out, x, y: t),
        ValueError,
        "defjvps was given 1 rules for a function of 2",
    ),
    "forward of reverse only": (
        lambda: curta.jacfwd(_reverse_only())(1.0),
        TypeError,
        "can't apply forward-mode autodiff (jvp) to a custom_vjp function.",
    ),
    "custom_gradient without rule": (
        lambda: curta.custom_gradient(lambda x: x)(1.0),
        TypeError,
        "cannot unpack",
    ),
    "linearized tree": (
        lambda: curta.linearize(lambda x: x, 1.0)[1](1.0, 2.0),
        TypeError,
        "expected PyTreeDef((*,)), got PyTreeDef((*, *))",
    ),
    "compose": (
        lambda: tree_util.tree_structure([1]).compose(3),
        TypeError,
        "compose(): incompatible function arguments",
    ),
    "tuple of no structures": (
        lambda: tree_util.treedef_tuple([1]),
        TypeError,
        "treedef_tuple takes PyTreeDefs",
    ),
    "registration without functions": (
        lambda: tree_util.register_pytree_node(type("A", (), {}), None, None),
        TypeError,
        "register_node(): incompatible function arguments",
    ),
    "shardings of more arguments": (
        lambda: curta.jit(lambda x: x, in_shardings=(None, None))(1.0),
        ValueError,
        "pjit in_shardings specification must be a tree prefix",
    ),
    "sharding text": (
        lambda: curta.make_array_from_callback((2,), "x", lambda index: 1),
        TypeError,
        "sharding should be an instance of `jax.sharding`",
    ),
    "default device": (
        lambda: curta.default_device("abacus"),
        ValueError,
        "jax.default_device must be passed either a Device object",
    ),
    "dtype of a struct": (
        lambda: curta.ShapeDtypeStruct((2,), 3),
        TypeError,
        "Cannot interpret '3' as a data type",
    ),
    "scalar type": (
        lambda: curta.dtypes.scalar_type_of(None),
        ValueError,
        "Invalid argument to dtype: None.",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_message(name):
    mistake, kind, opening = MISTAKES[name]
    check_message(mistake, kind, opening, "")


def test_argnums_of_numpy():
    for argnum in (np.int64(1), jnp.array(1)):
        assert curta.grad(lambda x, y: x * y, argnums=argnum)(2.0, 3.0) == 2.0


def test_zero_derivatives_of_python_numbers_are_weak():
    assert curta.grad(lambda x: x[0])([1.0, 2.0])[1].weak_type


def test_axes_of_pmap_from_the_end():
    assert curta.pmap(lambda x: x, out_axes=-1)(ROW).shape == (3, 1)
    assert curta.pmap(lambda x: x, in_axes=-2)(ROW).shape == (1, 3)


def test_checkpoint_static_argnames():
    def scaled(x, twice):
        return 2 * x if twice else x

    f = curta.checkpoint(scaled, static_argnames="twice")
    assert curta.grad(f)(1.0, twice=True) == 2.0
    assert curta.grad(f)(1.0, twice=False) == 1.0


def test_keys_are_no_numpy_arrays():
    key = curta.random.key(0)
    assert curta.device_get({"key": key})["key"] is key


def test_only_classes_are_tree_nodes():
    assert not tree_util.is_tree_node(3)
    assert not tree_util.is_tree_node([1])
