"""Meshes, specs, shardings, and arrays that are laid out over devices."""

import copy
import pickle

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import NamedSharding, P, jit, lax
from curta._settings.api_version import jax_api_version
from curta.errors import ShardingTypeError
from curta.experimental.layout import Format, Layout
from curta.sharding import (
    AbstractMesh,
    AxisType,
    Mesh,
    SingleDeviceSharding,
    auto_axes,
    explicit_axes,
    get_abstract_mesh,
    get_mesh,
    use_abstract_mesh,
)

AUTO = (AxisType.Auto,) * 2
X = np.arange(16.0, dtype=np.float32).reshape(8, 2)


def auto_mesh():
    return curta.make_mesh((4, 2), ("x", "y"), AUTO)


def explicit_mesh():
    return curta.make_mesh((4, 2), ("x", "y"))


class TestDevices:
    def test_counts_and_flag(self, monkeypatch):
        assert curta.device_count() == curta.local_device_count() == 8
        assert repr(curta.devices()[3]) == "CpuDevice(id=3)"
        assert str(curta.devices()[3]) == "cpu:3"
        curta.config.update("jax_num_cpu_devices", -1)
        monkeypatch.setenv("XLA_FLAGS", "--a --xla_force_host_platform_device_count=5")
        assert curta.device_count() == 5
        monkeypatch.delenv("XLA_FLAGS")
        assert len(curta.devices()) == curta.config.curta_simulate_hosts

    def test_committed_to_different_devices(self):
        one, two = curta.devices()[1:3]
        x, y = curta.device_put(X, one), curta.device_put(X, two)
        for call in (lambda: x + y, lambda: jit(lambda a, b: a * b)(x, y)):
            with pytest.raises(ValueError, match="Received incompatible devices") as e:
                call()
            assert "device ids [1]" in str(e.value)
            assert "device ids [2]" in str(e.value)
        assert (x + jnp.ones((8, 2))).devices() == {one}
        assert (x + 1).device == one and jit(jnp.sin)(x).committed
        assert not jnp.ones(3).committed

    def test_derivatives_go_back(self):
        one, two = curta.devices()[1:3]
        x = curta.device_put(2.0, one)
        y, ct = curta.value_and_grad(lambda x: curta.device_put(x, two) * 3.0)(x)
        assert y.devices() == {two} and ct.devices() == {one}
        assert float(ct) == 3.0

    def test_like_functions_stay(self):
        x = curta.device_put(X, curta.devices()[5])
        assert jnp.zeros_like(x).devices() == x.devices()
        rows = curta.device_put(X, NamedSharding(auto_mesh(), P("x")))
        assert jnp.ones_like(rows).sharding == rows.sharding


