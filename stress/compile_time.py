"""Programs of many equations: what a pass does for each of them must not grow.

python -m stress.compile_time [SIZE ...] [--family NAME] [--seconds]

Each family of programs grows with one number. Tracing, transforming and compiling them
is counted in steps (calls of functions, and comparisons and hashes of variables,
buffers and work items), pass by pass; what grows per equation is printed, and makes
the exit status 1. `--seconds` runs the programs too and prints how long that took.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import curta
import curta.numpy as jnp
from curta import lax

Program = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A function, its arguments, and the options of `jit`."""

FAMILIES: dict[str, Callable[[int], Program]] = {}
LEAF = np.ones(4, np.float32)


def family(make: Callable[[int], Program]) -> Callable[[int], Program]:
    """Add a family: a function of the number of equations, more or less."""
    FAMILIES[make.__name__] = make
    return make


@family
def reductions(n: int) -> Program:
    """Independent sums."""
    xs = [np.ones(3 + i % 7, np.float32) for i in range(n // 2)]
    return (
        lambda xs: [lax.reduce_sum_p.bind(lax.sin(x), axes=(0,)) for x in xs],
        (xs,),
        {},
    )


@family
def chain(n: int) -> Program:
    """Each op reads the result of the one before."""

    def f(x):
        for i in range(n // 2):
            x = lax.add(lax.sin(x), np.float32(i))
        return x

    return f, (LEAF[0],), {}


@family
def constants(n: int) -> Program:
    """A chain with an array of its own for each op."""
    arrays = [np.full(4, i, np.float32) for i in range(n)]

    def f(x):
        for c in arrays:
            x = lax.max(x, jnp.asarray(c))
        return x

    return f, (LEAF,), {}


@family
def terms(n: int) -> Program:
    """A sum of many terms of one operand."""

    def f(x):
        found = [lax.mul(lax.cos(x), np.float32(i)) for i in range(n // 3)]
        total = found[0]
        for y in found[1:]:
            total = lax.add(total, y)
        return total

    return f, (LEAF[0],), {}


@family
def outputs(n: int) -> Program:
    """Many results of one operand."""
    return lambda x: [lax.add(x, np.float32(i)) for i in range(n)], (LEAF[0],), {}


def _adam(n: int, donate: bool) -> Program:
    size = n // 14
    tree = [np.full(3 + i % 5, 1, np.float32) for i in range(size)]

    def step(params, m, v, grads):
        m = [0.9 * a + 0.1 * g for a, g in zip(m, grads, strict=True)]
        v = [0.99 * a + 0.01 * g * g for a, g in zip(v, grads, strict=True)]
        new = [
            p - 0.01 * a / (lax.sqrt(b) + 1e-8)
            for p, a, b in zip(params, m, v, strict=True)
        ]
        return new, m, v

    options = {"donate_argnums": (0, 1, 2)} if donate else {}
    return step, tuple([jnp.array(x) for x in tree] for _ in range(4)), options


@family
def adam(n: int) -> Program:
    """A step of an optimiser over a tree of many arrays."""
    return _adam(n, False)


@family
def donated_adam(n: int) -> Program:
    """The same, with the arrays donated."""
    return _adam(n, True)


@family
def layers(n: int) -> Program:
    """The gradient of a deep network, written out."""
    depth = n // 18
    weights = [np.eye(4, dtype=np.float32) for _ in range(depth)]

    def loss(weights, x):
        for w in weights:
            x = lax.tanh(lax.dot(x, w))
        return x.sum()

    return curta.grad(loss), (weights, np.ones((2, 4), np.float32)), {}


@family
def loop(n: int) -> Program:
    """A scan that carries a large tree."""
    tree = [np.ones(3, np.float32) for _ in range(n // 2)]

    def f(tree):
        def body(c, _):
            return [lax.mul(lax.sin(x), np.float32(0.5)) for x in c], ()

        return lax.scan(body, tree, None, length=3)[0]

    return f, (tree,), {}


@family
def large_loop(n: int) -> Program:
    """A scan over many arrays that are too large for registers."""
    tree = [np.ones((2, 80), np.float32) for _ in range(n // 4)]

    def f(tree, xs):
        def body(c, x):
            new = [lax.mul(lax.sin(a), b) for a, b in zip(c, x, strict=True)]
            return new, [lax.neg(a) for a in new]

        return lax.scan(body, tree, xs)

    return f, ([x[0] for x in tree], tree), {}


@family
def calls(n: int) -> Program:
    """Calls of jitted functions, in calls of others."""
    inner = curta.jit(lambda x, y: lax.add(lax.sin(x), y))
    outer = curta.jit(lambda x, y: inner(inner(x, y), x))

    def f(x):
        for _ in range(n // 4):
            x = outer(x, x)
        return x

    return f, (LEAF[0],), {}


@family
def dots(n: int) -> Program:
    """Products of matrices, one after the other and side by side."""

    def f(x):
        y, found = x, []
        for _ in range(n // 2):
            y = lax.dot(y, x)
            found.append(lax.neg(y))
        return found

    return f, (np.eye(4, dtype=np.float32),), {}


@family
def updates(n: int) -> Program:
    """Updates of one array, an element each."""

    def f(x):
        for i in range(n):
            x = lax.dynamic_update_slice_p.bind(x, LEAF[:1], np.int32(i % 90))
        return x

    return f, (np.zeros(100, np.float32),), {}


@family
def updates_of_others(n: int) -> Program:
    """Updates of one operand, which stays as it is."""

    def f(x):
        y = lax.sort(x)
        found = [
            lax.dynamic_update_slice_p.bind(y, LEAF[:1], np.int32(i))
            for i in range(n // 2)
        ]
        return [lax.reduce_sum_p.bind(y, axes=(0,)) for y in found]

    return f, (np.zeros(100, np.float32),), {}


@family
def branches(n: int) -> Program:
    """Conditionals, one after the other."""

    def f(x, p):
        for _ in range(n // 8):
            x = lax.cond(p, lax.sin, lambda x: lax.mul(lax.cos(x), x), x)
        return x

    return f, (np.ones(100, np.float32), True), {}


@family
def joined(n: int) -> Program:
    """Many parts of one array, put together again."""

    def f(x):
        parts = [
            lax.sin(
                lax.slice_p.bind(
                    x, start_indices=(i,), limit_indices=(i + 1,), strides=None
                )
            )
            for i in range(n // 2)
        ]
        return lax.concatenate(parts, 0)

    return f, (np.zeros(n // 2, np.float32),), {}


@family
def derivatives(n: int) -> Program:
    """Derivatives of the batched chain: forward, and backward."""
    f, (x,), _ = chain(n // 12)
    both = curta.grad(lambda x: curta.jvp(f, (x,), (x,))[1])
    return curta.vmap(both), (LEAF,), {}


@family
def rows(n: int) -> Program:
    """Softmax after softmax: reductions that fuse with what is around them."""

    def f(x):
        for _ in range(n // 8):
            y = lax.exp(x - x.max(1, keepdims=True))
            x = y / y.sum(1, keepdims=True)
        return x

    return f, (np.ones((4, 40), np.float32),), {}
