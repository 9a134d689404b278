"""Random programs, transformed in random order: compiled, they do as in NumPy.

A program is a list of instructions over a stack of values whose shapes broadcast with
one another; Hypothesis makes the lists and, when one fails, shortens it. Every
transformation takes a function of (x, y) to a scalar to another one, so that they
compose in any order.
"""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import curta
import curta.numpy as jnp
from curta import lax
from curta.config import backend, enable_x64

ROWS, COLUMNS = 3, 4
X = np.random.default_rng(0).uniform(-1, 1, (ROWS, COLUMNS))
Y = np.random.default_rng(1).uniform(-1, 1, COLUMNS)


def full(v):
    return jnp.broadcast_to(v, (ROWS, COLUMNS))


# Instructions on two values of shapes (ROWS, COLUMNS), (COLUMNS,), (ROWS, 1) or ().
# Values stay small, and the results smooth functions of x and y.
SMOOTH = {
    "add": lambda a, b: (a + b) / 2,
    "sub": lambda a, b: (a - b) / 2,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / (2 + jnp.cos(b)),
    "power": lambda a, b: (1.5 + jnp.sin(a)) ** jnp.tanh(b),
    "cube": lambda a, b: jnp.tanh(a) ** 3,
    "sin": lambda a, b: jnp.sin(3 * a),
    "tanh": lambda a, b: jnp.tanh(a),
    "exp": lambda a, b: jnp.exp(-(a**2)),
    "log": lambda a, b: jnp.log1p(a**2),
    "sqrt": lambda a, b: jnp.sqrt(1 + b**2),
    "logistic": lambda a, b: lax.logistic(a),
    "erf": lambda a, b: lax.erf(a),
    "atan2": lambda a, b: lax.atan2(full(a), 2 + full(b) ** 2),
    "sum rows": lambda a, b: full(a).sum(0) / ROWS,
    "mean columns": lambda a, b: full(a).mean(1, keepdims=True),
    "sum": lambda a, b: jnp.tanh(full(a).sum()),
    "product": lambda a, b: full(jnp.tanh(a)).prod(1, keepdims=True),
    "logsumexp": lambda a, b: jnp.log(jnp.exp(full(a)).sum(1, keepdims=True)) / 2,
    "softmax": lambda a, b: curta.nn.softmax(full(a), axis=-1),
    "matmul": lambda a, b: full(a) @ full(b).T @ full(a) / 9,
    "einsum": lambda a, b: jnp.einsum("ij,kj->ik", full(a), full(b)).mean(0).sum() / 9,
    "transpose": lambda a, b: full(a).T.reshape(ROWS, COLUMNS),
    "reverse": lambda a, b: full(a)[::-1, 1:].sum(1, keepdims=True) / 3,
    "concatenate": lambda a, b: jnp.concatenate([full(a)[:1], full(b)[1:]]),
    "pad": lambda a, b: jnp.pad(full(a)[1:, :-1], ((1, 0), (0, 1))),
    "cumsum": lambda a, b: jnp.cumsum(full(a), 1) / COLUMNS,
    "gather": lambda a, b: full(a)[jnp.array([2, 0, 2])],
    "write all": lambda a, b: full(a).at[:, :].set(jnp.sin(full(b))),
    "write as slice": lambda a, b: lax.dynamic_update_slice(full(a), full(b), (1, 2)),
    "update": lambda a, b: full(a).at[1].set(full(b)[0]),
    "accumulate": lambda a, b: full(a).at[jnp.array([0, 0])].add(full(b)[:2]) / 2,
    "slice": lambda a, b: lax.dynamic_slice(full(a), (1, 0), (1, COLUMNS))[0],
    "where": lambda a, b: jnp.where(jnp.arange(COLUMNS) % 2 == 0, a, b),
    "scan": lambda a, b: lax.scan(
        lambda c, r: (jnp.sin(c + r), c * r), full(b)[0], full(a)
    )[1],
    "loop": lambda a, b: lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c + a), full(b)),
    "map": lambda a, b: lax.map(lambda r: r * r.sum(), full(a)) / COLUMNS,
    "cond": lambda a, b: lax.cond(
        full(X).sum() > 0, lambda a, b: jnp.sin(a), lambda a, b: a * b, full(a), full(b)
    ),
    "write": lambda a, b: lax.dynamic_update_slice(full(a), full(b)[:1], (1, 0)),
    "inner grad": lambda a, b: curta.grad(lambda v: jnp.sin(v * b).sum())(a),
    "inner vmap": lambda a, b: curta.vmap(lambda r: r * r.sum())(full(a)) / COLUMNS,
    "inner jvp": lambda a, b: curta.jvp(jnp.tanh, (full(a),), (full(b),))[1],
    "custom": lambda a, b: jnp.logaddexp(a, b),
    "window": lambda a, b: lax.cumlogsumexp(full(a), axis=1) / 2,
    "back and forth": lambda a, b: lax.scan(
        lambda c, r: (c * jnp.cos(r), c.sum()), full(b)[0], full(a), reverse=True
    )[0],
    "nested scan": lambda a, b: lax.scan(
        lambda c, r: (lax.fori_loop(0, 2, lambda i, v: jnp.sin(v + r), c), c),
        full(a)[1],
        full(b),
    )[0],
    "remat": lambda a, b: curta.checkpoint(lambda v: jnp.sin(jnp.tanh(v)))(a),
    "jit": lambda a, b: curta.jit(lambda u, v: u * jnp.cos(v))(a, b),
}
KINKED = {
    "abs": lambda a, b: jnp.abs(a),
    "maximum": lambda a, b: jnp.maximum(a, b),
    "clip": lambda a, b: jnp.clip(a, -0.5, 0.5),
    "relu": lambda a, b: curta.nn.relu(a),
    "floor": lambda a, b: a + jnp.floor(4 * b) / 4,
    "sort": lambda a, b: jnp.sort(full(a), axis=1),
    "max columns": lambda a, b: full(a).max(1, keepdims=True),
    "argmax": lambda a, b: full(b)[jnp.argmax(full(a)[:, 0])],
    "cummax": lambda a, b: lax.cummax(full(a), axis=1),
    "top": lambda a, b: lax.top_k(full(a), 2)[0].sum(1, keepdims=True) / 2,
    "order": lambda a, b: full(b)[0][jnp.argsort(full(a)[0])],
    "switch": lambda a, b: lax.switch(
        (4 * full(b)[0, 0]).astype(int) % 3, [jnp.sin, jnp.tanh, jnp.abs], a
    ),
    "branch": lambda a, b: lax.cond(full(b).sum() > 0, jnp.sin, jnp.tanh, a),
}
ALL = SMOOTH | KINKED


