"""Rematerialization: the same derivatives, with fewer values kept."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import checkpoint, grad, jit, vmap
from curta.config import log_checkpoint_residuals


def deep(x, w):
    for _ in range(3):
        x = jnp.sin(w @ x)
    return x.sum()


W = jnp.array([[0.5, -0.2], [0.1, 0.3]])
X = jnp.array([1.0, 2.0])


def everything(op, *avals, **params):
    return True


def products(op, *avals, **params):
    return op.name == "dot_general"


@pytest.mark.parametrize("policy", [None, everything, products])
@pytest.mark.parametrize("inner", [deep, jit(deep)], ids=["plain", "jit"])
def test_same_gradients(policy, inner):
    expected = grad(deep, (0, 1))(X, W)
    remat = checkpoint(inner, policy=policy)
    for wrap in (lambda f: f, jit):
        found = wrap(grad(remat, (0, 1)))(X, W)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
    batched = vmap(grad(remat), (0, None))(jnp.stack([X, X]), W)
    np.testing.assert_allclose(batched[1], expected[0], rtol=1e-5)


def kept_values(policy):
    """How many products the backward jaxpr is handed rather than recomputes."""
    jaxpr = curta.make_jaxpr(grad(checkpoint(deep, policy=policy)))(X, W)
    (eqn,) = [e for e in jaxpr.eqns if e.op.name == "remat2"]
    return sum(e.op.name == "sin" for e in eqn.params["jaxpr"].eqns)


def test_policies_decide_what_is_recomputed():
    assert kept_values(None) == 2
    assert kept_values(everything) == 0


def test_static_arguments_and_known_outputs():
    def f(x, n):
        return (x**n).sum(), x

    remat = checkpoint(f, static_argnums=1)
    value, gradient = curta.value_and_grad(lambda x: remat(x, 3)[0])(X)
    assert value == 9.0
    np.testing.assert_allclose(gradient, [3, 12])
    out, pull = curta.vjp(checkpoint(jit(lambda x, y: (y, jnp.sin(x)))), 1.0, 2.0)
    assert out[0] == 2.0
    np.testing.assert_allclose(pull((1.0, 1.0)), (np.cos(1.0), 1.0), rtol=1e-6)


def test_second_order():
    f = checkpoint(lambda x: jnp.sin(x) ** 2)
    np.testing.assert_allclose(grad(grad(f))(0.3), 2 * np.cos(0.6), rtol=1e-5)
    np.testing.assert_allclose(grad(checkpoint(grad(f)))(0.3), 2 * np.cos(0.6), 1e-5)


def test_policies_may_offload():
    policies = curta.checkpoint_policies
    with pytest.raises(ValueError, match="The names should be exclusive"):
        policies.save_and_offload_only_these_names(
            names_which_can_be_saved=["a"],
            names_which_can_be_offloaded=["a"],
            offload_src="device",
            offload_dst="pinned_host",
        )
    ad = curta.ad_checkpoint
    for answer in (ad.Recompute, ad.Saveable, ad.Offloadable("device", "pinned_host")):
        f = curta.checkpoint(jnp.sin, policy=lambda *_, answer=answer, **__: answer)
        assert curta.grad(f)(0.0) == 1.0
    with pytest.raises(TypeError, match="Value returned by a remat policy should be"):
        curta.grad(curta.checkpoint(jnp.sin, policy=lambda *_, **__: "yes"))(0.0)


class TestTracing:
    """The function is traced once for each signature, as by `jit`."""

    def counted(self):
        calls = []

        def f(x, mode=None):
            calls.append(mode)
            return jnp.sin(x) if mode != "cos" else jnp.cos(x)

        return f, calls

    def test_calls_of_one_signature_trace_once(self):
        f, calls = self.counted()
        for _ in range(3):
            checkpoint(f)(1.0)
            curta.grad(checkpoint(f))(2.0)
        assert len(calls) == 1
        checkpoint(f)(jnp.ones(3))
        checkpoint(f)(1)
        assert len(calls) == 3

    def test_static_arguments_are_told_apart(self):
        f, calls = self.counted()
        g = checkpoint(f, static_argnums=1)
        assert g(0.0, "cos") == 1
        assert g(0.0, "sin") == 0
        assert g(0.0, "cos") == 1
        assert calls == ["cos", "sin"]
        unhashable = ["cos"]
        g(0.0, unhashable)
        g(0.0, unhashable)
        assert len(calls) == 3

    def test_what_closes_over_tracers_is_traced_anew(self):
        def f(x, y):
            return checkpoint(lambda z: jnp.sin(z) * x)(y)

        assert curta.grad(f)(2.0, 0.5) == jnp.sin(0.5)
        assert (curta.vmap(f, (0, None))(jnp.arange(3.0), 0.5) > -1).all()

    def test_clear_caches(self):
        f, calls = self.counted()
        checkpoint(f)(1.0)
        curta.clear_caches()
        checkpoint(f)(1.0)
        assert len(calls) == 2

    def test_settings_are_part_of_the_signature(self):
        @checkpoint
        def f(x):
            return x + jnp.arange(2)

        assert f(1).dtype == np.int32
        with curta.enable_x64(True):
            assert f(1).dtype == np.int64

    def test_static_places_are_checked(self):
        with pytest.raises(ValueError, match="can only take integer values greater"):
            checkpoint(lambda x: x, static_argnums=2)(1.0)
        with pytest.raises(TypeError, match="must be an int, tuple of ints"):
            checkpoint(lambda x: x, static_argnums="x")(1.0)


def test_what_is_kept_is_logged(caplog):
    def fun(x):
        return jnp.cos(jnp.sin(x).sum())

    def said(policy):
        caplog.clear()
        with log_checkpoint_residuals(True):
            grad(checkpoint(fun, policy=policy))(X)
        return caplog.text

    inputs, kept = "saving inputs with shapes:\n  float32[2]", "these intermediates"
    assert inputs in said(None) and kept not in said(None)
    everywhere = said(everything)
    assert inputs not in everywhere and kept in everywhere
    assert "float32[] output of sin from" in everywhere
    cosines = said(lambda op, *_, **__: op.name == "cos")
    assert inputs in cosines and f"and saving {kept}" in cosines
    assert "float32[2] output of cos from" in cosines and " sin " not in cosines


def test_nothing_but_what_is_used_is_computed_forwards():
    jaxpr = curta.make_jaxpr(grad(checkpoint(jnp.sin)))(1.0)
    assert [e.op.name for e in jaxpr.eqns if e.op.name == "cos"] == []


class TestLoopsAndBranches:
    """A policy is asked about what is within them."""

    W = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)
    V = np.array([0.5, -1, 2], np.float32)

    def loop(self, w):
        def step(x, scale):
            y = jnp.sin(x @ w * scale)
            return y, (y * y).sum()

        last, rows = curta.lax.scan(step, self.V, jnp.arange(4.0))
        return last.sum() + rows.sum() * last[0]

    def branch(self, w):
        def dense(x):
            return jnp.sin(jnp.sin(x @ w) @ w)

        def plain(x):
            return jnp.cos(w[0] * (x @ w.T))

        x = curta.lax.cond(w[0, 0] < 0, dense, plain, self.V)
        return curta.lax.switch(1, [plain, dense], x).sum()

    def apart(self, w):
        def step(x, _):
            return jnp.tanh(x @ self.W), None

        return (curta.lax.scan(step, w[0], None, length=3)[0] * w).sum()

    @pytest.mark.parametrize("name", ["loop", "branch", "apart"])
    @pytest.mark.parametrize("policy", ["dots_saveable", "everything_saveable"])
    def test_gradients(self, name, policy):
        fun = getattr(self, name)
        policy = getattr(curta.checkpoint_policies, policy)
        kept = checkpoint(fun, policy=policy)
        expected = grad(fun)(self.W)
        np.testing.assert_allclose(grad(kept)(self.W), expected, rtol=1e-5)
        np.testing.assert_allclose(jit(grad(kept))(self.W), expected, rtol=1e-5)
        batch = np.stack([self.W, -self.W])
        found = vmap(grad(kept))(batch)
        np.testing.assert_allclose(found[0], expected, rtol=1e-5)
        np.testing.assert_allclose(found[1], grad(fun)(-self.W), rtol=1e-5)

    @pytest.mark.parametrize(("name", "dots"), [("loop", 2), ("branch", 10)])
    def test_products_are_not_computed_again(self, name, dots):
        policy = curta.checkpoint_policies.dots_saveable
        fun = checkpoint(getattr(self, name), policy=policy)
        _, pull = curta.vjp(fun, self.W)
        assert str(curta.make_jaxpr(pull)(1.0)).count("dot_general[") == dots

    def test_what_no_derivative_needs_is_left_out(self):
        def fun(x):
            return curta.lax.cond(x > 0, lambda x: (jnp.sin(x), x), lambda x: (x, x), x)

        text = str(curta.make_jaxpr(curta.linearize(checkpoint(fun), 1.0)[1])(1.0))
        assert " cos " in text and " sin " not in text
