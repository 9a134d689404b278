"""Functions with batching rules of their own."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.custom_batching import custom_vmap, sequential_vmap


def product():
    """A function that adds, and multiplies when it is batched."""

    @custom_vmap
    def f(x, y=1.0):
        return x + y

    @f.def_vmap
    def rule(axis_size, in_batched, xs, ys):
        assert axis_size == 3
        rule.seen = in_batched
        return xs * ys, any(in_batched)

    return f, rule


def test_operations_are_at_the_lines_of_the_rule():
    f, rule = product()
    jaxpr = curta.make_jaxpr(curta.vmap(f))(jnp.ones(3), jnp.ones(3))
    assert all("rule)" in str(e.source_info) for e in jaxpr.eqns)


def test_the_rule_replaces_the_function():
    f, rule = product()
    xs, ys = jnp.arange(3.0), jnp.arange(1.0, 4.0)
    assert f(2.0, 3.0) == 5
    assert f(2.0) == 3
    assert curta.vmap(f)(xs, ys).tolist() == [0, 2, 6]
    assert rule.seen == [True, True]
    assert curta.vmap(f, in_axes=(0, None))(xs, 2.0).tolist() == [0, 2, 4]
    assert rule.seen == [True, False]
    assert curta.jit(curta.vmap(f))(xs, ys).tolist() == [0, 2, 6]
    assert curta.vmap(curta.jit(f))(xs, ys).tolist() == [0, 2, 6]


def test_forward_mode_differentiates_function_and_rule():
    f, _ = product()
    xs, ys = jnp.arange(3.0), jnp.arange(1.0, 4.0)
    assert curta.jvp(f, (2.0, 3.0), (1.0, 10.0)) == (5, 11)
    batched = curta.vmap(lambda x, y: curta.jvp(f, (x, y), (1.0, 10.0)))(xs, ys)
    np.testing.assert_allclose(batched[0], [0, 2, 6])
    np.testing.assert_allclose(batched[1], ys + 10 * xs)
    tangents = jnp.array([1.0, 2.0, 4.0])
    pushed = curta.vmap(lambda t: curta.jvp(f, (5.0, 7.0), (t, 0.0)))(tangents)
    np.testing.assert_allclose(pushed[1], 7 * tangents)


def test_reverse_mode_is_refused():
    f, _ = product()
    with pytest.raises(ValueError, match="Linearization failed to produce"):
        curta.grad(f)(1.0, 2.0)


def test_reverse_mode_through_custom_vjp():
    inner, _ = product()
    f = curta.custom_vjp(inner)
    f.defvjp(lambda x, y: (inner(x, y), None), lambda _, ct: (7 * ct, ct))
    assert curta.grad(f)(1.0, 2.0) == 7
    assert curta.vmap(f)(jnp.arange(3.0), jnp.ones(3)).tolist() == [0, 1, 2]


def test_trees():
    @custom_vmap
    def f(x):
        return {"sum": x["a"] + x["b"]}

    @f.def_vmap
    def rule(axis_size, in_batched, x):
        assert in_batched == [{"a": True, "b": False}]
        return {"sum": x["a"] - x["b"]}, {"sum": True}

    out = curta.vmap(f, in_axes=({"a": 1, "b": None},))(
        {"a": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(2)}
    )
    assert out["sum"].tolist() == [[-1, 2], [0, 3], [1, 4]]


@pytest.mark.parametrize(
    ("out", "flags", "message"),
    [
        (lambda x: (x, x), (True, True), "does not match that of original"),
        (lambda x: x, (True, True), "output batching specification"),
    ],
)
def test_rules_with_wrong_trees(out, flags, message):
    f = custom_vmap(lambda x: x)
    f.def_vmap(lambda size, batched, x: (out(x), flags))
    with pytest.raises(ValueError, match=message):
        curta.vmap(f)(jnp.ones(2))


def test_no_rule():
    with pytest.raises(AttributeError, match="No batching rule defined for custom_v"):
        custom_vmap(lambda x: x)(1.0)


def test_sequential():
    f = sequential_vmap(lambda x, y: (x + y, y))
    sums, ys = curta.vmap(f, in_axes=(0, None))(jnp.arange(3), 10)
    assert sums.tolist() == [10, 11, 12] and ys.tolist() == [10, 10, 10]
    assert "scan" in str(curta.make_jaxpr(curta.vmap(f))(jnp.ones(2), jnp.ones(2)))


@pytest.mark.parametrize("staged", [False, True])
def test_custom_derivatives_may_close_over_the_batch(staged):
    def scaled(y):
        f = curta.custom_jvp(lambda x: x * y)
        f.defjvp(lambda primals, tangents: (f(*primals), 10.0 * tangents[0] * y))
        return curta.jit(f) if staged else f

    ys = jnp.arange(3.0)
    assert curta.vmap(lambda y: scaled(y)(2.0))(ys).tolist() == [0, 2, 4]
    assert curta.vmap(lambda y, x: scaled(y)(x))(ys, ys).tolist() == [0, 1, 4]
    if not staged:
        gradients = curta.vmap(lambda y: curta.grad(scaled(y))(2.0))(ys)
        assert gradients.tolist() == [0, 10, 20]


def test_what_is_not_batched_stays_so():
    unbatched = curta.vmap(lambda x: curta.nn.relu(2.0), out_axes=None)
    assert unbatched(jnp.arange(3.0)) == 2


def test_custom_vjp_may_close_over_the_batch():
    def scaled(x):
        f = curta.custom_vjp(lambda y: x * y)
        f.defvjp(lambda y: (f(y), (x, y)), lambda res, ct: (10 * ct * res[0],))
        return f

    xs = jnp.arange(3.0)
    assert curta.vmap(lambda x: scaled(x)(3.0))(xs).tolist() == [0, 3, 6]
    gradients = curta.vmap(lambda x: curta.grad(scaled(x))(3.0))(xs)
    assert gradients.tolist() == [0, 10, 20]


def test_custom_vjp_of_what_is_not_batched():
    f = curta.custom_vjp(lambda w: 3 * w)
    f.defvjp(lambda w: (3 * w, None), lambda _, ct: (3 * ct,))

    def total(w):
        return curta.vmap(lambda x: x + f(w))(jnp.arange(3.0)).sum()

    assert curta.grad(total)(2.0) == 9
    assert curta.jit(curta.grad(total))(2.0) == 9
    assert curta.vmap(lambda x: f(2.0), out_axes=None)(jnp.arange(3.0)) == 6
