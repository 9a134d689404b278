"""Updates through branches and loops, whatever names the array goes by.

A copy in every turn is quadratic where the program says linear; it takes the memory of
a second array, so that the temporaries of the compiled program tell.
"""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.pipeline import compile_jaxpr

ROWS, COLUMNS = 24, 500


def put(x, i):
    return x.at[i].set(i * 2.0)


def same(x, *_):
    return x


def last(*xs):
    return xs[-1]


def exchange(x, y):
    return y, x


def looped(body):
    """The array after as many iterations as it has rows."""
    return lambda x: lax.fori_loop(0, ROWS, body, x)


def summing(body):
    """The same with a sum."""
    return lambda x: lax.fori_loop(0, ROWS, body, (x, jnp.float32(0)))


def old_form(i, x):
    return lax.cond(i > 3, (x, i), lambda a: put(*a), x, same)


def of_a_tree(i, x):
    tree = {"a": x, "b": [x, x]}
    update = lambda t: {"a": put(t["a"], i), "b": t["b"]}  # noqa: E731
    return lax.cond(i > 3, update, same, tree)["a"]


def every_branch_hands_on(i, c):
    x, total = c
    read = [lambda x, k=k: (x, x[i, k]) for k in (0, 1)]
    y, seen = lax.cond(i > 3, *read, x)
    return put(y, i), total + seen + x[i, 3]


def result_not_needed(i, c):
    x, total = c
    _, seen = lax.cond(i > 3, lambda x: (put(x, i), x[i, 0]), lambda x: (x, x[i, 1]), x)
    return put(x, i), total + seen


def in_nested_branches(i, x):
    inner = lambda x, y: lax.cond(i % 2 == 0, lambda a, b: put(b, i), same, x, y)  # noqa: E731
    return lax.cond(i > 3, inner, last, x, x)


def in_a_loop_of_a_branch(i, x):
    inner = lambda x: lax.fori_loop(0, 3, lambda j, x: put(x, i + j), x)  # noqa: E731
    return lax.cond(i > 3, inner, same, x)


def in_a_while_loop_of_a_branch(i, x):
    def inner(x):
        more, step = lambda c: c[0] < 3, lambda c: (c[0] + 1, put(c[1], i + c[0]))
        return lax.while_loop(more, step, (0, x))[1]

    return lax.cond(i > 3, inner, same, x)


@curta.jit
def jitted(x, y, i):
    return lax.cond(i > 3, lambda x, y: put(x, i), last, x, y)


def of_a_scan(x):
    def body(x, i):
        cases = [lambda x, y: put(x, i), lambda x, y: y.at[i].add(1.0), last]
        x = lax.switch(i % 3, cases, x, x)
        return x, x[i, 0]

    return lax.scan(body, x, jnp.arange(ROWS))


def of_a_while_loop(x):
    def body(c):
        i, x = c
        return i + 1, lax.cond(i % 2 == 0, lambda a, b: put(a, i), last, x, x)

    return lax.while_loop(lambda c: c[0] < ROWS, body, (0, x))[1]


