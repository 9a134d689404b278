"""Equal loops and branches are merged, and others are not."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.host_target import host
from curta.compiler.rewrite.equality import same_jaxpr
from curta.compiler.rewrite.simplify import simplify
from curta.primitives.barrier import RecomputationBarrier

X = jnp.linspace(-1.0, 2.0, 50)


def counted(x, scale=1.0):
    """Histogram by a loop of updates."""

    def step(i, total):
        return total.at[jnp.int32(4 * (x[i] + 1)) % 5].add(scale)

    return lax.fori_loop(0, x.size, step, jnp.zeros(5))


def running(x):
    return lax.scan(lambda c, y: (c + y, c * y), 0.0, x)


def halved(x):
    return lax.while_loop(lambda c: c.sum() > 1, lambda c: 0.5 * c, x)


def chosen(x, other=jnp.cos):
    return lax.cond(x[0] > 0, jnp.sin, other, x)


def nested(x):
    def step(c, y):
        return lax.fori_loop(0, 3, lambda _, d: jnp.sin(d + y), c), running(x)[0]

    return lax.scan(step, 0.0, x)


EQUAL = {
    "updates": (lambda x: (counted(x), counted(x)), "scan"),
    "scan": (lambda x: (running(x), running(x)), "scan"),
    "while": (lambda x: (halved(x), halved(x)), "while"),
    "cond": (lambda x: (chosen(x), chosen(x)), "cond"),
    "nested": (lambda x: (nested(x), nested(x)), "scan"),
    "of equal values": (lambda x: (halved(x + 1), halved(x + 1)), "while"),
}
DIFFERENT = {
    "constant": (lambda x: (counted(x), counted(x, 2.0)), "scan"),
    "sign of zero": (
        lambda x: [
            lax.scan(lambda c, y, z=z: (c + y, z * y), 0.0, x)[1] for z in (0.0, -0.0)
        ],
        "scan",
    ),
    "op": (lambda x: (chosen(x), chosen(x, jnp.tan)), "cond"),
    "operand": (lambda x: (halved(x), halved(x + 1)), "while"),
    "order of results": (
        lambda x: [
            lax.scan(lambda c, y, i=i: (c + y, (c, 2 * y)[:: 1 - 2 * i]), 0.0, x)[1]
            for i in range(2)
        ],
        "scan",
    ),
    "length": (
        lambda x: [
            lax.scan(lambda c, _: (c * 1.5, None), x, None, length=n)[0] for n in (3, 4)
        ],
        "scan",
    ),
}


def count(fun, op):
    jaxpr = simplify(curta.make_jaxpr(fun)(X).jaxpr, host())
    return sum(e.op.name == op for e in jaxpr.eqns)


@pytest.mark.parametrize("name", EQUAL)
def test_equal_ones_are_merged(name):
    fun, op = EQUAL[name]
    assert count(fun, op) == 1
    check(fun)


@pytest.mark.parametrize("name", DIFFERENT)
def test_others_are_not(name):
    fun, op = DIFFERENT[name]
    assert count(fun, op) == 2
    check(fun)


def check(fun):
    with curta.disable_jit():
        expected = fun(X)
    pairs = zip(
        curta.tree.leaves(curta.jit(fun)(X)), curta.tree.leaves(expected), strict=True
    )
    for a, b in pairs:
        np.testing.assert_allclose(a, b, rtol=1e-5)
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))


def test_effects_stay():
    def loud(x):
        def step(c, y):
            curta.debug.print("{}", y)
            return c + y, None

        return lax.scan(step, 0.0, x)[0]

    assert count(lambda x: loud(x) + loud(x), "scan") == 2


def test_constants_are_compared_by_identity():
    table = np.arange(50.0, dtype=np.float32)

    def add(table):
        return curta.make_jaxpr(lambda x: x + jnp.asarray(table))(X)

    first, second = add(table), add(table)
    assert same_jaxpr(first.jaxpr, second.jaxpr)
    merged = count(lambda x: (running(x + table), running(x + table)), "scan")
    assert merged in (1, 2)  # arrays of NumPy may be converted twice


def test_recomputed_loops_are_not_merged_with_those_before():
    def twice(x):
        return running(x), running(RecomputationBarrier()(x)[0])

    assert count(twice, "scan") == 2