class TestValues:
    def test_spec(self):
        assert repr(P("x", None, ("x", "y"))) == "P('x', None, ('x', 'y'))"
        assert P(("x",)) is P("x") and P(["x", "y"]) is P(("x", "y"))
        assert P("x") != P("x", None) and P("x") + P(None) is P("x", None)
        assert P("x") + ("y",) is P("x", "y") and ("y",) + P("x") is P("y", "x")
        assert list(P("x", None)) == ["x", None] and P("x", None)[0] == "x"
        assert P("x", ("y",)).index("y") == 1 and P(None, None).count(None) == 2
        for version, kind in ("0.11", ""), ("0.12", ", unreduced_kind=sum"):
            with jax_api_version(version):
                assert repr(P(unreduced={"x"})) == f"P(unreduced={{'x'}}{kind})"
        assert pickle.loads(pickle.dumps(P("x"))) is P("x")

    @pytest.mark.parametrize(
        ("error", "message", "make"),
        [
            (TypeError, "Subclassing", lambda: type("S", (P,), {})),
            (TypeError, "unreduced argument", lambda: P(unreduced="x")),
            (ValueError, "cannot overlap", lambda: P("x", unreduced={"x"})),
            (ValueError, "cannot overlap", lambda: P(reduced={"x"}, unreduced={"x"})),
            (ValueError, "nested tuple", lambda: P(("x", ("y",)))),
            (AttributeError, "cannot assign", lambda: setattr(P("x"), "reduced", {})),
        ],
    )
    def test_spec_errors(self, error, message, make):
        with pytest.raises(error, match=message):
            make()

    def test_mesh(self):
        mesh = explicit_mesh()
        assert repr(mesh) == (
            "Mesh(axis_sizes=(4, 2), axis_names=('x', 'y'),"
            " axis_types=(Explicit, Explicit))"
        )
        assert str(mesh) == "Mesh('x': 4, 'y': 2, axis_types=(Explicit, Explicit))"
        assert str(mesh.abstract_mesh) == (
            "AbstractMesh('x': 4, 'y': 2, axis_types=(Explicit, Explicit),"
            " device_kind=cpu, num_cores=None, platform=cpu)"
        )
        assert mesh is explicit_mesh() and pickle.loads(pickle.dumps(mesh)) is mesh
        assert mesh is not auto_mesh() and auto_mesh().are_all_axes_auto
        assert mesh.size == 8 and dict(mesh.shape) == {"x": 4, "y": 2}
        assert mesh.device_ids.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
        assert mesh.update(axis_names=("a", "b")).axis_names == ("a", "b")
        other = mesh.abstract_mesh.update_axis_types({"x": AxisType.Manual})
        assert other.manual_axes == ("x",) and other.explicit_axes == ("y",)

    @pytest.mark.parametrize(
        ("error", "message", "make"),
        [
            (ValueError, "Number of devices 8", lambda: curta.make_mesh((9,), "x")),
            (ValueError, "sequence of ints", lambda: curta.make_mesh((1.5,), "x")),
            (ValueError, "to equal the length", lambda: Mesh(curta.devices(), ())),
            (ValueError, "cannot be None", lambda: Mesh(curta.devices(), (None,))),
            (TypeError, "AxisType", lambda: Mesh(curta.devices(), ("x",), ("Auto",))),
            (ValueError, "number of axis_types", lambda: AbstractMesh((2,), "x", AUTO)),
            (ValueError, "does not implement", lambda: AbstractMesh((2,), "x").devices),
        ],
    )
    def test_mesh_errors(self, error, message, make):
        with pytest.raises(error, match=message):
            make()

    def test_named_sharding(self):
        mesh = auto_mesh()
        rows = NamedSharding(mesh, P("x"))
        assert repr(rows) == (
            "NamedSharding(mesh=Mesh('x': 4, 'y': 2, axis_types=(Auto, Auto)),"
            " spec=P('x',), memory_kind=device)"
        )
        assert rows == NamedSharding(mesh, P("x")) and len({rows, copy.copy(rows)}) == 1
        assert rows != NamedSharding(mesh, P("x", None))
        assert rows.is_equivalent_to(NamedSharding(mesh, P("x", None)), 2)
        assert not rows.is_equivalent_to(NamedSharding(mesh, P(None, "x")), 2)
        assert rows.shard_shape((8, 2)) == (2, 2) and rows.num_devices == 8
        both = NamedSharding(mesh, P(("x", "y")))
        indices = both.devices_indices_map((8, 2))
        assert indices[curta.devices()[3]] == (slice(3, 4), slice(None))
        turned = NamedSharding(mesh, P(("y", "x"))).devices_indices_map((8,))
        assert turned[curta.devices()[1]] == (slice(4, 5),)
        assert NamedSharding(mesh, P()).is_fully_replicated
        assert both.replicated_axes == frozenset()

    @pytest.mark.parametrize(
        ("message", "make"),
        [
            ("Resource axis: z", lambda m: NamedSharding(m, P("z"))),
            ("duplicate entries", lambda m: NamedSharding(m, P("x", "x"))),
            ("rank at least 3", lambda m: curta.device_put(X, P("x", None, "y"))),
            ("evenly divide", lambda m: curta.device_put(np.ones(6), P("x"))),
        ],
    )
    def test_named_sharding_errors(self, message, make):
        mesh = auto_mesh()
        with curta.set_mesh(mesh), pytest.raises(ValueError, match=message):
            make(mesh)

    def test_scope(self):
        mesh = explicit_mesh()
        assert get_mesh().empty and get_abstract_mesh().empty
        with curta.set_mesh(mesh):
            assert get_mesh() is mesh and get_abstract_mesh() is mesh.abstract_mesh
            with use_abstract_mesh(auto_mesh().abstract_mesh):
                assert get_abstract_mesh().are_all_axes_auto
            with pytest.raises(ValueError, match="outside of `jax.jit`"):
                jit(lambda x: [get_mesh(), x][1])(1.0)
        assert get_mesh().empty
        with pytest.raises(ValueError, match="Expected mesh of type"):
            curta.set_mesh("x")


