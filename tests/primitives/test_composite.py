"""`lax.composite`, `lax.dce_sink` and `lax.empty`."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.errors import UnexpectedTracerError


def scaled(x, *, by):
    return x * by


def test_composite_means_its_decomposition():
    twice = lax.composite(scaled, "my.scaled", version=3)
    np.testing.assert_array_equal(twice(np.ones(2, np.float32), by=2), [2, 2])
    jaxpr = str(curta.make_jaxpr(lambda x: twice(x, by=2))(np.ones(2, np.float32)))
    for words in "name=my.scaled", "version=3", "('by', (2,), PyTreeDef(*))":
        assert words in jaxpr
    compiled = curta.jit(lambda x: twice(x, by=np.arange(2)) + 1)
    np.testing.assert_array_equal(compiled(np.ones(2, np.float32)), [1, 2])
    np.testing.assert_array_equal(
        curta.vmap(lambda x: twice(x, by=2))(np.arange(3)), [0, 2, 4]
    )


def test_composite_takes_and_gives_pytrees():
    swapped = lax.composite(lambda p: (p["b"], {"a": p["a"]}), "my.swap")
    first, second = swapped({"a": jnp.ones(2), "b": jnp.zeros(3)})
    assert first.shape == (3,) and second["a"].shape == (2,)


def test_composite_has_no_derivative():
    twice = lax.composite(scaled, "my.scaled")
    with pytest.raises(ValueError, match="JVP rule for composite not implemented"):
        curta.grad(lambda x: twice(x, by=2.0))(1.0)


def test_composite_refuses_tracers():
    with pytest.raises(UnexpectedTracerError, match="as an attribute in"):
        curta.jit(lambda x, b: lax.composite(scaled, "my.scaled")(x, by=b))(1.0, 2.0)
    with pytest.raises(UnexpectedTracerError, match="as a constant in"):
        curta.jit(lambda x, b: lax.composite(lambda x: x * b, "my.b")(x))(1.0, 2.0)


def test_sink_keeps_what_it_is_given():
    def f(x):
        lax.dce_sink({"y": jnp.sin(x)})
        return x

    closed = curta.make_jaxpr(f)(1.0)
    assert [e.primitive.name for e in closed.eqns] == ["sin", "dce_sink"]
    assert curta.jit(f)(1.0) == 1.0
    assert curta.grad(f)(1.0) == 1.0
    np.testing.assert_array_equal(curta.vmap(f)(np.arange(3.0)), [0, 1, 2])


def test_empty():
    assert lax.empty((2, 3), np.float32).shape == (2, 3)
    assert lax.empty((), np.int32).dtype == np.int32
    out = curta.vmap(lambda x: lax.empty(x.shape, x.dtype))(np.ones((2, 3)))
    assert out.shape == (2, 3)


def test_tokens():
    token = lax.after_all(lax.create_token(), lax.create_token(1))
    assert str(token.dtype) == "Tok"
    assert curta.jit(lax.create_token)(1.0).dtype == token.dtype
    arr, out = curta.jit(lambda x, t: (x, t))(jnp.ones(2), token)
    assert out.dtype == token.dtype
    with pytest.raises(TypeError, match="Arguments to after_all must be tokens"):
        lax.after_all(1.0)


def test_stage_records_nothing():
    for one in (1.5, np.float32(1.5), np.ones(2, np.float32)):
        found = lax.stage_p.bind(one)
        assert isinstance(found, curta.Array)
        assert found.weak_type is (type(one) is float)
    x = jnp.ones(2)
    assert lax.stage_p.bind(x) is x
    jaxpr = curta.make_jaxpr(lambda x: lax.stage_p.bind(x) + lax.stage(2.0))(1.0)
    assert [e.primitive.name for e in jaxpr.eqns] == ["add"]