def of_a_batch(x):
    step = lambda i, x: lax.cond(i > 3, lambda x, y: put(x, i), last, x, x)  # noqa: E731
    parts = x.reshape(2, ROWS, COLUMNS // 2)
    return curta.vmap(looped(step))(parts).reshape(x.shape)


def carried_twice(x):
    def body(i, c):
        x = put(c[0], i)
        return x, x

    return lax.fori_loop(0, ROWS, body, (x, x))[1]


def flat(i, x):
    return x.ravel().at[i * COLUMNS].add(x[i, 1]).reshape(x.shape)


def flat_in_a_branch(i, x):
    return lax.cond(i > 3, lambda x: flat(i, x), same, x)


PROGRAMS = {
    "given twice": looped(
        lambda i, x: lax.cond(i > 3, lambda x, y: put(x, i), last, x, x)
    ),
    "an operand for each branch": looped(old_form),
    "closed over and given": looped(
        lambda i, x: lax.cond(i > 3, lambda y: put(y, i), lambda y: x, x)
    ),
    "in a tree": looped(of_a_tree),
    "handed on": summing(every_branch_hands_on),
    "not needed": summing(result_not_needed),
    "nested branches": looped(in_nested_branches),
    "loop in a branch": looped(in_a_loop_of_a_branch),
    "while loop in a branch": looped(in_a_while_loop_of_a_branch),
    "call": looped(lambda i, x: jitted(x, x, i)),
    "scan": of_a_scan,
    "while loop": of_a_while_loop,
    "batch": of_a_batch,
    "carried twice": carried_twice,
    "reshaped": looped(flat),
    "reshaped in a branch": looped(flat_in_a_branch),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_turn_copies(name):
    f = PROGRAMS[name]
    x = jnp.asarray(np.random.default_rng(0).integers(0, 9, (ROWS, COLUMNS)) / 1.0)
    x = x.astype(jnp.float32)
    with curta.disable_jit():
        expected = f(x)
    found, given = curta.jit(f)(x), curta.jit(f, donate_argnums=0)(x.copy())
    for a, b, c in zip(*map(curta.tree.leaves, (expected, found, given)), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-6)
        np.testing.assert_allclose(c, a, rtol=1e-6)
    native = compile_jaxpr(curta.make_jaxpr(f)(x)).native
    assert native.temporaries < x.nbytes / 2


def both_needed(i, c):
    x, total = c
    y = lax.cond(i > 3, lambda x: put(x, i), same, x)
    return y, total + jnp.sum(x[i]) + jnp.sum(y)


def views_needed(i, c):
    x, total = c
    flat = x.reshape(-1)
    y = put(flat, i * COLUMNS)
    return y.reshape(x.shape), total + jnp.sum(x * jnp.cos(y.reshape(x.shape)))


def old_and_new(i, x):
    old = x.reshape(COLUMNS, ROWS)
    y = lax.cond(i > 3, lambda x: put(x, i), same, x)
    return y + old.reshape(x.shape)


def overlapping(i, x):
    row = x.reshape(-1)[:-1]
    return lax.dynamic_update_slice(x.reshape(-1), row, (1,)).reshape(x.shape)


def exchanged(x):
    def body(i, c):
        a, b = c
        return b, put(a, i)

    return lax.fori_loop(0, 5, body, (x, x))


def counted_apart(x):
    def body(c):
        i, j, k, x = c
        return i + 1, j + 1, k + 2, put(x, j)

    return lax.while_loop(lambda c: c[0] + c[1] < 2 * ROWS, body, (0, 0, 0, x))


NEEDED = {
    "old and new value": summing(both_needed),
    "a view and what it is of": summing(views_needed),
    "an old view": looped(old_and_new),
    "a window moved in its own array": looped(overlapping),
    "two that exchange places": exchanged,
    "counters": counted_apart,
    "the same twice": lambda x: lax.cond(x[0, 0] > 0, exchange, exchange, x, x),
    "a result twice": lambda x: lax.scan(lambda c, r: (c, (r, r)), x, x),
    "nothing": lambda x: lax.cond(x[0, 0] > 99, lambda x: (), lambda x: (), x),
}


@pytest.mark.parametrize("name", NEEDED)
def test_what_is_needed_is_kept(name):
    f = NEEDED[name]
    x = jnp.asarray(np.random.default_rng(0).integers(0, 9, (ROWS, COLUMNS)) / 8.0)
    x = x.astype(jnp.float32)
    before = np.array(x)
    with curta.disable_jit():
        expected = f(x)
    for run in (curta.jit(f), f):
        for a, b in zip(*map(curta.tree.leaves, (expected, run(x))), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5)
    np.testing.assert_array_equal(x, before)