class TestArrays:
    def test_shards(self):
        x = curta.device_put(X, NamedSharding(auto_mesh(), P("x")))
        shards = x.addressable_shards
        assert [s.replica_id for s in shards] == [0, 1] * 4
        assert shards[2].index == (slice(2, 4), slice(None))
        assert shards[2].device == curta.devices()[2]
        np.testing.assert_array_equal(shards[2].data, X[2:4])
        assert shards[2].data.devices() == {curta.devices()[2]}
        assert x.is_fully_addressable and not x.is_fully_replicated
        assert x.devices() == set(curta.devices()) and x.device == x.sharding
        assert repr(x) == repr(jnp.array(X))
        np.testing.assert_array_equal(x, X)

    def test_from_parts(self):
        where = NamedSharding(auto_mesh(), P("x", "y"))
        asked = []

        def part(index):
            asked.append(index)
            return X[index]

        x = curta.make_array_from_callback((8, 2), where, part)
        assert len(asked) == 8 and x.sharding == where
        np.testing.assert_array_equal(x, X)
        parts = [s.data for s in x.addressable_shards]
        y = curta.make_array_from_single_device_arrays((8, 2), where, parts[::-1])
        np.testing.assert_array_equal(y, X)
        z = curta.make_array_from_process_local_data(where, X)
        np.testing.assert_array_equal(z, X)
        with pytest.raises(
            ValueError, match=r"Expected shard.*Array is float32\[8,2\]"
        ):
            curta.make_array_from_callback((8, 2), where, lambda i: X)
        with pytest.raises(ValueError, match="`jax.make_array_from_callback`, it must"):
            curta.make_array_from_callback((8, 2), where, part, dtype="int32")

    PARTS = {
        "few": ([0], {}, "Expected 2 per-device arrays .* but got 1"),
        "twice": ([1, 1], {}, r"must be from distinct devices.* IDs \[1, 1\]"),
        "elsewhere": ([1, 2], {}, r"contains devices \{0\} .*contain devices \{2\}"),
        "wrong dtype": ([0, 1], {"dtype": "int32"}, "dtype=int32 and shard dtype=floa"),
    }

    @pytest.mark.parametrize(("ids", "options", "message"), PARTS.values(), ids=PARTS)
    def test_parts_that_do_not_fit(self, ids, options, message):
        where = NamedSharding(Mesh(np.array(curta.devices()[:2]), "x"), P("x"))
        parts = [curta.device_put(np.ones(1), curta.devices()[i]) for i in ids]
        make = curta.make_array_from_single_device_arrays
        with pytest.raises(ValueError, match=message):
            make((2,), where, parts, **options)

    def test_parts_of_several_kinds(self):
        where = NamedSharding(Mesh(np.array(curta.devices()[:2]), "x"), P("x"))
        make = curta.make_array_from_single_device_arrays
        first, second = (curta.device_put(np.ones(1), d) for d in where.devices)
        with pytest.raises(
            ValueError, match="matching dtypes. Got int32, expected flo"
        ):
            make((2,), where, [first, second.astype("int32")])
        with pytest.raises(TypeError, match="must be a list or tuple, but got <class"):
            make((2,), where, first)
        with pytest.raises(
            TypeError, match="Unsupported type for elements in `arrays`"
        ):
            make((2,), where, [first, np.ones(1)])

    def test_older_puts(self):
        with pytest.warns(DeprecationWarning):
            x = curta.device_put_sharded([*X], curta.devices())
        np.testing.assert_array_equal(x, X)
        assert x.sharding.num_devices == 8
        with pytest.warns(DeprecationWarning):
            x = curta.device_put_replicated({"a": X}, curta.devices())["a"]
        assert x.shape == (8, 8, 2)

    # What each op makes of an array whose dims are split over x and y.
    SPREAD = {
        "elementwise": (lambda x: jnp.sin(x) + 1, P("x", "y")),
        "with a plain array": (lambda x: jnp.ones((8, 2)) * x, P("x", "y")),
        "transpose": (lambda x: x.T, P("y", "x")),
        "sum": (lambda x: x.sum(), P()),
        "sum of rows": (lambda x: x.sum(0), P("y")),
        "dot": (lambda x: x @ x.T, P("x")),
        "row": (lambda x: x[0], P("y")),
        "rows": (lambda x: x[:4], P("x", "y")),
        "new dim": (lambda x: x[:, None], P("x", None, "y")),
        "ravel": (lambda x: x.reshape(-1), P("x")),
        "regroup": (lambda x: x.reshape(2, 8), P()),
        "common outer part": (
            lambda x: jnp.concatenate([x.T] * 3).reshape(4, 12),
            P("y"),
        ),
        "stack": (lambda x: jnp.stack([x, x]), P(None, "x", "y")),
        "broadcast": (lambda x: jnp.broadcast_to(x, (3, 8, 2)), P(None, "x", "y")),
        "cumsum": (lambda x: jnp.cumsum(x, 0), P("x", "y")),
        "scan": (
            lambda x: lax.scan(lambda c, a: (c + a, c * a), x[0], x)[1],
            P(None, "y"),
        ),
        "cond": (lambda x: lax.cond(True, jnp.sin, jnp.cos, x), P("x", "y")),
        "while": (
            lambda x: lax.while_loop(lambda c: c.sum() < 1e3, lambda c: c * 2, x),
            P("x", "y"),
        ),
    }

    @pytest.mark.parametrize("name", SPREAD)
    def test_results(self, name):
        fun, spec = self.SPREAD[name]
        x = curta.device_put(X, NamedSharding(auto_mesh(), P("x", "y")))
        for call in (fun, jit(fun)):
            out = call(x)
            np.testing.assert_allclose(out, call(X), rtol=1e-6)
            assert isinstance(out.sharding, NamedSharding)
            assert out.sharding.spec == spec

    def test_two_meshes_of_the_same_devices(self):
        flat = curta.make_mesh((8,), ("i",), AUTO[:1])
        x = curta.device_put(X, NamedSharding(auto_mesh(), P("x")))
        over = curta.shard_map(
            lambda v: 2 * v, mesh=flat, in_specs=P("i"), out_specs=P("i")
        )
        for call in (over, jit(over)):
            assert call(x).sharding == NamedSharding(flat, P("i"))
        y = curta.device_put(X, NamedSharding(flat, P("i")))
        np.testing.assert_array_equal(x + y, 2 * X)
        assert curta.pmap(lambda v: v + 1)(x).sharding.num_devices == 8

    def test_iteration_and_indexing_leave_the_rest(self):
        x = curta.device_put(X, NamedSharding(auto_mesh(), P("x", "y")))
        rows = list(x)
        assert rows[1].sharding.spec == P("y")
        np.testing.assert_array_equal(rows[1], X[1])
        assert x.at[0].set(1.0).sharding.num_devices == 8

    def test_pictures(self, capsys):
        x = curta.device_put(X, NamedSharding(auto_mesh(), P("x", "y")))
        curta.debug.visualize_array_sharding(x)
        text = capsys.readouterr().out.splitlines()
        assert len(text) == 9 and "CPU 0" in text[1] and "CPU 7" in text[7]
        curta.debug.visualize_array_sharding(x[:, 0])
        assert "CPU 0,1" in capsys.readouterr().out
        wide = curta.device_put(np.ones((8, 16)), NamedSharding(auto_mesh(), P("x")))
        curta.debug.visualize_array_sharding(wide)
        text = capsys.readouterr().out.splitlines()
        assert len(text) == 9 and text[1] == f"│{'CPU 0,1'.center(48)}│"
        curta.debug.visualize_array_sharding(wide.T, scale=1.4)
        text = capsys.readouterr().out.splitlines()
        assert len(text) == 15 and text[0].count("┬") == 3
        assert {*map(len, text)} == {33} and "CPU 0,1" in text[7]
        seen = []

        @jit
        def f(x):
            curta.debug.inspect_array_sharding(2 * x, callback=seen.append)
            return x

        f(x), f(x)
        assert [s.spec for s in seen] == [P("x", "y")]
        seen.clear()
        f.lower(x.T).compile()
        assert [s.spec for s in seen] == [P("y", "x")]
        with pytest.raises(ValueError, match="1 and 2 dims"):
            curta.debug.visualize_sharding((2, 2, 2), x.sharding)


