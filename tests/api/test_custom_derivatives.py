"""Functions with derivative rules of their own, under every transformation."""

import functools
import re

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import custom_jvp, custom_vjp, grad, jit, lax, vmap


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


# ---- zeros and types of rules


def test_zero_from_primal():
    zeros = curta.custom_derivatives.zero_from_primal({"x": 2.0, "n": 3})
    assert zeros["x"] == 0.0 and zeros["n"].dtype == curta.float0
    shown = curta.custom_derivatives.zero_from_primal(jnp.ones(3), symbolic_zeros=True)
    assert isinstance(shown, curta.custom_derivatives.SymbolicZero)
    assert shown.shape == (3,)


def test_outputs_of_a_rule_have_the_types_of_the_functions():
    @curta.custom_vjp
    def f(x):
        return x

    f.defvjp(lambda x: (jnp.zeros((3, *x.shape)), None), lambda _, ct: (ct,))
    message = (
        "element had shapes/dtypes of:\n    float32[3]\nwhile the custom_vjp-decorated"
        " function f had output shapes/dtypes of:\n    float32[]"
    )
    with pytest.raises(TypeError, match=re.escape(message)):
        curta.grad(curta.jit(f))(1.0)

    @curta.custom_jvp
    def g(x):
        return x

    g.defjvp(lambda primals, tangents: (jnp.ones(2), jnp.ones(2)))
    with pytest.raises(TypeError, match="custom_jvp-decorated function g had output"):
        curta.jvp(curta.jit(g), (1.0,), (1.0,))


def test_symbolic_zeros_of_another_type():
    @curta.custom_vjp
    def f(x, y):
        return x, y

    f.defvjp(
        lambda x, y: (f(x.value, y.value), None),
        lambda _, cts: cts[::-1],
        symbolic_zeros=True,
    )
    with pytest.raises(ValueError, match="Consider just returning a None here"):
        curta.grad(lambda x: f(x, jnp.ones(2))[0].sum())(jnp.ones(3))


@pytest.mark.parametrize("wrap", [lambda f: f, curta.jit])
def test_backward_rules_of_a_batch_see_symbolic_zeros(wrap):
    @curta.custom_vjp
    def f(x, y):
        return x, y

    def bwd(_, cts):
        assert isinstance(cts[1], curta.custom_derivatives.SymbolicZero)
        assert cts[1].shape == (2,)
        return 3.0 * cts[0], cts[1]

    f.defvjp(lambda x, y: (f(x.value, y.value), None), bwd, symbolic_zeros=True)
    y = jnp.ones((3, 2))
    grads = curta.grad(lambda x: curta.vmap(wrap(f))(x, y)[0].sum())(jnp.ones(3))
    assert grads.tolist() == [3.0] * 3


def test_static_arguments_of_partial_functions():
    fun = functools.partial(lambda x, y, a: x + y * a, a=0.5)
    f = curta.custom_jvp(fun)
    f.defjvp(lambda primals, tangents: curta.jvp(fun, primals, tangents))
    assert curta.grad(lambda xy: f(*xy))((1.0, 2.0)) == (1.0, 0.5)


def test_what_is_not_differentiated_may_be_batched():
    @functools.partial(curta.custom_jvp, nondiff_argnums=(0,))
    def f(x, y):
        return x * y

    f.defjvp(lambda x, primals, tangents: (f(x, *primals), 5 * tangents[0]))
    out, dot = curta.jvp(
        lambda y: curta.vmap(f)(jnp.array([2.0]), y),
        (jnp.array([3.0]),),
        (jnp.ones(1),),
    )
    assert out.tolist() == [6.0] and dot.tolist() == [5.0]


def test_outputs_that_no_example_changes_are_not_batched():
    @curta.custom_jvp
    def f(x):
        return lax.psum(x, "i")

    f.defjvp(lambda xs, ts: (f(*xs), lax.psum(*ts, "i")))
    out = curta.vmap(
        lambda _, x: curta.jit(f)(x), in_axes=(0, None), out_axes=None, axis_name="i"
    )(jnp.arange(4.0), 2.0)
    assert out == 8.0


def test_tangents_of_integers_leave_jitted_functions():
    pull = curta.jit(lambda n: curta.vjp(lambda n: n * 2.0, n)[1](1.0))
    (ct,) = pull(3)
    assert ct.dtype == curta.float0 and ct.shape == ()


def test_cotangents_of_integers_may_be_anything_of_their_shape():
    _, pull = curta.vjp(lambda x: (2.0 * x, jnp.arange(2)), 1.0)
    for ct in (np.zeros(2, int), np.zeros(2, curta.float0), jnp.ones(2)):
        assert pull((1.0, ct)) == (2.0,)
    with pytest.raises(ValueError, match=r"got int32\[3\], but expected float0\[2\]"):
        pull((1.0, np.zeros(3, np.int32)))


