"""Reverse mode through loops whose number of steps is data."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import config, grad, jit, lax, random, vjp, vmap
from curta.core.jaxpr import jaxprs_in_params
from curta.experimental import io_callback


@pytest.fixture(params=[1, 2, 5, 64])
def rows(request):
    before = config.curta_while_checkpoints
    config.update("curta_while_checkpoints", request.param)
    yield request.param
    config.update("curta_while_checkpoints", before)


def step(i, s, x):
    return jnp.sin(s) * x + 0.1 * i


def traced(x, n):
    return lax.fori_loop(0, n, lambda i, s: step(i, s, x), x)


def static(x, n):
    return lax.scan(lambda s, i: (step(i, s, x), None), x, jnp.arange(n))[0]


@pytest.mark.parametrize("compiled", [False, True])
def test_any_number_of_steps_and_of_checkpoints(rows, compiled):
    slope = jit(grad(traced)) if compiled else grad(traced)
    for n in (0, 1, 2, 3, 7, 30):
        np.testing.assert_allclose(slope(0.7, n), grad(static)(0.7, n), rtol=1e-5)


def test_steps_beyond_the_checkpoints():
    found = jit(grad(traced))(0.7, 3000)
    np.testing.assert_allclose(found, grad(static)(0.7, 3000), rtol=1e-4)


def test_vmap_of_grad_and_grad_of_vmap():
    xs, counts = jnp.array([0.3, 0.5, 0.9]), jnp.array([0, 3, 20])
    want = [grad(static)(x, int(n)) for x, n in zip(xs, counts, strict=True)]
    np.testing.assert_allclose(vmap(grad(traced))(xs, counts), want, rtol=1e-5)
    np.testing.assert_allclose(jit(vmap(grad(traced)))(xs, counts), want, rtol=1e-5)
    total = jit(grad(lambda xs: vmap(traced)(xs, counts).sum()))
    np.testing.assert_allclose(total(xs), want, rtol=1e-5)


def test_second_derivatives():
    want = grad(grad(static))(0.7, 6)
    np.testing.assert_allclose(jit(grad(grad(traced)))(0.7, 6), want, rtol=1e-4)
    np.testing.assert_allclose(curta.hessian(traced)(0.7, 6), want, rtol=1e-4)


def test_loops_in_loops_of_matrices():
    x = jnp.array(np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32))

    def unrolled(x):
        s = x
        for i in range(3):
            t = s
            for _ in range(i + 2):
                t = jnp.tanh(t @ s) * 0.9 + x
            s = t
        return s.sum()

    def nested(x, n):
        def body(i, s):
            return lax.fori_loop(0, i + 2, lambda _, t: jnp.tanh(t @ s) * 0.9 + x, s)

        return lax.fori_loop(0, n, body, x).sum()

    want = grad(unrolled)(x)
    for slope in (grad(nested), jit(grad(nested))):
        found = slope(x, jnp.int32(3))
        np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_loop_in_a_scan():
    def total(x, loop):
        def turn(s, n):
            return loop(s * x, n), s

        last, seen = lax.scan(turn, x, jnp.array([1, 4, 2]))
        return last + seen.sum()

    def power(s, n):
        return lax.while_loop(
            lambda c: c[0] < n, lambda c: (c[0] + 1, jnp.sin(c[1])), (0, s)
        )[1]

    def masked(s, n):
        for i in range(4):
            s = jnp.where(i < n, jnp.sin(s), s)
        return s

    want = grad(lambda x: total(x, masked))(1.3)
    np.testing.assert_allclose(jit(grad(lambda x: total(x, power)))(1.3), want, 1e-5)


def test_trees_with_keys_counts_and_a_condition_on_values():
    def walk(s, limit):
        def body(carry):
            key, i, d = carry
            key, used = random.split(key)
            moved = d["a"] * s + random.normal(used, (4,))
            return key, i + 1, {"a": moved, "b": d["b"] + d["a"].sum() * s}

        start = random.key(0), 0, {"a": jnp.ones(4), "b": jnp.float32(0)}
        return lax.while_loop(lambda c: (c[1] < 5) & (c[2]["b"] < limit), body, start)[
            2
        ]["b"]

    eps = 1e-2
    want = (walk(1.1 + eps, 20.0) - walk(1.1 - eps, 20.0)) / (2 * eps)
    np.testing.assert_allclose(grad(walk)(1.1, 20.0), want, rtol=1e-2)
    np.testing.assert_allclose(jit(grad(walk))(1.1, 20.0), want, rtol=1e-2)


def test_newton_iteration():
    def root(a):
        return lax.while_loop(
            lambda c: abs(c * c - a) > 1e-5 * a, lambda c: 0.5 * (c + a / c), a
        )

    xs = jnp.array([2.0, 9.0, 100.0])
    np.testing.assert_allclose(jit(vmap(grad(root)))(xs), 0.5 / np.sqrt(xs), rtol=1e-3)


def test_pullback_runs_more_than_once():
    _, pull = vjp(lambda x: traced(x, jnp.int32(5)), 0.7)
    want = grad(static)(0.7, 5)
    for scale in (1.0, 2.0):
        np.testing.assert_allclose(pull(jnp.float32(scale))[0], scale * want, 1e-5)


def shapes_in(jaxpr):
    for eqn in jaxpr.eqns:
        yield from (v.aval.shape for v in eqn.outvars)
        for inner in jaxprs_in_params(eqn.params):
            yield from shapes_in(inner)


def test_memory_is_bounded_by_the_option(rows):
    jaxpr = curta.make_jaxpr(grad(lambda x, n: traced(x, n).sum()))(jnp.ones(7), 1000)
    leading = {s[0] for s in shapes_in(jaxpr.jaxpr) if len(s) == 2 and s[1] == 7}
    assert leading <= {1, rows + 1}


def test_the_option_is_a_positive_number():
    with pytest.raises(ValueError, match="at least 1"):
        config.update("curta_while_checkpoints", 0)


# ---- effects


def noted_loop(log, result=False):
    """A loop of n steps that notes each one; its value may need what that returns."""

    def note(i):
        log.append(int(i))
        return np.float32(0.5)

    shape = curta.ShapeDtypeStruct((), "float32") if result else None

    def fun(x, n):
        def body(carry):
            i, x = carry
            found = io_callback(note if result else log.append, shape, i, ordered=True)
            return i + 1, jnp.sin(x) * (found if result else 0.5)

        return lax.while_loop(lambda c: c[0] < n, body, (0, x))[1]

    return fun


@pytest.mark.parametrize("wrap", [lambda f: f, curta.jit])
def test_effects_happen_in_the_forward_pass_alone(wrap):
    log = []
    slope = wrap(curta.grad(noted_loop(log)))(1.0, 4)
    curta.effects_barrier()
    assert [int(i) for i in log] == [0, 1, 2, 3]
    silent = lambda x: lax.fori_loop(0, 4, lambda _, x: jnp.sin(x) * 0.5, x)  # noqa: E731
    np.testing.assert_allclose(slope, curta.grad(silent)(1.0), rtol=1e-5)
    log.clear()
    _, push = curta.linearize(lambda x: noted_loop(log)(x, 3), 1.0)
    push(1.0), push(2.0)
    curta.effects_barrier()
    assert len(log) == 3


def test_effects_whose_results_are_needed_again_are_refused():
    log = []
    fun = noted_loop(log, result=True)
    assert np.isfinite(fun(1.0, 2)) and len(log) == 2
    with pytest.raises(NotImplementedError, match="Effects not supported in the deri"):
        curta.grad(fun)(1.0, 2)
