"""Updates and branches in the memory of an operand: never while others need it."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.pipeline import compile_jaxpr
from curta.extend import core

SIZE = 64
view_p = core.Primitive("a_view")
view_p.def_impl(lambda x: x)
view_p.def_abstract_eval(lambda x: x)


def check(f, *args):
    with curta.disable_jit():
        expected = curta.tree_util.tree_leaves(f(*args))
    found = curta.tree_util.tree_leaves(curta.jit(f)(*args))
    for a, b in zip(found, expected, strict=True):
        # Sums of large terms that cancel are as exact as the terms.
        size = np.abs(np.asarray(b)).max(initial=1)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5 * size)


def matrix():
    return np.random.default_rng(0).normal(size=(SIZE, SIZE)).astype(np.float32)


def in_memory(x):
    """A temporary that the program may overwrite."""
    return x @ jnp.eye(SIZE, dtype=np.float32)


def test_an_update_by_a_reshape_of_what_it_updates():
    order = np.random.default_rng(1).permutation(SIZE * SIZE)

    def f(x):
        y = in_memory(x)
        return y.at[order // SIZE, order % SIZE].set(y.reshape(-1))

    check(f, matrix())


def test_an_update_of_a_reshape_while_the_whole_is_needed():
    def f(x):
        y = in_memory(x)
        flat = y.reshape(-1)
        z = flat.at[SIZE:].set(0.0)
        return z, jnp.cumsum(y * z.sum(), 0)

    check(f, matrix())


def test_an_update_of_one_of_two_names():
    def f(x):
        y = in_memory(x).reshape(SIZE * SIZE)
        z = y.reshape(SIZE // 2, 2 * SIZE)
        return y.at[3].set(100.0), z @ jnp.ones((2 * SIZE, 2), np.float32)

    check(f, matrix())


def looks(y):
    return lax.cond(
        y[0, 0] > 1e9,
        lambda y: y + 1,
        lambda y: (curta.debug.callback(lambda a: None, y[0, 0]), y)[1],
        y,
    )


@pytest.mark.parametrize("look", [view_p.bind, looks])
def test_an_update_of_what_a_step_in_python_may_have_handed_on(look):
    def f(x):
        y = in_memory(x)
        seen = look(y)
        z = y.at[3].set(100.0)
        return z, jnp.cumsum(seen * z.sum(), 0)

    check(f, matrix())


def overwrites(f, *args):
    """Whether the conditional that `f` ends with makes its result where y lies."""
    called = compile_jaxpr(curta.make_jaxpr(f)(*args)).code.callees
    return all(p.in_place == {0} for p in called if hasattr(p, "in_place"))


def test_a_branch_that_makes_another_result_overwrites_what_it_does_not_read():
    def f(p, x):
        return lax.cond(p, lambda x, y: y, lambda x, y: x @ x, x, in_memory(x))

    for p in (True, False):
        check(f, p, matrix())
    assert overwrites(f, True, matrix())


def test_a_branch_that_reads_makes_its_result_elsewhere():
    def f(p, x):
        return lax.cond(p, lambda x, y: y, lambda x, y: y @ x, x, in_memory(x))

    for p in (True, False):
        check(f, p, matrix())
    assert not overwrites(f, True, matrix())
