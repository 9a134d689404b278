"""`shard_map`: one device's program, run by all devices of a mesh."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import NamedSharding, P, grad, jit, lax, shard_map, vmap
from curta.config import config, disable_vmap_shmap_error
from curta.sharding import AxisType
from curta.test_util import check_grads

AUTO = (AxisType.Auto,) * 2
X = np.arange(16.0, dtype=np.float32).reshape(8, 2)
W = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def mesh():
    return curta.make_mesh((4, 2), ("x", "y"), AUTO)


def mapped(fun, in_specs, out_specs, **options):
    return shard_map(
        fun, mesh=mesh(), in_specs=in_specs, out_specs=out_specs, **options
    )


class TestValues:
    @pytest.mark.parametrize(
        ("in_spec", "shard", "devices"),
        [
            (P("x"), (2, 2), 4),
            (P("x", "y"), (2, 1), 8),
            (P(("x", "y")), (1, 2), 8),
            (P(None, "y"), (8, 1), 2),
            (P(), (8, 2), 1),
        ],
    )
    def test_shards_come_and_go(self, in_spec, shard, devices):
        seen = []

        def body(x):
            seen.append(x.shape)
            return 2 * x

        f = mapped(body, in_spec, in_spec)
        for call in (f, jit(f)):
            out = call(X)
            np.testing.assert_array_equal(out, 2 * X)
            assert out.sharding == NamedSharding(mesh(), in_spec)
        assert set(seen) == {shard}
        assert len({str(s.index) for s in out.addressable_shards}) == devices

    def test_order_of_axes(self):
        f = mapped(lambda x: x + lax.axis_index(("x", "y")), P(("x", "y")), P("x", "y"))
        whole = f(np.zeros((8, 1), np.int32))
        np.testing.assert_array_equal(whole, np.arange(8).reshape(4, 2))
        g = mapped(lambda x: x, P(("y", "x")), P(("x", "y")))
        np.testing.assert_array_equal(
            g(np.arange(8)), np.arange(8).reshape(2, 4).T.ravel()
        )

    # Each over both axes, with what NumPy says.
    COLLECTIVES = {
        "psum": (lambda x: lax.psum(x, ("x", "y")), P(), X.reshape(8, 1, 2).sum(0)),
        "psum over one": (
            lambda x: lax.psum(x, "y"),
            P("x"),
            X.reshape(4, 2, 2).sum(1),
        ),
        "pmean": (lambda x: lax.pmean(x, ("x", "y")), P(), X.mean(0)[None]),
        "pmax": (lambda x: lax.pmax(x, ("x", "y")), P(), X.max(0)[None]),
        "all_gather": (
            lambda x: lax.all_gather(x, ("x", "y"), tiled=True)[None],
            P(("x", "y")),
            np.stack([X] * 8),
        ),
        "all_gather invariant": (
            lambda x: lax.all_gather(x, ("x", "y"), tiled=True, to="invarying"),
            P(),
            X,
        ),
        "psum_scatter": (
            lambda x: lax.psum_scatter(
                jnp.tile(x, (8, 1)), ("x", "y"), scatter_dimension=0, tiled=True
            ),
            P(("x", "y")),
            np.tile(X.sum(0), (8, 1)),
        ),
        "all_to_all": (
            lambda x: lax.all_to_all(
                jnp.arange(8.0)[:, None] + 10 * x[:, :1], ("x", "y"), 0, 0, tiled=True
            ),
            P(("x", "y")),
            (np.arange(8.0)[:, None] + 10 * X[:, 0]).reshape(64, 1),
        ),
        "ppermute": (
            lambda x: lax.ppermute(x, ("x", "y"), [(i, (i + 3) % 8) for i in range(7)]),
            P(("x", "y")),
            np.where((np.arange(8) == 2)[:, None], 0, np.roll(X, 3, 0)),
        ),
        "pbroadcast": (
            lambda x: lax.pbroadcast(x, ("x", "y"), 5),
            P(("x", "y")),
            np.tile(X[5], (8, 1)),
        ),
    }

    @pytest.mark.parametrize("check", [True, False])
    @pytest.mark.parametrize("name", COLLECTIVES)
    def test_collectives(self, name, check):
        fun, out_spec, expected = self.COLLECTIVES[name]
        f = mapped(fun, P(("x", "y")), out_spec, check_vma=check)
        for call in (f, jit(f)):
            np.testing.assert_allclose(call(X), expected, rtol=1e-6)
        if name != "pmax":
            check_grads(f, (X,), 1, eps=1.0)

    def test_part_of_the_axes(self):
        f = mapped(lambda x: lax.psum(x, "x"), P("x"), P(), axis_names={"x"})
        np.testing.assert_array_equal(jit(f)(X), X.reshape(4, 2, 2).sum(0))
        outer = mapped(
            lambda x: shard_map(
                lambda v: lax.psum(v, "y"),
                in_specs=P("y"),
                out_specs=P(),
                axis_names={"y"},
            )(x),
            P("x"),
            P("x"),
            axis_names={"x"},
        )
        np.testing.assert_array_equal(
            jit(outer)(X), X.reshape(4, 2, 1, 2).sum(1).reshape(4, 2)
        )

    def test_mesh_in_scope_and_static_arguments(self):
        with curta.set_mesh(curta.make_mesh((4, 2), ("x", "y"))):
            x = curta.device_put(X, P("x", "y"))
            out = shard_map(lambda x: x + 1, out_specs=P("x", "y"))(x)
            assert str(curta.typeof(out)) == "float32[8@x,2@y]"
            smapped = curta.smap(lambda x: x * 2, in_axes=0, out_axes=1, axis_name="x")
            assert jit(smapped)(x).shape == (2, 8)
        f = mapped(lambda x, n: x * n["k"], (P("x"), None), P("x"))
        np.testing.assert_array_equal(f(X, {"k": 3}), 3 * X)

    def test_no_arguments_and_random_keys(self):
        f = mapped(lambda: lax.axis_index("x")[None], (), P("x"))
        np.testing.assert_array_equal(f(), np.arange(4))
        keys = curta.random.split(curta.random.key(0), 8)
        draw = mapped(vmap(lambda k: curta.random.normal(k, (2,))), P("x"), P("x"))
        np.testing.assert_array_equal(
            draw(keys), vmap(lambda k: curta.random.normal(k, (2,)))(keys)
        )


class TestTransformations:
    def test_derivatives(self):
        f = mapped(
            lambda w, x: lax.psum(jnp.tanh(x @ w).sum(0), "x"),
            (P(), P("x")),
            P(),
        )

        def plain(w, x):
            return jnp.tanh(x @ w).sum(0)

        for i in (0, 1):
            found = curta.jacrev(f, i)(W, X)
            np.testing.assert_allclose(
                found, curta.jacrev(plain, i)(W, X), rtol=1e-4, atol=1e-6
            )
            np.testing.assert_allclose(
                jit(curta.jacfwd(f, i))(W, X), found, rtol=1e-4, atol=1e-6
            )

    def test_gradients_inside_count_each_shard_once(self):
        def loss(w, x):
            return (jnp.tanh(x @ w) ** 2).sum()

        inside = mapped(grad(loss), (P(), P("x")), P())
        np.testing.assert_allclose(inside(W, X), grad(loss)(W, X), rtol=1e-4)
        own = mapped(grad(loss), (P(), P("x")), P("x"), check_vma=False)(W, X)
        np.testing.assert_allclose(
            own.reshape(4, 2, 3).sum(0), grad(loss)(W, X), rtol=1e-4
        )

    def test_derivatives_stay_maps(self):
        f = mapped(lambda x: lax.psum(x, "x"), P("x"), P())
        (eqn,) = curta.make_jaxpr(curta.vjp(f, X)[1])(X[:2]).eqns
        assert eqn.primitive.name == "shard_map"
        (inner,) = eqn.params["jaxpr"].eqns
        assert inner.primitive.name == "pvary"
        g = mapped(lambda x: x, P(), P("x"))
        (eqn,) = curta.make_jaxpr(curta.vjp(g, X[:2])[1])(X).eqns
        (inner,) = eqn.params["jaxpr"].eqns
        assert inner.primitive.name == "psum_invariant"
        h = mapped(lambda x: jnp.exp(x.sum()) * x, P("x"), P("x"))
        forward, *_, backward = curta.make_jaxpr(grad(lambda x: h(x).sum()))(X).eqns
        assert forward.primitive is backward.primitive
        # The one number that each device keeps is an array of four.
        assert (4,) in [v.aval.shape for v in forward.outvars]

    @pytest.mark.parametrize("check", [True, False])
    @pytest.mark.parametrize(
        ("fun", "in_spec", "out_spec"),
        [
            (lambda x: lax.psum(jnp.sin(x) * x, "x"), P("x"), P()),
            (lambda x: jnp.sin(x) * x, P(), P()),
            (lambda x: lax.pmean(jnp.sin(x), ("x", "y")).sum(), P(("x", "y")), P()),
            (lambda x: lax.all_gather(jnp.cos(x), "x", tiled=True), P("x"), P("x")),
            (lambda x: jnp.sin(x.sum()) * jnp.tanh(x), P("x", "y"), P("x", "y")),
        ],
    )
    def test_second_derivatives(self, fun, in_spec, out_spec, check):
        f = mapped(fun, in_spec, out_spec, check_vma=check)
        for g in (f, jit(curta.checkpoint(f))):
            check_grads(g, (X / 7,), 2, eps=1e-2, atol=0.1, rtol=0.1)

    def test_vmap(self):
        f = mapped(lambda x: lax.psum(x, "x") * x, P("x"), P("x"))
        batch = np.stack([X, 2 * X, 3 * X])
        for call in (vmap(f), jit(vmap(f))):
            np.testing.assert_allclose(call(batch), np.stack([f(x) for x in batch]))
        split = jit(vmap(f, spmd_axis_name="y"))
        found = split(np.concatenate([batch, batch[:1]]))
        assert found.sharding.spec == P("y", "x")
        np.testing.assert_allclose(found[:3], np.stack([f(x) for x in batch]))
        with pytest.raises(ValueError, match="vmap spmd_axis_name cannot appear"):
            vmap(f, spmd_axis_name="x")(batch)

    @pytest.mark.parametrize(
        ("policy", "kept"), [("dots_saveable", 1), ("nothing_saveable", 0)]
    )
    def test_policies_reach_inside(self, policy, kept):
        def body(w, x):
            y = jnp.sin(x @ w).sum(0)
            return jnp.cos(y) * lax.psum(y.sum(), "x")

        f = mapped(body, (P(), P("x")), P("x"))
        g = curta.checkpoint(f, policy=getattr(curta.checkpoint_policies, policy))
        *_, backward = curta.make_jaxpr(grad(lambda w: g(w, X / 9).sum()))(W).eqns
        assert backward.primitive.name == "remat2"
        maps = [e.params["jaxpr"].eqns for e in backward.params["jaxpr"].eqns]
        names = [e.primitive.name for eqns in maps for e in eqns]
        assert names.count("dot_general") == 2 - kept
        found = jit(grad(lambda w: g(w, X / 9).sum()))(W)
        expected = grad(lambda w: f(w, X / 9).sum())(W)
        np.testing.assert_allclose(found, expected, rtol=1e-4)

    @pytest.mark.parametrize("check", [True, False])
    def test_derivatives_of_split_batches(self, check):
        f = mapped(
            lambda w, x: jnp.sin(lax.psum(x.sum() * w.sum(), "x")) * jnp.tanh(x),
            (P(), P("x")),
            P("x"),
            check_vma=check,
        )
        batch, w = np.stack([X, X / 2, -X, X * X]) / 50, W[0]
        split = vmap(f, in_axes=(None, 0), spmd_axis_name="y")
        plain = vmap(lambda w, x: jnp.sin(x.sum() * w.sum()) * jnp.tanh(x), (None, 0))
        for i in (0, 1):
            found = jit(grad(lambda *args: (split(*args) ** 2).sum(), i))(w, batch)
            expected = grad(lambda *args: (plain(*args) ** 2).sum(), i)(w, batch)
            np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)

    def test_vmap_over_an_explicit_axis(self):
        with curta.set_mesh(curta.make_mesh((2, 2), ("x", "y"))):
            x = curta.device_put(X.reshape(4, 4), P("x", "y"))
            f = shard_map(
                lambda x: jnp.sin(x) * lax.psum(x.sum(), "y"),
                in_specs=P("y"),
                out_specs=P("y"),
            )
            for call in (vmap(f), jit(vmap(f))):
                out = call(x)
                assert str(curta.typeof(out)) == "float32[4@x,4@y]"
                expected = np.sin(x) * np.asarray(x).sum(1, keepdims=True)
                np.testing.assert_allclose(out, expected, rtol=1e-5)
            found = grad(lambda x: vmap(f)(x).sum())(x)
            plain = grad(lambda x: (jnp.sin(x) * x.sum(1, keepdims=True)).sum())
            np.testing.assert_allclose(found, plain(np.asarray(x)), rtol=1e-4)

    def test_remat_scan_and_custom_rules(self):
        @curta.custom_vjp
        def double(x):
            return 2 * x

        double.defvjp(lambda x: (2 * x, None), lambda _, ct: (3 * ct,))

        @curta.checkpoint
        def step(c):
            return jnp.sin(c) * lax.psum(c.sum(), "x")

        def body(x):
            out, _ = lax.scan(lambda c, _: (double(step(c)), None), x, None, 2)
            return out

        f = mapped(body, P("x"), P("x"))
        x = X / 20
        assert f(x).shape == X.shape
        assert np.isfinite(grad(lambda x: f(x).sum())(x)).all()
        np.testing.assert_allclose(
            grad(lambda x: f(x).sum())(x), jit(grad(lambda x: f(x).sum()))(x), rtol=1e-5
        )

    def test_text(self):
        f = mapped(lambda w, x: lax.psum(w * x, "x"), (P(), P("x")), P())
        text = str(curta.make_jaxpr(f)(2.0, X))
        assert "shard_map[" in text and "check_vma=True" in text
        assert "pvary[axes=('x',)]" in text and "psum_invariant[axes=('x',)]" in text
        assert "f32[2,2]{V:x}" in text and "in_specs=(P(), P('x',))" in text

    def test_types_of_shards(self):
        def body(x):
            assert curta.typeof(x).vma == curta.typeof(x).mat.varying == {"x"}
            assert curta.typeof(lax.psum(x, "x")).vma == frozenset()
            assert curta.typeof(lax.pcast(jnp.ones(2), "y", to="varying")).vma == {"y"}
            assert curta.typeof(x * lax.axis_index("y")).vma == {"x", "y"}
            return x

        mapped(body, P("x"), P("x"))(X)


class TestErrors:
    def run(self, fun=lambda x: x, x=X, **options):
        options = {"in_specs": P("x"), "out_specs": P("x"), **options}
        return mapped(fun, **options)(x)

    @pytest.mark.parametrize(
        ("error", "message", "options"),
        [
            (ValueError, "evenly divisible", {"x": np.ones((6, 2))}),
            (ValueError, "too long to be compatible", {"x": np.float32(1)}),
            (
                ValueError,
                "too long to be compatible",
                {"fun": lambda x: x.sum(), "out_specs": P("x")},
            ),
            (ValueError, "require replication", {"out_specs": P()}),
            (ValueError, "marked as manual", {"in_specs": P("z")}),
            (TypeError, "must be a pytree", {"in_specs": 1}),
            (ValueError, "to be a subset of", {"axis_names": {"z"}}),
            (TypeError, "`axis_names` argument", {"axis_names": "x"}),
            (ValueError, "tree prefix|pytree structure", {"in_specs": (P(), P())}),
            (
                ValueError,
                "wait forever",
                {
                    "fun": lambda x: lax.while_loop(
                        lambda c: c.sum() < 100, lambda c: c + lax.psum(c, "x") + 1, x
                    ),
                    "check_vma": False,
                },
            ),
            (
                ValueError,
                "wait forever",
                {
                    "fun": lambda x: lax.cond(
                        x.sum() > 9, lambda x: lax.psum(x, "x"), lambda x: x, x
                    ),
                    "check_vma": False,
                },
            ),
            (
                TypeError,
                r"applying `jax.lax.pcast\(..., \('x',\), to='varying'\)`",
                {"fun": lambda x: lax.scan(lambda c, a: (c + a, c), jnp.ones(2), x)[1]},
            ),
            (
                ValueError,
                r"applying `jax.lax.pcast\(..., \('x',\).*to the primal value passed",
                {"fun": lambda x: curta.linearize(jnp.sin, jnp.ones((2, 2)))[1](x)},
            ),
            (
                ValueError,
                "device_put with explicit device",
                {"fun": lambda x: curta.device_put(x, curta.devices()[0])},
            ),
        ],
    )
    def test_misuse(self, error, message, options):
        with pytest.raises(error, match=message):
            self.run(**options)

    def test_specs_are_those_of_types(self):
        with curta.set_mesh(curta.make_mesh((2, 2), ("x", "y"))):
            f = shard_map(lambda x: 2 * x, in_specs=P("x"), out_specs=P("x"))
            x = curta.reshard(X, P("x"))
            np.testing.assert_array_equal(f(x), 2 * X)
            for other in (X, curta.reshard(X, P("y"))):
                with pytest.raises(ValueError, match="does not match the specs of the"):
                    f(other)
            part = shard_map(
                lambda x: x, in_specs=P("x"), out_specs=P("x"), axis_names={"x", "y"}
            )
            with pytest.raises(ValueError, match="requires axis_names"):
                vmap(part)(x)

    def test_what_meets_is_fine(self):
        out = self.run(
            lambda x: lax.while_loop(
                lambda c: lax.pmax(c.max(), ("x", "y")) < 100,
                lambda c: c + lax.psum(c, "x"),
                x,
            ),
            check_vma=False,
        )
        assert out.shape == X.shape
        alone = self.run(
            lambda x: lax.while_loop(lambda c: c.sum() < 100, lambda c: c + 1, x)
        )
        assert (np.asarray(alone).reshape(4, -1).sum(1) >= 100).all()

    def test_meshes(self):
        with pytest.raises(ValueError, match="context mesh cannot be empty"):
            shard_map(lambda x: x, in_specs=P(), out_specs=P())(X)
        abstract = mesh().abstract_mesh
        f = shard_map(lambda x: 2 * x, mesh=abstract, in_specs=P("x"), out_specs=P("x"))
        with pytest.raises(ValueError, match="Please pass `jax.Array`s"):
            f(X)
        placed = curta.device_put(X, NamedSharding(mesh(), P("x")))
        np.testing.assert_array_equal(f(placed), 2 * X)
        with pytest.raises(ValueError, match="Received incompatible devices"):
            mapped(lambda x: x, P(), P())(curta.device_put(X, curta.devices()[3]))
        with pytest.raises(TypeError, match="requires a callable"):
            shard_map(1, mesh=mesh(), in_specs=P(), out_specs=P())
        with pytest.raises(NameError, match="Found an unbound axis name: q"):
            self.run(lambda x: lax.psum(x, "q"))
        with pytest.raises(ValueError, match="pvary should be called"):
            lax.pcast(X, "x", to="varying")
        with pytest.raises(TypeError, match="smap axis_name"):
            curta.smap(lambda x: x, in_axes=0, out_axes=0, axis_name=("x",))


def test_older_names():
    with pytest.warns(DeprecationWarning, match="Use jax.shard_map instead"):
        old = curta.experimental.shard_map.shard_map
    f = old(lambda x: lax.psum(x, "x"), mesh(), P("x"), P(), check_rep=False)
    np.testing.assert_array_equal(f(X), X.reshape(4, 2, 2).sum(0))
    grid = curta.experimental.mesh_utils.create_device_mesh((4, 2))
    assert curta.sharding.Mesh(grid, ("x", "y"), AUTO) is mesh()
    utils = curta.experimental.multihost_utils
    placed = utils.host_local_array_to_global_array(X, mesh(), P("x"))
    assert placed.sharding.spec == P("x")
    np.testing.assert_array_equal(utils.process_allgather(placed), X)
    assert utils.process_allgather(X).shape == (1, 8, 2)


class TestValuesInPython:
    def decided(self, x):
        total = lax.psum(x.sum(), ("x", "y"))
        return x * int(total) if total > 3 else -x

    def test_what_is_the_same_everywhere_decides(self):
        f = mapped(self.decided, P("x", "y"), P("x", "y"))
        np.testing.assert_array_equal(f(X), X * 120)
        np.testing.assert_array_equal(f(-X), X)
        np.testing.assert_array_equal(grad(lambda x: f(x).sum())(X), 0 * X + 120)
        scale = jnp.float32(2.0)

        def body(x):
            y = lax.pmax(x * scale, ("x", "y"))
            return (
                x
                if curta.value_and_grad(lambda z: z if z > 29 else -z)(y.max())[1] > 0
                else -x
            )

        np.testing.assert_array_equal(mapped(body, P("x", "y"), P("x", "y"))(X), X)

    @pytest.mark.parametrize(
        "call",
        [
            lambda f: jit(mapped(f, P("x", "y"), P("x", "y"))),
            lambda f: mapped(f, P("x", "y"), P("x", "y"), check_vma=False),
            lambda f: vmap(mapped(f, P("x", "y"), P("x", "y"))),
            lambda f: mapped(lambda x: x if x.sum() > 0 else -x, P("x"), P("x")),
        ],
    )
    def test_else_not(self, call):
        with pytest.raises(curta.errors.TracerBoolConversionError):
            call(self.decided)(np.stack([X] * 8))

    def test_shards_show_where_a_mesh_is_set(self, capsys):
        mesh = curta.make_mesh((2,), ("x",))

        def f(x):
            print(x)
            return 2 * x if lax.psum(x.sum(), "x") > 0 else x

        with curta.set_mesh(mesh):
            x = curta.device_put(jnp.arange(4.0), P("x"))
            y = shard_map(f, in_specs=P("x"), out_specs=P("x"))(x)
        assert y.tolist() == [0, 2, 4, 6]
        assert "(x,) = (1,):\n[2. 3.]" in capsys.readouterr().out

    def test_each_device_shows_its_own(self, capsys):
        seen = []

        def body(x):
            seen.append(x)
            print(x.sum() if x.shape == (2, 1) else x)
            curta.debug.print("once")
            assert lax.psum(x, ("x", "y")).sum() > 0
            return x

        mapped(body, P("x", "y"), P("x", "y"))(X)
        out = capsys.readouterr().out
        assert "at mesh coordinates (x, y,) = (3, 1):\n28.0" in out
        assert out.count("once") == config.curta_simulate_hosts  # each host says it
        assert repr(seen[0]) == "ShardTracer(float32[2,1]{V:(x,y)})"


class TestSettings:
    def test_no_casts_by_themselves(self):
        f = mapped(lambda x, y: x * y, (P("x"), P()), P("x"))
        with curta.auto_pcast(False):
            with pytest.raises(ValueError, match="requires varying manual axes to"):
                f(X, X[:2])
        assert f(X, X[:2]).shape == X.shape

    def test_axes_of_size_one(self):
        one = curta.make_mesh((2, 1), ("x", "y"))
        with curta.remove_size_one_mesh_axis_from_type(True), curta.set_mesh(one):
            x = curta.device_put(X, P("x", "y"))
            assert str(curta.typeof(x)) == "float32[8@x,2]"

            def body(x):
                assert curta.typeof(x).vma == {"x"}
                return lax.psum(x, ("x", "y"))

            out = shard_map(body, in_specs=P("x", "y"), out_specs=P())(x)
            np.testing.assert_array_equal(out, X[:4] + X[4:])

    def test_vmap_over_an_axis_in_use(self):
        gathered = mapped(
            lambda x, y: x + lax.all_gather(y, "x", tiled=True),
            (P(), P("x")),
            P(),
            check_vma=False,
        )
        f = vmap(gathered, in_axes=(0, None), spmd_axis_name="x")
        x, y = np.ones((4, 8), np.float32), np.arange(8.0, dtype=np.float32)
        with pytest.raises(ValueError, match="vmap spmd_axis_name cannot appear"):
            f(x, y)
        with disable_vmap_shmap_error(True):
            np.testing.assert_array_equal(f(x, y), x + y)


def test_structs_say_over_which_axes_values_vary():
    mesh = curta.make_mesh((4,), ("x",))
    seen = []

    def body(p, x):
        like = curta.eval_shape(lambda p, x: p @ x, p, x)
        ones = lax.full_like(like, 1)
        seen.extend([like, curta.typeof(like), curta.typeof(ones)])
        return curta.vjp(lambda p: p @ x, p)[1](ones)[0] + 0 * ones

    fun = shard_map(body, mesh=mesh, in_specs=(P(), P("x")), out_specs=P("x"))
    fun(jnp.ones(3), curta.reshard(jnp.ones(12), NamedSharding(mesh, P("x"))))
    like, *avals = seen
    assert [a.str_short() for a in avals] == ["float32[]{V:x}"] * 2
    assert "manual_axis_type=ManualAxisType(varying=frozenset({'x'})" in repr(like)
    assert like != curta.ShapeDtypeStruct((), "float32", sharding=like.sharding)
    assert like.update(shape=(2,)).manual_axis_type.varying == {"x"}
    with pytest.raises(TypeError, match="`manual_axis_type` argument passed to Shape"):
        curta.ShapeDtypeStruct((), "float32", manual_axis_type={"x"})
