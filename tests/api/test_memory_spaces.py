"""Memory spaces in types: what goes together, where results are, what is printed."""

import pickle

import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.core.avals import ShapedArray
from curta.memory import Space

HOST = Space.Host


@pytest.fixture
def x():
    return jnp.arange(4.0)


@pytest.fixture
def h(x):
    return curta.device_put(x, HOST)


def types(f, *args):
    return [a.str_short(True) for a in curta.make_jaxpr(f)(*args).out_avals]


class TestTypes:
    def test_of_arrays(self, x, h):
        assert curta.typeof(x).memory_space is Space.Device
        assert curta.typeof(h).memory_space is HOST
        assert repr(curta.typeof(h)) == "ShapedArray(float32<host>[4])"
        assert curta.typeof(curta.device_put(h, Space.Device)) is curta.typeof(x)
        unpinned = x.sharding.with_memory_kind("unpinned_host")
        assert curta.typeof(curta.device_put(x, unpinned)) is curta.typeof(x)

    def test_of_users(self, h):
        made = ShapedArray((4,), jnp.dtype("float32"), memory_space=HOST)
        assert made is curta.typeof(h)
        plain = made.update(memory_space=Space.Device)
        assert plain.memory_space is Space.Device and plain != made
        assert made.update(shape=(2,)).memory_space is HOST
        assert pickle.loads(pickle.dumps(made)) is made
        struct = curta.ShapeDtypeStruct((4,), "float32", sharding=h.sharding)
        assert types(lambda a: a * 2, struct) in (["f32<host>[4]"], ["f32[4]"])
        assert curta.eval_shape(lambda a: a, h).sharding is None

    def test_over_explicit_axes(self):
        mesh = curta.make_mesh((1,), ("a",))
        there = curta.NamedSharding(mesh, curta.P("a"), memory_kind="pinned_host")
        x = jnp.arange(4.0)
        assert repr(curta.typeof(curta.device_put(x, there))) == (
            "ShapedArray(float32<host>[4@a])"
        )
        assert types(lambda x: curta.device_put(x, there), x) == ["f32<host>[4@a]"]


class TestOps:
    def test_propagated(self, h):
        for f, wanted in (
            (lambda a: a + 1, "f32<host>[4]"),
            (lambda a: a > a, "bool<host>[4]"),
            (lambda a: a.reshape(2, 2).T, "f32<host>[2,2]"),
            (lambda a: a.sum(), "f32<host>[]"),
            (lambda a: a[0] + a[1], "f32[]"),
            (lambda a: jnp.broadcast_to(a[0], (2,)), "f32<host>[2]"),
            (lambda a: jnp.zeros_like(a), "f32[4]"),
            (lambda a: curta.vmap(lambda b: b * 2)(a), "f32<host>[4]"),
            (lambda a: lax.fori_loop(0, 3, lambda i, c: c * 2, a), "f32<host>[4]"),
            (lambda a: lax.map(lambda b: b * 2, a), "f32[4]"),
            (lambda a: a.at[:2].set(jnp.ones(2)), "f32<host>[4]"),
            (lambda a: curta.pure_callback(lambda y: y, a, a), "f32[4]"),
        ):
            assert types(f, h) == [wanted]

    def test_mixed(self, x, h):
        for f in (
            lambda a, b: a + b,
            lambda a, b: a @ b,
            lambda a, b: jnp.concatenate([a, b]),
            lambda a, b: jnp.where(a > 0, a, b),
            lambda a, b: a[b.astype(int)],
            lambda a, b: lax.dynamic_update_slice(a, b, (0,)),
        ):
            for call in (f, curta.jit(f)):
                with pytest.raises(ValueError, match="memory_space of all inputs pass"):
                    call(x, h)
        assert types(lambda a, b: lax.sort((a, b)), x, h) == ["f32[4]", "f32<host>[4]"]

    def test_control_flow(self, x):
        to_host = lambda c: curta.device_put(c, HOST)  # noqa: E731
        with pytest.raises(TypeError, match="memory spaces do not match"):
            lax.while_loop(lambda c: True, to_host, x)
        with pytest.raises(TypeError, match="memory spaces do not match"):
            lax.cond(True, lambda: x, lambda: to_host(x))


class TestValues:
    def test_results(self, x, h):
        def f(a):
            return a * 2, curta.device_put(a, Space.Device) * 3, a[0] > 1

        for call in (f, curta.jit(f)):
            outs = call(h)
            kinds = [y.sharding.memory_kind for y in outs]
            assert kinds == ["pinned_host", "device", kinds[2]]
            for y, kind in zip(outs, kinds, strict=True):
                space = HOST if kind == "pinned_host" else Space.Device
                assert curta.typeof(y).memory_space is space
            assert outs[0].tolist() == [0, 2, 4, 6] and outs[1].tolist() == [0, 3, 6, 9]
        number = h[0] + 1
        assert number.sharding.memory_kind == "device" and number == 1

    def test_of_jit(self, x, h):
        put = curta.jit(lambda a: curta.device_put(a, HOST))
        for _ in range(4):  # the later calls by native code
            y = put(x)
            assert y.sharding.memory_kind == "pinned_host"
            assert curta.typeof(y) is curta.typeof(h)
        with pytest.raises(ValueError, match="Memory kinds passed to jax.jit"):
            curta.jit(lambda a: a, in_shardings=x.sharding)(h)
        out = curta.jit(lambda a: a, out_shardings=h.sharding)(x)
        assert curta.typeof(out) is curta.typeof(h)

    def test_gradients(self, x, h):
        there = curta.grad(lambda a: jnp.sin(curta.device_put(a, HOST)).sum())
        g = curta.grad(lambda a: curta.device_put(jnp.sin(a), Space.Device).sum())
        for f, at in ((there, x), (g, h)):
            for call in (f, curta.jit(f)):
                result = call(at)
                assert curta.typeof(result) is curta.typeof(at)
                assert jnp.allclose(
                    curta.device_get(result), curta.device_get(jnp.cos(x))
                )

    def test_pickled(self, h):
        back = pickle.loads(pickle.dumps(h))
        assert back.tolist() == h.tolist()
        assert curta.typeof(back).memory_space is Space.Device
        assert (back + jnp.ones(4)).tolist() == [1, 2, 3, 4]


class TestPrinted:
    def test_device_put(self, x):
        def f(a):
            return curta.device_put(a, HOST, src=Space.Device, may_alias=False)

        assert str(curta.make_jaxpr(f)(x)) == (
            "{ lambda ; a:f32[4]. let\n"
            "    b:f32<host>[4] = device_put[\n"
            "      copy_semantics=(ArrayCopySemantics.ALWAYS_COPY,)\n"
            "      devices=(MemorySpace.Host,)\n"
            "      srcs=(MemorySpace.Device,)\n"
            "    ] a\n"
            "  in (b,) }"
        )

    def test_targets(self, x):
        device = curta.devices()[0]
        for target in (None, device, HOST, x.sharding):
            jaxpr = curta.make_jaxpr(lambda a, to=target: curta.device_put(a, to))(x)
            [eqn] = jaxpr.eqns
            assert eqn.params["devices"] == (target,) and eqn.params["srcs"] == (None,)
        donating = lambda a: curta.device_put(a, HOST, donate=True)  # noqa: E731
        assert "DONATE_INPUT" in str(curta.make_jaxpr(donating)(x))

    def test_stablehlo(self, x):
        put = curta.jit(lambda a: curta.device_put(a, HOST))
        text = put.lower(x).as_text()
        assert '{jax.result_info = "result", mhlo.memory_kind = "pinned_host"}' in text