def sum_of_gradients(f):
    def g(x, y):
        gx, gy = curta.grad(f, (0, 1))(x, y)
        return jnp.sin(gx).sum() / 12 + jnp.sin(gy).sum() / 4

    return g


TRANSFORMATIONS = {
    "jit": curta.jit,
    "grad": sum_of_gradients,
    "jvp": lambda f: lambda x, y: curta.jvp(f, (x, y), (jnp.cos(x), jnp.sin(y)))[1],
    "linearize": lambda f: lambda x, y: curta.linearize(f, x, y)[1](x, 2 * y),
    "vmap": lambda f: (
        lambda x, y: curta.vmap(f, (0, None))(jnp.stack([x, -x]), y).mean()
    ),
    "vmap inside": lambda f: (
        lambda x, y: curta.vmap(f, (2, 1))(
            jnp.stack([x, x / 2], 2), jnp.stack([y, -y], 1)
        ).sum()
    ),
    "checkpoint": curta.checkpoint,
}


def program(code, instructions):
    """The function that `code` describes."""

    def run(x, y):
        values = [x, y]
        for name, i, j in code:
            a, b = values[i % len(values)], values[j % len(values)]
            values.append(instructions[name](a, b))
        return sum(jnp.sin(full(v)).mean() for v in values[-3:])

    return run


def programs(instructions):
    place = st.integers(0, 9)
    step = st.tuples(st.sampled_from(sorted(instructions)), place, place)
    return st.lists(step, min_size=1, max_size=6)


def transformed(code, names):
    fun = program(code, ALL)
    for name in names:
        fun = TRANSFORMATIONS[name](fun)
    return fun


@settings(max_examples=60, deadline=None, derandomize=True)
@given(programs(ALL), st.lists(st.sampled_from(sorted(TRANSFORMATIONS)), max_size=3))
def test_compiled_programs_do_as_in_numpy(code, names):
    with enable_x64(True):
        with backend("numpy"):
            wanted = transformed(code, names)(X, Y)
        got = curta.jit(transformed(code, names))(X, Y)
    assert np.isfinite(wanted)
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(programs(SMOOTH))
def test_derivatives_are_limits_of_differences(code):
    fun = program(code, SMOOTH)
    dx, dy = np.cos(5 * X), np.sin(5 * Y)
    step = 1e-6
    with enable_x64(True):
        compiled = curta.jit(fun)
        ahead = compiled(X + step * dx, Y + step * dy)
        behind = compiled(X - step * dx, Y - step * dy)
        slope = (float(ahead) - float(behind)) / (2 * step)
        _, forward = curta.jvp(fun, (X, Y), (dx, dy))
        gx, gy = curta.grad(fun, (0, 1))(X, Y)
        backward = np.vdot(gx, dx) + np.vdot(gy, dy)
    np.testing.assert_allclose(forward, slope, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(backward, forward, rtol=1e-9, atol=1e-10)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(programs(ALL), st.sampled_from([(0, None), (1, 0), (2, 1), (None, 0)]))
def test_batches_do_as_a_loop(code, dims):
    fun = program(code, ALL)
    batches = [
        v if d is None else np.stack([v, -v, v / 3], d)
        for v, d in zip((X, Y), dims, strict=True)
    ]
    with enable_x64(True):
        got = curta.vmap(fun, dims)(*batches)
        each = [
            fun(*[v if d is None else np.take(v, k, d) for v, d in zip(batches, dims)])
            for k in range(3)
        ]
    np.testing.assert_allclose(got, each, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", sorted(ALL))
def test_each_instruction_through_all_transformations(name):
    code = [(name, 0, 1), (name, 1, 0)]
    with enable_x64(True):
        for names in (
            ["grad"],
            ["vmap inside", "grad"],
            ["grad", "vmap"],
            ["jvp", "grad"],
        ):
            with backend("numpy"):
                wanted = transformed(code, names)(X, Y)
            got = curta.jit(transformed(code, names))(X, Y)
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)