def within_mesh(spec):
    with pytest.warns(DeprecationWarning), auto_mesh():
        return jit(abs, in_shardings=spec)(X)


class TestJit:
    def test_in_and_out_shardings(self):
        mesh = auto_mesh()
        rows, columns = NamedSharding(mesh, P("x")), NamedSharding(mesh, P(None, "y"))
        f = jit(lambda x: 2 * x, in_shardings=rows, out_shardings=columns)
        np.testing.assert_array_equal(f(X), 2 * X)
        assert f(X).sharding == columns and f(curta.device_put(X, rows)).committed
        with pytest.raises(ValueError, match="Sharding passed to jit does not match"):
            f(curta.device_put(X, columns))
        with pytest.raises(ValueError, match="evenly divide"):
            f(np.ones((6, 2)))
        trees = jit(
            lambda a: {"s": a["v"].sum(), "v": a["v"]},
            in_shardings=({"v": rows},),
            out_shardings={"s": None, "v": columns},
        )({"v": X})
        assert trees["v"].sharding == columns and trees["s"].sharding.spec == P()
        compiled = f.lower(X).compile()
        assert compiled.input_shardings == ((rows,), {})
        assert compiled.output_shardings == columns

    @pytest.mark.parametrize(
        ("error", "message", "call"),
        [
            (RuntimeError, "non-empty mesh", lambda: jit(abs, in_shardings=P("x"))(X)),
            (RuntimeError, "non-empty mesh", lambda: within_mesh(P("x"))),
            (TypeError, "leaf specifications", lambda: jit(abs, in_shardings=1)),
            (
                ValueError,
                "wrong length",
                lambda: jit(lambda x, y: x, in_shardings=(None,))(X, X),
            ),
            (
                ValueError,
                "does not support kwargs",
                lambda: jit(lambda x: x, in_shardings=(P(),))(x=X),
            ),
            (
                ValueError,
                "tree prefix",
                lambda: jit(lambda x: x, out_shardings=(None, None))(X),
            ),
        ],
    )
    def test_errors(self, error, message, call):
        with pytest.raises(error, match=message):
            call()

    def test_constraints(self):
        mesh = auto_mesh()
        both = NamedSharding(mesh, P("x", "y"))
        f = jit(lambda x: lax.with_sharding_constraint(2 * x, both))
        assert f(X).sharding == both
        assert lax.with_sharding_constraint(X, both).sharding == both
        np.testing.assert_allclose(
            curta.grad(lambda x: f(x).sum())(X), 2 * np.ones(X.shape)
        )
        batched = jit(curta.vmap(lambda x: lax.with_sharding_constraint(x, both)))
        assert batched(np.ones((3, 8, 2))).sharding.spec == P(None, "x", "y")
        with curta.set_mesh(mesh):
            assert jit(lambda x: lax.with_sharding_constraint(x, P("y")))(
                X
            ).sharding == NamedSharding(mesh, P("y"))
        with pytest.raises(RuntimeError, match="non-empty mesh"):
            lax.with_sharding_constraint(X, P("x"))
        with pytest.raises(ValueError, match="incompatible with its sharding"):
            lax.with_sharding_constraint(1.0, both)
        placed = curta.device_put(X, curta.devices()[0])
        with pytest.raises(ValueError, match="Received incompatible devices"):
            f(placed)

    def test_alike(self):
        where = NamedSharding(auto_mesh(), P("x"))
        with jax_api_version("0.11"):  # the last that has it
            alike = jit(curta.experimental.shard_alike.shard_alike)
        _, y = alike(curta.device_put(X, where), X)
        assert y.sharding == where

    def test_single_devices(self):
        with pytest.warns(DeprecationWarning):
            f = jit(lambda x: x + 1, device=curta.devices()[2])
        assert f(X).sharding == SingleDeviceSharding(curta.devices()[2])


