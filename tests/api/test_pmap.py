"""`pmap` over eight virtual devices."""

import functools
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import NamedSharding, P, grad, jit, lax, pmap, vmap

X = np.arange(16.0, dtype=np.float32).reshape(8, 2)


class TestValues:
    def test_axes(self):
        out = pmap(lambda x: 2 * x)(X)
        np.testing.assert_array_equal(out, 2 * X)
        assert isinstance(out.sharding, NamedSharding) and out.sharding.num_devices == 8
        assert [s.index[0] for s in out.addressable_shards] == [
            slice(i, i + 1) for i in range(8)
        ]
        f = pmap(lambda x, y: (x + y, y), in_axes=(1, None), out_axes=(1, None))
        whole, same = f(X.T, 2.0)
        np.testing.assert_array_equal(whole, X.T + 2)
        assert same.shape == () and whole.sharding.spec == P(
            None, *whole.sharding.mesh.axis_names
        )
        few = pmap(lambda x: x + 1)(X[:3])
        assert few.sharding.device_set == set(curta.devices()[:3])

    def test_trees_keywords_and_statics(self):
        f = pmap(
            lambda tree, n, *, k: tree["a"] * n + k,
            in_axes=({"a": 0}, None),
            static_broadcasted_argnums=1,
        )
        np.testing.assert_array_equal(f({"a": X}, 3, k=X), 4 * X)
        with pytest.raises(ValueError, match="static_broadcasted_argnums"):
            f({"a": X})

    def test_collectives_and_nesting(self):
        f = pmap(lambda x: x / lax.psum(x, "i"), axis_name="i")
        np.testing.assert_allclose(f(X), X / X.sum(0), rtol=1e-6)
        both = pmap(
            lambda x: pmap(lambda y: lax.psum(y, ("i", "j")), axis_name="j")(x), "i"
        )
        np.testing.assert_array_equal(both(X[:4]), np.full((4, 2), X[:4].sum()))
        np.testing.assert_allclose(
            vmap(f)(np.stack([X, X])), np.stack([f(X)] * 2), rtol=1e-6
        )
        inner = pmap(vmap(lambda y: lax.psum(y, "i")), axis_name="i")
        np.testing.assert_array_equal(inner(X), np.tile(X.sum(0), (8, 1)))
        np.testing.assert_allclose(jit(f)(X), f(X), rtol=1e-6)
        groups = [[0, 1, 2, 3], [4, 5, 6, 7]]
        g = pmap(lambda x: lax.psum(x, "i", axis_index_groups=groups), "i")
        np.testing.assert_array_equal(g(X)[::4], X.reshape(2, 4, 2).sum(1))

    def test_derivatives(self):
        f = pmap(lambda x: jnp.sin(x) * lax.pmean(x, "i"), axis_name="i")

        def plain(x):
            return jnp.sin(x) * x.mean(0)

        found = grad(lambda x: f(x).sum())(X)
        np.testing.assert_allclose(
            found, grad(lambda x: plain(x).sum())(X), rtol=1e-4, atol=1e-4
        )
        own = pmap(grad(lambda x: (x**2).sum()))(X)
        np.testing.assert_array_equal(own, 2 * X)

    def test_devices_and_donation(self):
        last = curta.devices()[6:]
        out = pmap(lambda x: x + 1, devices=last)(X[:2])
        assert out.devices() == set(last)
        x = jnp.array(X)
        out = pmap(lambda x: x + 1, donate_argnums=0)(x)
        np.testing.assert_array_equal(out, X + 1)
        assert x.is_deleted()
        leaves = [jnp.array(X) for _ in range(3)]
        outs = pmap(lambda xs: [x + 1 for x in xs], donate_argnums=0)(leaves)
        np.testing.assert_array_equal(outs, [X + 1] * 3)
        assert all(x.is_deleted() for x in leaves)
        text = pmap(lambda x: x).lower(X).as_text("jaxpr")
        assert "shard_map" in text


class TestErrors:
    @pytest.mark.parametrize(
        ("error", "message", "call"),
        [
            (ValueError, "requires 9 logical devices", lambda: pmap(abs)(np.ones(9))),
            (ValueError, "at least one argument", lambda: pmap(abs)(1.0)),
            (ValueError, "at least one argument", lambda: pmap(abs, in_axes=None)(X)),
            (ValueError, "inconsistent sizes", lambda: pmap(jnp.add)(X, X[:4])),
            (ValueError, "doesn't match received", lambda: pmap(abs, axis_size=3)(X)),
            (ValueError, "must be non-empty", lambda: pmap(abs, devices=[])),
            (TypeError, "pmap in_axes must be", lambda: pmap(abs, in_axes="x")),
            (ValueError, "tree prefix", lambda: pmap(abs, in_axes=([0, 1],))(X)),
            (
                ValueError,
                "must equal the number",
                lambda: pmap(abs, devices=curta.devices()[:3])(X[:2]),
            ),
            (
                NameError,
                "unbound axis name",
                lambda: pmap(lambda x: lax.psum(x, "q"))(X),
            ),
            (
                ValueError,
                "wait forever",
                lambda: pmap(
                    lambda x: lax.cond(
                        lax.axis_index("i") > 2, lambda: lax.psum(x, "i"), lambda: x
                    ),
                    axis_name="i",
                )(X),
            ),
        ],
    )
    def test_misuse(self, error, message, call):
        with pytest.raises(error, match=message):
            call()


class Params(NamedTuple):
    weight: Any
    bias: Any


def train(devices, steps):
    """Data-parallel linear regression: every device has a share of the examples."""
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(128, 1))
    ys = 2 * xs - 1 + 0.5 * rng.normal(size=(128, 1))

    def loss_fn(params, xs, ys):
        return jnp.mean((params.weight * xs + params.bias - ys) ** 2)

    @functools.partial(pmap, axis_name="devices")
    def update(params, xs, ys):
        loss, grads = curta.value_and_grad(loss_fn)(params, xs, ys)
        grads = lax.pmean(grads, axis_name="devices")
        loss = lax.pmean(loss, axis_name="devices")
        new = curta.tree.map(lambda p, g: p - 0.05 * g, params, grads)
        return new, loss

    params = curta.tree.map(lambda x: jnp.array([x] * devices), Params(0.3, -0.2))
    split = [a.reshape(devices, -1, 1) for a in (xs, ys)]
    losses = []
    for _ in range(steps):
        params, loss = update(params, *split)
        losses.append(float(loss[0]))
    assert len({float(w) for w in params.weight}) == 1  # all devices agree
    return losses, curta.tree.map(lambda x: float(x[0]), params)


def test_data_parallel_training_does_not_depend_on_the_number_of_devices():
    losses, params = train(1, 60)
    others, also = train(8, 60)
    np.testing.assert_allclose(losses, others, rtol=1e-5)
    np.testing.assert_allclose(params, also, rtol=1e-5)
    np.testing.assert_allclose(params, (2, -1), atol=0.1)


def test_ahead_of_time_with_nested_axes():
    def fun(scale, d, y, *, z):
        return scale * d["a"] + y + z

    mapped = pmap(
        fun, in_axes=(None, {"a": 0}, None), static_broadcasted_argnums=0, axis_size=1
    )
    d, z = {"a": jnp.ones((1, 3))}, jnp.ones((1, 3))
    compiled = mapped.lower(2, d, 3.0, z=z).compile()
    np.testing.assert_array_equal(compiled(d, 3.0, z=z), np.full((1, 3), 6.0))
    with pytest.raises(TypeError, match="different enable_x64 mode"):
        compiled(d, jnp.int32(3), z=z)
