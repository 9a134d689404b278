"""Memories, arrays from one process, and `jit` with shardings and meshes in scope."""

import pickle

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import NamedSharding, P, lax
from curta.experimental.pjit import pjit
from curta.sharding import (
    AbstractMesh,
    AxisType,
    ManualAxisType,
    Mesh,
    SingleDeviceSharding,
    make_single_device_sharding,
    use_abstract_mesh,
)

AUTO = (AxisType.Auto,) * 2
X = np.arange(16.0, dtype=np.float32).reshape(8, 2)


def auto_mesh():
    return curta.make_mesh((4, 2), ("x", "y"), AUTO)


class TestMemories:
    def test_names(self):
        mesh = auto_mesh()
        pinned = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
        plain = NamedSharding(mesh, P("x"))
        assert (pinned.memory_kind, plain.memory_kind) == ("pinned_host", "device")
        assert pinned != plain and pinned == plain.with_memory_kind("pinned_host")
        assert not pinned.is_equivalent_to(plain, 2)
        assert pickle.loads(pickle.dumps(pinned)) == pinned
        assert pinned.update(spec=P("y")).memory_kind == "pinned_host"
        x = curta.device_put(X, pinned)
        assert x.sharding == pinned
        unpinned = SingleDeviceSharding(curta.devices()[0], memory_kind="unpinned_host")
        assert curta.device_put(1.0, unpinned).sharding.memory_kind == "unpinned_host"
        assert unpinned == make_single_device_sharding(
            curta.devices()[0], memory_kind="unpinned_host"
        )

    def test_of_abstract_meshes(self):
        mesh = AbstractMesh((2,), ("x",))
        assert NamedSharding(mesh, P()).memory_kind is None
        kind = NamedSharding(mesh, P(), memory_kind="pinned_host").memory_kind
        assert kind == "pinned_host"
        with pytest.raises(ValueError, match="Got invalid memory kind"):
            NamedSharding(mesh, P(), memory_kind="paper")
        with pytest.raises(ValueError, match="Could not find memory"):
            NamedSharding(auto_mesh(), P(), memory_kind="paper")


class TestLocalData:
    def test_trees(self):
        rows = NamedSharding(auto_mesh(), P("x"))
        make = curta.make_array_from_process_local_data
        out = make(
            {"a": rows, "b": None}, {"a": X, "b": X[0]}, {"a": (8, 2), "b": (2,)}
        )
        assert out["a"].sharding == rows
        np.testing.assert_array_equal(out["b"], X[0])
        np.testing.assert_array_equal(make(rows, {"a": X}, (8, 2))["a"], X)

    @pytest.mark.parametrize("shape", [(8, 3), (8, None), {"a": (8, 2), "b": (3,)}])
    def test_wrong_shapes(self, shape):
        rows = NamedSharding(auto_mesh(), P("x"))
        with pytest.raises(ValueError):
            curta.make_array_from_process_local_data(rows, {"a": X}, shape)


class TestPjit:
    """The older `pjit` is over the mesh of `with mesh:`."""

    def test_over_the_mesh(self):
        mesh = auto_mesh()
        with pytest.warns(DeprecationWarning), mesh:
            rows = NamedSharding(mesh, P("x"))
            whole = NamedSharding(mesh, P())
            assert pjit(lambda x: x + 1)(X).sharding == whole
            assert pjit(lambda: 1)().sharding == whole
            assert pjit(lambda x: x + 1, P("x"))(X).sharding == rows
            assert pjit(lambda x: x + 1, P("x"), None)(X).sharding == whole
            assert pjit(lambda x: 2 * x, None, P("x"))(X).sharding == rows
            assert curta.jit(lambda x: x + 1)(X).sharding.num_devices == 1
            x = curta.device_put(X, curta.devices()[3])
            with pytest.raises(ValueError, match=r"\[3\].*and jit's context mesh"):
                pjit(lambda x: x)(x)
        assert pjit(lambda x: x + 1, None, None)(X).sharding.num_devices == 1

    def test_set_mesh_holds_for_jit(self):
        mesh = curta.make_mesh((2,), ("z",))
        with curta.set_mesh(mesh):
            out = curta.jit(lambda x: x * 2)(X[0])
        assert out.sharding == NamedSharding(mesh, P(None)) and out.committed