class TestExplicit:
    """Axes whose split is part of arrays' types."""

    def test_types(self):
        mesh = explicit_mesh()
        x = curta.device_put(X, NamedSharding(mesh, P("x", "y")))
        assert str(curta.typeof(x)) == "float32[8@x,2@y]"
        assert curta.typeof(x).sharding.spec == P("x", "y")

        def f(x):
            y = jnp.sin(x).T
            assert curta.typeof(y).sharding.spec == P("y", "x")
            return y.sum(1)

        assert "f32[2@y]" in str(curta.make_jaxpr(f)(x))
        for call in (f, jit(f)):
            assert call(x).sharding == NamedSharding(mesh, P("y"))
        g = curta.grad(lambda x: f(x).sum())
        assert g(x).sharding == x.sharding and jit(g)(x).sharding == x.sharding
        np.testing.assert_allclose(g(x), np.cos(X), rtol=1e-6)

    def test_gradients_are_on_the_mesh_of_their_values(self):
        """Another one, of other devices, has the same axes, and so the same types."""
        devices = curta.devices()[:8]
        types = (AxisType.Explicit, AxisType.Explicit)
        meshes = [
            curta.make_mesh((2, 2), ("x", "y"), types, devices=part)
            for part in (devices[:4], devices[4:])
        ]
        for mesh in (*meshes, meshes[0]):
            x = curta.device_put(X, NamedSharding(mesh, P("x", "y")))
            for f in (lambda x: x.sum(), lambda x: jnp.sin(x).T.sum(1).sum()):
                for g in curta.grad(f), jit(curta.grad(f)):
                    assert g(x).sharding == x.sharding

    def test_iteration(self):
        """Goes on where an index is refused, as in JAX."""
        mesh = explicit_mesh()
        x = curta.device_put(X, NamedSharding(mesh, P("x")))
        first, *rest = x
        assert len(rest) == len(X) - 1 and first.sharding.num_devices == 1
        np.testing.assert_array_equal([first, *rest], X)
        refusals = {
            "0.12": "unstack operand cannot be sharded on the unstacking axis 0",
            "0.10": "slicing on sharded dims",
        }
        for version, refusal in refusals.items():
            with curta._settings.api_version.jax_api_version(version):
                with pytest.raises(ShardingTypeError, match=refusal):
                    jit(list)(x)

    def test_reshape(self):
        mesh = explicit_mesh()
        x = curta.device_put(np.ones((8, 6)), NamedSharding(mesh, P(("x", "y"))))
        assert curta.typeof(x.reshape(4, 2, 6)).sharding.spec == P("x", "y", None)
        assert curta.typeof(x.reshape(48)).sharding.spec == P(("x", "y"))
        y = curta.device_put(np.ones((6, 8)), NamedSharding(mesh, P(None, "x")))
        with pytest.raises(ShardingTypeError, match="This reshape is not supported"):
            y.reshape(48)

    @pytest.mark.parametrize(
        ("message", "call"),
        [
            ("illegally sharded", lambda a, b: a @ a.T),
            ("incompatible shardings for broadcasting", lambda a, b: a + b),
            ("Contracting dimensions are sharded", lambda a, b: b @ a),
            ("unsharded over the sorting", lambda a, b: jnp.sort(a, axis=0)),
        ],
    )
    def test_ambiguous(self, message, call):
        mesh = explicit_mesh()
        square = np.ones((8, 8), np.float32)
        a = curta.device_put(square, NamedSharding(mesh, P("x", None)))
        b = curta.device_put(square, NamedSharding(mesh, P("y", "x")))
        for run in (call, jit(call)):
            with pytest.raises(ShardingTypeError, match=message):
                run(a, b)

    def test_out_sharding(self):
        mesh = explicit_mesh()
        with curta.set_mesh(mesh):
            x = curta.device_put(np.ones((8, 8), np.float32), P("x"))
            out = jnp.dot(x.T, x, out_sharding=P(None, "y"))
            assert out.sharding.spec == P(None, "y")
            np.testing.assert_array_equal(out, np.full((8, 8), 8))
            assert jnp.zeros((8, 2), out_sharding=P("x")).sharding.spec == P("x", None)
            key = curta.random.key(0)
            drawn = curta.random.normal(key, (8,), out_sharding=P("x"))
            assert drawn.sharding.spec == P("x")
            np.testing.assert_array_equal(drawn, curta.random.normal(key, (8,)))
        with pytest.raises(ValueError, match="not under a mesh context"):
            jnp.zeros(8, out_sharding=P("x"))
        with curta.set_mesh(auto_mesh()), pytest.raises(ValueError, match="type Auto"):
            jnp.zeros(8, out_sharding=P("x"))

    def test_reshard_and_modes(self):
        mesh = explicit_mesh()
        with curta.set_mesh(mesh):
            x = curta.reshard(X, P("x"))
            assert curta.typeof(x).sharding.spec == P("x", None)
            y = curta.reshard(x, P(None, "y"))
            assert y.sharding.spec == P(None, "y")
            f = auto_axes(lambda x: x.T @ x, out_sharding=P("y"))
            assert f(x).sharding.spec == P("y", None)
            back = curta.grad(lambda x: (curta.reshard(x, P("y")) ** 2).sum())(x)
            assert back.sharding.spec == P("x", None)
        with curta.set_mesh(auto_mesh()):
            g = explicit_axes(lambda x: [self.seen(x), x * 2][1], in_sharding=P("x"))
            np.testing.assert_array_equal(g(X), 2 * X)
            assert self.spec == P("x", None)
        with pytest.raises(ValueError, match="not under a mesh context"):
            curta.reshard(X, P("x"))

    def seen(self, x):
        self.spec = curta.typeof(x).sharding.spec

    def test_abstract_meshes_stand_for_the_mesh_in_scope(self):
        mesh = explicit_mesh()
        spec = NamedSharding(mesh.abstract_mesh, P("x"))
        struct = curta.ShapeDtypeStruct((8, 2), "float32", sharding=spec)
        with curta.set_mesh(mesh):
            assert jnp.zeros_like(struct).sharding == NamedSharding(mesh, P("x"))
            assert curta.device_put(X, spec).sharding == NamedSharding(mesh, P("x"))

    def test_carries_keep_their_split(self):
        with curta.set_mesh(explicit_mesh()):
            x = curta.reshard(X, P("x"))
            with pytest.raises(TypeError, match="shardings do not match"):
                lax.scan(lambda c, _: (curta.reshard(c, P("y")), None), x, None, 2)


