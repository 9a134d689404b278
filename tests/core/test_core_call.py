"""Calls of functions that are bound by hand, through every transformation."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import api_util
from curta.extend import linear_util
from curta.extend.core.primitives import call_p, closed_call_p


def called(primitive, fun):
    def call(*args):
        leaves, in_tree = curta.tree.flatten(args)
        info = api_util.debug_info("test", fun, args, {})
        flat, out_tree = api_util.flatten_fun_nokwargs(
            linear_util.wrap_init(fun, debug_info=info), in_tree
        )
        outs = primitive.bind(*leaves, subfuns=(flat,))
        return curta.tree.unflatten(out_tree(), outs)

    return call


@pytest.mark.parametrize("primitive", [call_p, closed_call_p], ids=str)
def test_transformations_see_through_a_call(primitive):
    w = jnp.arange(3.0)
    f = called(primitive, lambda x: {"y": jnp.sin(x["x"]) * w})
    x = {"x": jnp.array([0.1, 0.2, 0.3])}
    want = np.sin(x["x"]) * np.arange(3.0)
    np.testing.assert_allclose(f(x)["y"], want, rtol=1e-6)
    np.testing.assert_allclose(curta.jit(f)(x)["y"], want, rtol=1e-6)
    gradient = curta.grad(lambda x: f(x)["y"].sum())(x)["x"]
    np.testing.assert_allclose(gradient, np.cos(x["x"]) * np.arange(3.0), rtol=1e-6)
    batched = curta.vmap(f)({"x": jnp.stack([x["x"], 2 * x["x"]])})["y"]
    np.testing.assert_allclose(batched[0], want, rtol=1e-6)


def test_the_call_is_one_eqn():
    jaxpr = curta.make_jaxpr(called(call_p, lambda x: x + 1))(1.0)
    (eqn,) = jaxpr.eqns
    assert eqn.primitive is not call_p and eqn.primitive.name == "core_call"
    assert eqn.primitive.bind(2.0, **eqn.params)[0] == 3


def test_eqns_bind_again_with_their_params():
    def f(x):
        y = curta.jit(jnp.sin)(x).reshape(1, 3)
        return curta.lax.scan(lambda c, a: (c + a.sum(), a), 0.0, y @ y.T * jnp.exp(y))

    closed = curta.make_jaxpr(f)(jnp.arange(3.0))
    env = dict(zip(closed.jaxpr.invars, [jnp.arange(3.0)]))
    env.update(zip(closed.jaxpr.constvars, closed.consts))
    for eqn in closed.eqns:
        args = [v.val if hasattr(v, "val") else env[v] for v in eqn.invars]
        params = eqn.primitive.get_bind_params(eqn.params)
        out = eqn.primitive.bind(*args, **params)
        env.update(zip(eqn.outvars, out if eqn.primitive.multiple_results else [out]))
    for v, want in zip(closed.jaxpr.outvars, f(jnp.arange(3.0))):
        np.testing.assert_allclose(env[v], want, rtol=1e-6)


@curta.custom_jvp
def doubled(x):
    return 2 * x


@curta.custom_vjp
def tripled(x):
    return 3 * x


doubled.defjvp(lambda primals, tangents: (doubled(*primals), 20 * tangents[0]))
tripled.defvjp(lambda x: (tripled(x), None), lambda _, ct: (30 * ct,))


@pytest.mark.parametrize("f, factor", [(doubled, 2), (tripled, 3)])
def test_functions_with_own_derivatives_bind_again_as_functions(f, factor):
    (eqn,) = curta.make_jaxpr(lambda x: f(x))(1.0).eqns
    params = eqn.primitive.get_bind_params(eqn.params)
    assert params["subfuns"][0].call_wrapped(5.0) == [factor * 5]
    if f is doubled:
        assert params["subfuns"][1].call_wrapped(5.0, 1.0) == [10, 20]

    def again(x):
        return eqn.primitive.bind(x, **params)[0]

    assert again(5.0) == curta.jit(again)(5.0) == factor * 5
    assert curta.grad(again)(5.0) == 10 * factor
    with pytest.raises(TypeError, match="takes the subfuns of get_bind_params"):
        eqn.primitive.bind(5.0, subfuns=(f,))


def test_a_primitive_refuses_params_it_does_not_have():
    with pytest.raises(TypeError, match="sin has no parameters"):
        curta.lax.sin_p.bind(1.0, speed=3)