class TestDevicesOfArguments:
    def test_unread_arguments_may_be_anywhere(self):
        one, two = (curta.device_put(X, d) for d in curta.devices()[:2])
        assert curta.jit(lambda x, y: y + 1)(one, two).device == curta.devices()[1]

    def test_names_in_errors(self):
        one, two = (curta.device_put(X, d) for d in curta.devices()[:2])
        with pytest.raises(ValueError, match=r"argument x\[0\] of .*argument x\[1\]"):
            curta.jit(lambda *x: x)(one, two)
        with pytest.raises(ValueError, match=r"t\[0\] of .* argument t\[1\]\[0\] of"):
            curta.jit(lambda t: t)((one, (two, two)))
        where = NamedSharding(auto_mesh(), P())
        with pytest.raises(ValueError, match="and sharding_constraint inside jit with"):
            curta.jit(lambda x: lax.with_sharding_constraint(x, where))(one)
        with pytest.raises(ValueError, match="and explicit output sharding with"):
            curta.jit(lambda x: x, out_shardings=where)(one)

    def test_an_abstract_mesh_is_that_of_the_arguments(self):
        mesh = Mesh(curta.devices()[2:4], "x")
        made_before = Mesh(curta.devices()[:2], "x")
        where = NamedSharding(made_before.abstract_mesh, P("x"))
        f = curta.jit(lambda x: lax.with_sharding_constraint(x, where) + 1)
        x = curta.device_put(X, NamedSharding(mesh, P()))
        assert f(x).sharding == NamedSharding(mesh, P("x"))

    def test_device_and_backend(self):
        where = SingleDeviceSharding(curta.devices()[0])
        for given in (
            {"device": curta.devices()[0], "backend": "cpu"},
            {"backend": "cpu", "in_shardings": where},
            {"backend": "cpu", "out_shardings": where},
        ):
            with (
                pytest.warns(DeprecationWarning),
                pytest.raises(ValueError, match="specif"),
            ):
                curta.jit(lambda x: x, **given)


class TestWrongShardings:
    def test_an_axis_twice(self):
        for what in ("in_shardings", "out_shardings"):
            with pytest.raises(ValueError, match=f"A single {what} specification"):
                curta.jit(lambda x: x, **{what: P("x", "x")})

    def test_names_of_what_does_not_fit(self):
        deep = NamedSharding(auto_mesh(), P(None, "x"))
        with pytest.raises(ValueError, match=r"pjit arguments .* key path d\['a'\]"):
            curta.jit(lambda d: d, in_shardings=deep)({"a": X[0]})
        with pytest.raises(ValueError, match=r"pjit outputs .* key path result\['b'\]"):
            curta.jit(lambda x: {"b": x[0]}, out_shardings=deep)(X)
        with pytest.raises(ValueError, match="should evenly divide"):
            curta.jit(lambda x: x, out_shardings=deep)(np.ones((3, 3)))


class TestAheadOfTime:
    def test_arguments_go_where_they_were(self):
        mesh = auto_mesh()
        rows, columns = (NamedSharding(mesh, P(*s)) for s in ("x", (None, "y")))
        f = curta.jit(lambda x, y: (x * 2, y))
        struct = curta.ShapeDtypeStruct((8, 2), np.float32, sharding=rows)
        for like in (curta.device_put(X, rows), struct):
            compiled = f.lower(like, X).compile()
            (first, second), _ = compiled.input_shardings
            assert first == rows and second == NamedSharding(mesh, P())
            assert compiled.output_shardings[0] == rows
            out, _ = compiled(X, X)
            assert out.sharding == rows
            with pytest.raises(ValueError, match="disagree with the shardings of arg"):
                compiled(curta.device_put(X, columns), X)
        unread = curta.jit(lambda x, y: x).lower(X, X).compile()
        unread(X, curta.device_put(X, columns))

    def test_types_say_where(self):
        mesh = curta.make_mesh((4, 2), ("x", "y"))
        rows = NamedSharding(mesh, P("x"))
        f = curta.jit(lambda x: x * 2, in_shardings=rows)
        lowered = f.lower(X)
        (aval,), _ = lowered.in_avals
        assert aval.sharding == NamedSharding(mesh.abstract_mesh, P("x", None))
        assert lowered.compile()(X).sharding.spec == P("x", None)
        split = curta.device_put(X, rows)
        shape = curta.eval_shape(lambda x: x.T, split)
        assert shape.sharding == NamedSharding(mesh.abstract_mesh, P(None, "x"))

    def test_structs(self):
        mesh = auto_mesh()
        struct = curta.ShapeDtypeStruct((8, 2), np.float32, sharding=P("x"))
        with pytest.raises(TypeError, match="the context mesh cannot be empty"):
            _ = struct.sharding
        with curta.set_mesh(mesh):
            assert struct.sharding == NamedSharding(mesh, P("x"))
        for place in (P("x", None, "y"), NamedSharding(mesh, P("x", None, "y"))):
            with pytest.raises(ValueError, match="only valid for values of rank at"):
                curta.ShapeDtypeStruct((8, 2), np.float32, sharding=place)
        with pytest.raises(ValueError, match="sharding should be an instance of"):
            curta.ShapeDtypeStruct((8, 2), np.float32, sharding="x")
        with pytest.raises(TypeError, match="A ShapeDtypeStruct does not have a value"):
            curta.jit(lambda x: (x, struct))(X)

    def test_types_as_arguments(self):
        aval = curta.core.ShapedArray((8, 2), np.dtype("float32"))
        assert curta.jit(lambda x: x + 1).lower(aval).compile()(X).shape == (8, 2)
        kinds = (AxisType.Explicit, AxisType.Manual)
        mesh = AbstractMesh((4, 2), ("x", "y"), kinds)
        where = {
            "sharding": NamedSharding(mesh, P("x")),
            "manual_axis_type": ManualAxisType(varying={"y"}),
        }
        split = curta.core.ShapedArray((8, 2), np.float32, **where)
        assert split.str_short(True) == "f32[8@x,2]{V:y}"
        assert split.update(shape=(2,)).str_short(True) == "f32[2]{V:y}"