def test_sums_are_over_explicit_axes():
    mesh = curta.make_mesh((1, 1), ("x", "y"), (AxisType.Auto, AxisType.Explicit))
    assert NamedSharding(mesh, P("x", unreduced={"y"})).unreduced_axes == ("y",)
    for kind in ("unreduced", "reduced"):
        with pytest.raises(
            ValueError, match="axes can only refer to mesh axes that is"
        ):
            NamedSharding(mesh, P("y", **{kind: {"x"}}))
        with pytest.raises(ValueError, match="is not found in mesh.axis_names"):
            NamedSharding(mesh, P("y", **{kind: {"z"}}))


def test_constraints_outside_of_programs():
    mesh = curta.make_mesh((1,), ("x",), (AxisType.Auto,))
    rows = NamedSharding(mesh, P("x", None))
    transposed = Format(Layout((1, 0)), rows)
    for given in (rows, transposed):
        assert lax.with_sharding_constraint(X, given).sharding.spec == P("x", None)
        inside = curta.jit(lambda x, s=given: lax.with_sharding_constraint(x, s))(X)
        assert inside.sharding.is_equivalent_to(rows, 2)
    with pytest.raises(ValueError, match="rank of the value"):
        lax.with_sharding_constraint(X, Format(Layout((0,)), rows))