class TestCotangentsOfAnotherDtype:
    @staticmethod
    def widening(dtype):
        fun = curta.custom_vjp(lambda x: x.astype("float32"))
        fun.defvjp(lambda x: (fun(x), x), lambda x, ct: (x.astype(dtype),))
        return lambda x: fun(x).sum()

    def test_they_are_handed_on(self):
        x = jnp.arange(3, dtype="bfloat16")
        for fun in self.widening("float32"), curta.jit(self.widening("float32")):
            ct = curta.grad(fun)(x)
            assert ct.dtype == jnp.float32
            np.testing.assert_array_equal(ct, [0, 1, 2])

    def test_they_do_not_mix(self):
        with pytest.raises(TypeError, match="lax.mul requires arguments to have the"):
            curta.grad(lambda x: self.widening("float32")(2 * x))(
                jnp.ones(2, "float16")
            )

    def test_loops_and_branches_refuse_them(self):
        fun = self.widening("float32")

        def loop(x):
            def step(c, _):
                return jnp.zeros(2, c.dtype), fun(c)

            return curta.lax.scan(step, x, None, length=2)[1].sum()

        def branch(x):
            return curta.lax.cond(x.sum() > 0, fun, lambda x: jnp.float32(0), x)

        for taken in loop, branch:
            with pytest.raises(TypeError, match="must have equal types"):
                curta.grad(taken)(jnp.ones(2, "bfloat16"))


def test_checks_of_backward_rules_can_be_switched_off():
    @curta.custom_vjp
    def fun(x):
        return x.sum()

    fun.defvjp(lambda x: (x.sum(), None), lambda _, ct: (ct,))
    with pytest.raises(ValueError, match="must produce an output with the same type"):
        curta.grad(fun)(jnp.ones(3))
    with curta._settings.options.find_option("jax_disable_bwd_checks")(True):
        assert curta.grad(fun)(jnp.ones(3)) == 1.0


def test_residuals_may_depend_on_what_is_perturbed():
    """Each use of the backward rule goes with the residuals of its own forward one."""

    @curta.custom_vjp
    def product(x, y):
        return x * y

    def fwd(x, y):
        saved = x.value if y.perturbed else None, y.value if x.perturbed else None
        return x.value * y.value, saved

    def bwd(saved, ct):
        x, y = saved
        return (None if y is None else ct * y), (None if x is None else ct * x)

    product.defvjp(fwd, bwd, symbolic_zeros=True)
    still = curta.lax.stop_gradient

    def total(x, y, mapped):
        return (2 * mapped(x, still(y)) + mapped(still(x), y)).sum()

    x = jnp.arange(3.0)
    for wrap in (lambda f: f, curta.jit, curta.checkpoint):
        mapped = wrap(curta.vmap(wrap(product), (0, None)))
        both = curta.grad(functools.partial(total, mapped=mapped), (0, 1))
        for run in (both, curta.jit(both)):
            in_x, in_y = run(x, 5.0)
            assert in_x.tolist() == [10, 10, 10] and in_y == 3
            in_x, in_y = curta.vmap(run, (None, 0))(x, jnp.array([1.0, 2.0]))
            assert in_x.tolist() == [[2, 2, 2], [4, 4, 4]] and in_y.tolist() == [3, 3]


@pytest.mark.parametrize("make", [lambda: 3, lambda: jnp.asarray(3), lambda: 2.5])
def test_rules_see_numbers_with_a_shape_and_a_dtype(make):
    seen = []

    @curta.custom_vjp
    def f(x, n):
        return x * n

    def fwd(x, n):
        seen.append((n.shape, n.ndim, n.dtype.name, curta.typeof(n).weak_type))
        return x * n, n

    f.defvjp(fwd, lambda n, ct: (ct * n, None))

    @curta.custom_jvp
    def g(x, n):
        return x * n

    @g.defjvp
    def _(primals, tangents):
        (x, n), (t, _) = primals, tangents
        seen.append((n.shape, n.ndim, n.dtype.name, curta.typeof(n).weak_type))
        return g(x, n), t * n

    number = make()
    kind = "float32" if isinstance(number, float) else "int32"
    for rule in (f, g):
        for inner in (lambda h: h, curta.jit):
            given = inner(lambda x, rule=rule: rule(x, make()))
            assert curta.grad(given)(2.0) == float(number)
            assert curta.jit(curta.grad(given))(2.0) == float(number)
    assert {s[:3] for s in seen} == {((), 0, kind)}
    if not isinstance(number, curta.Array):
        assert all(s[3] for s in seen)


def test_numbers_of_rules_are_still_numbers():
    @curta.custom_vjp
    def power(x, n):
        return x**n

    def fwd(x, n):
        return x**n, sum(x for _ in range(n)) if n > 1 else x

    power.defvjp(fwd, lambda s, ct: (ct * s, None))
    assert curta.jit(curta.grad(lambda x: power(x, 3)))(2.0) == 6


def test_backward_rules_see_arrays():
    seen = []

    @custom_vjp
    def f(x):
        return 2 * x

    f.defvjp(lambda x: (f(x), None), lambda _, g: (seen.append(g) or g.at[()].add(1),))
    assert grad(f)(1.0) == curta.vjp(f, np.float32(1.0))[1](np.float32(1.0))[0] == 2.0
    vmap(grad(f))(np.ones(2))
    assert all(isinstance(g, curta.Array) for g in seen) and len(seen) == 3