def test_the_sharding_of_an_array_that_no_mesh_splits():
    """It says nothing where a result is to be split; `jit` refuses it."""
    x = jnp.arange(3.0)
    whole = curta.typeof(x).sharding
    key = curta.random.key(0)
    assert curta.random.normal(key, (3,), out_sharding=whole).shape == (3,)
    assert jnp.zeros(3, out_sharding=whole).shape == (3,)
    assert jnp.einsum("i,j->ij", x, x, out_sharding=whole).shape == (3, 3)
    assert x.at[jnp.array([0])].get(out_sharding=whole).shape == (1,)
    places = jnp.array([0, 1, 1])
    assert jnp.bincount(places, length=2, out_sharding=whole).tolist() == [1, 2]
    sums = curta.ops.segment_sum(x, places, 2, out_sharding=whole)
    assert sums.tolist() == [0, 3]
    with pytest.raises(ValueError, match="One of out_shardings leaf .* got an empty"):
        curta.jit(lambda x: x, out_shardings=whole)(x)


def test_what_is_handed_on_stays_where_it_is():
    """Arguments that are results keep their shardings, as they were written."""
    mesh = curta.make_mesh((2, 1), ("x", "y"), (AxisType.Auto,) * 2)
    other = curta.make_mesh((2,), ("z",), (AxisType.Auto,))
    given = [
        curta.NamedSharding(m, spec)
        for m, spec in [(mesh, P("x", None)), (mesh, P(("x", "y"))), (other, P("z"))]
    ]
    args = [curta.device_put(np.ones((4, 2)), s) for s in given]
    outs = curta.jit(lambda x, y, z: (z, x + y, y, x))(*args)
    assert [outs[i].sharding for i in (3, 2, 0)] == given


def test_other_axes_for_the_devices_in_scope():
    mesh = auto_mesh()
    other = AbstractMesh((8,), ("a",), axis_types=(AxisType.Auto,))

    @curta.jit
    def fun(x):
        with use_abstract_mesh(other):
            return lax.with_sharding_constraint(jnp.sin(x), P("a")) * 2

    with curta.set_mesh(mesh):
        out = fun(curta.device_put(X, P("x", "y")))
    assert (out.sharding.spec, out.sharding.mesh.axis_names) == (P("a"), ("a",))
    np.testing.assert_allclose(out, 2 * np.sin(X), rtol=1e-6)


def test_shardings_without_devices_are_over_those_in_scope():
    mesh = auto_mesh()
    with curta.set_mesh(mesh):
        place = NamedSharding(curta.sharding.get_abstract_mesh(), P("x"))
        x = curta.jit(lambda x: 2 * x, out_shardings=place)(X)
        y = curta.jit(lambda x: x + 1, in_shardings=place)(x)
    assert x.sharding == y.sharding == NamedSharding(mesh, P("x"))
    np.testing.assert_array_equal(y, 2 * X + 1)


@pytest.mark.parametrize("dims", [0, 1, 2])
def test_specs_that_say_nothing_of_further_dims(dims):
    mesh, shape = auto_mesh(), (8, 2)[:dims]
    entries = ("x", "y")[:dims]
    place = NamedSharding(mesh, P(*entries, None, None))
    x = X[(0,) * (2 - dims)] if dims else np.float32(1)
    for out in (
        jnp.zeros(shape, device=place),
        jnp.ones(shape, device=place),
        jnp.full(shape, 2.0, device=place),
        jnp.empty(shape, device=place),
        jnp.zeros_like(x, shape=shape, device=place),
        lax.full(shape, 1, sharding=place),
    ):
        assert out.shape == shape
        assert out.sharding.is_equivalent_to(NamedSharding(mesh, P(*entries)), dims)
    further = NamedSharding(mesh, P(*(None,) * dims, "x"))
    for make in (
        lambda: jnp.zeros(shape, device=further),
        lambda: lax.full(shape, 1, sharding=further),
        lambda: curta.device_put(jnp.ones(shape), place),
    ):
        with pytest.raises(ValueError, match="only valid for values of rank at least"):
            make()


def test_what_was_compiled_is_over_the_mesh_of_its_arguments():
    """Though there is another mesh with the same axes."""
    types = (AxisType.Explicit,) * 2
    first = curta.make_mesh((4, 2), ("x", "y"), types)
    devices = np.array(curta.devices())[::-1].reshape(4, 2)
    second = Mesh(devices, ("x", "y"), types)
    for mesh in first, second:
        place = NamedSharding(mesh, P("x", "y"))
        x = curta.device_put(np.ones((8, 4), np.float32), place)
        compiled = curta.jit(lambda x: x.T + 1).lower(x).compile()
        columns = place.update(spec=P("y", "x"))
        assert compiled(x).sharding == compiled.output_shardings == columns
        assert compiled.out_info.sharding == compiled.output_formats.sharding == columns
        assert compiled.input_shardings == ((place,), {})
