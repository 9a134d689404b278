"""Node classes of users that check their arrays: no function shows them others."""

from typing import NamedTuple

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax


class Pairs:
    """An array whose last dim is 2."""

    def __init__(self, array):
        if hasattr(array, "shape") and array.shape[-1:] != (2,):
            raise ValueError(f"not pairs: {array.shape}")
        self.array = array


curta.tree_util.register_pytree_node(
    Pairs, lambda pairs: ((pairs.array,), None), lambda _, children: Pairs(*children)
)


class Case(NamedTuple):
    function: object
    shape: tuple[int, ...] = (3, 2)


def scaled(pairs):
    return Pairs(jnp.sin(pairs.array) * 2)


def mixed(pairs):
    """The batch dim of what comes out is not the first one."""
    return Pairs(jnp.eye(2) @ pairs.array[..., None] * jnp.ones((1, 2)))


def total(pairs):
    return jnp.sum(pairs.array**2)


def in_loop(pairs):
    return lax.fori_loop(0, 3, lambda i, p: scaled(p), pairs)


def in_scan(pairs):
    return lax.scan(lambda carry, row: (carry, scaled(row)), 0, pairs)[1]


CASES = {
    "jit": Case(curta.jit(scaled)),
    "vmap": Case(curta.vmap(mixed)),
    "vmap, other out_axes": Case(curta.vmap(mixed, out_axes=1)),
    "vmap, a tree of out_axes": Case(curta.vmap(mixed, out_axes=Pairs(0))),
    "jit of vmap": Case(curta.jit(curta.vmap(mixed))),
    "pmap": Case(curta.pmap(mixed), (1, 2)),
    "grad": Case(curta.grad(total)),
    "grad of vmap": Case(curta.grad(lambda p: total(curta.vmap(mixed)(p)))),
    "jvp": Case(lambda p: curta.jvp(scaled, (p,), (p,))[1]),
    "vjp": Case(lambda p: curta.vjp(scaled, p)[1](p)[0]),
    "linearize": Case(lambda p: curta.linearize(scaled, p)[1](p)),
    "checkpoint": Case(curta.checkpoint(scaled)),
    "fori_loop": Case(in_loop),
    "scan": Case(in_scan),
    "map": Case(lambda p: lax.map(mixed, p)),
    "cond": Case(lambda p: lax.cond(True, scaled, scaled, p)),
    "eval_shape": Case(lambda p: curta.eval_shape(scaled, p)),
    "callback": Case(lambda p: curta.pure_callback(lambda q: q, p, p)),
    "device_put": Case(curta.device_put),
}


@pytest.mark.parametrize("name", CASES)
def test_only_arrays_that_fit(name):
    function, shape = CASES[name]
    out = function(Pairs(jnp.ones(shape)))
    assert isinstance(out, Pairs) and out.array.shape[-1] == 2


def test_a_batch_dim_is_moved_before_the_node_is_made():
    x = jnp.arange(6.0).reshape(3, 2)
    mapped = curta.vmap(mixed)(Pairs(x)).array
    alone = [mixed(Pairs(row)).array for row in x]
    np.testing.assert_array_equal(mapped, np.stack(alone))
