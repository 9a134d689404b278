"""Functions with derivative rules of their own, under every transformation."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import custom_jvp, custom_vjp, grad, jit, vmap


@custom_jvp
def tripled(x):
    """sin, whose derivative is claimed to be 3."""
    return jnp.sin(x)


@tripled.defjvp
def tripled_jvp(primals, tangents):
    (x,), (t,) = primals, tangents
    return tripled(x), 3.0 * t


@custom_vjp
def scaled(x, y):
    """x * y, whose gradients are claimed to be 10 and 20."""
    return x * y


scaled.defvjp(
    lambda x, y: (scaled(x, y), (x, y)), lambda res, ct: (10.0 * ct, 20.0 * ct)
)

WRAPPERS = {
    "eager": lambda f: f,
    "jit": jit,
    "checkpoint": curta.checkpoint,
    "jit of checkpoint": lambda f: jit(curta.checkpoint(f)),
}


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_custom_jvp(wrap):
    f = wrap(tripled)
    np.testing.assert_allclose(f(1.0), np.sin(1.0), rtol=1e-6)
    assert grad(f)(1.0) == 3.0
    assert curta.jvp(f, (1.0,), (2.0,))[1] == 6.0
    np.testing.assert_allclose(vmap(grad(f))(jnp.ones(2)), [3, 3])
    np.testing.assert_allclose(grad(lambda x: vmap(f)(x).sum())(jnp.ones(2)), [3, 3])
    assert grad(grad(f))(1.0) == 0.0


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_custom_vjp(wrap):
    f = wrap(scaled)
    assert f(2.0, 3.0) == 6.0
    assert grad(f, argnums=(0, 1))(2.0, 3.0) == (10.0, 20.0)
    np.testing.assert_allclose(vmap(grad(f))(jnp.ones(2), jnp.ones(2)), [10, 10])
    summed = grad(lambda x, y: vmap(f, (0, None))(x, y).sum(), argnums=(0, 1))
    dx, dy = summed(jnp.ones(3), 2.0)
    np.testing.assert_allclose(dx, [10, 10, 10])
    assert dy == 60.0


def test_custom_vjp_refuses_forward_mode():
    with pytest.raises(TypeError, match="can't apply forward-mode autodiff"):
        curta.jvp(scaled, (1.0, 2.0), (1.0, 1.0))


def test_python_control_flow_inside():
    @custom_jvp
    def f(x):
        return x if x > 0 else -x

    f.defjvps(lambda t, out, x: t * 5.0)
    assert f(-2.0) == 2.0
    assert grad(f)(-2.0) == 5.0


def test_nondiff_argnums():
    @curta.custom_jvp
    def plain(fun, x):
        return fun(x)

    plain = custom_jvp(plain.fun, nondiff_argnums=(0,))
    plain.defjvp(lambda fun, p, t: (fun(p[0]), 7.0 * t[0]))
    assert grad(plain, argnums=1)(jnp.sin, 1.0) == 7.0

    def body(n, x):
        return x * n

    power = custom_vjp(body, nondiff_argnums=(0,))
    power.defvjp(lambda n, x: (x * n, None), lambda n, res, ct: (ct * n * 100,))
    assert grad(power, argnums=1)(3, 2.0) == 300.0


def test_trees_and_none_cotangents():
    @custom_vjp
    def f(params, flag):
        return {"out": params["a"] * params["b"]}

    f.defvjp(
        lambda p, flag: (f(p, flag), p),
        lambda p, ct: ({"a": ct["out"] * p["b"], "b": None}, None),
    )
    found = grad(lambda p: f(p, 3)["out"])({"a": 2.0, "b": 5.0})
    assert found == {"a": 5.0, "b": 0.0}


def test_symbolic_zeros():
    seen = []

    @custom_jvp
    def f(x, y):
        return x * y

    def rule(primals, tangents):
        seen.append([type(t).__name__ for t in tangents])
        x, y = primals
        return f(x, y), tangents[0] * y

    f.defjvp(rule, symbolic_zeros=True)
    assert grad(f)(2.0, 3.0) == 3.0
    assert seen == [["JitTracer", "SymbolicZero"]]


def test_keyword_arguments_and_methods():
    @custom_jvp
    def f(x, y=2.0):
        return x * y

    f.defjvp(lambda p, t: (f(*p), t[0]))
    assert f(3.0, y=4.0) == 12.0
    assert grad(f)(3.0) == 1.0

    class Layer:
        @custom_jvp
        def call(self, x):
            return x

    assert Layer.call.fun.__name__ == "call"


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda p, t: p[0], "must produce a pair"),
        (lambda p, t: (p[0], (t[0], t[0])), "equal container"),
        (lambda p, t: (p[0], jnp.zeros(3)), "corresponding shapes and dtypes"),
        (lambda p, t: ([p[0]], [t[0]]), "the first element represents the primal"),
    ],
)
def test_bad_jvp_rules(rule, message):
    f = custom_jvp(lambda x: x * 1.0)
    f.defjvp(rule)
    f(1.0)
    with pytest.raises(TypeError, match=message):
        grad(jit(f))(1.0)


@pytest.mark.parametrize(
    ("fwd", "bwd", "error", "message"),
    [
        (lambda x: x, lambda r, g: (g,), TypeError, "fwd rule .* must produce a pair"),
        (lambda x: (x, None), lambda r, g: g, TypeError, "same container"),
        (lambda x: (x, None), lambda r, g: (g, g), TypeError, "same container"),
        (
            lambda x: (x, None),
            lambda r, g: (jnp.ones(2),),
            ValueError,
            "same type as the args tuple",
        ),
    ],
)
def test_bad_vjp_rules(fwd, bwd, error, message):
    f = custom_vjp(lambda x: x * 1.0)
    f.defvjp(fwd, bwd)
    with pytest.raises(error, match=message):
        grad(f)(1.0)


def test_missing_rules():
    with pytest.raises(AttributeError, match="No JVP defined for custom_jvp function"):
        custom_jvp(lambda x: x)(1.0)
    with pytest.raises(AttributeError, match="No VJP defined for custom_vjp function"):
        custom_vjp(lambda x: x)(1.0)
