"""Arrays record where they are made: on the default device, or a mesh in scope."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import P
from curta.sharding import AxisType, NamedSharding

pytestmark = pytest.mark.usefixtures("eight_devices")

MAKERS = {
    "ones": lambda: jnp.ones(8),
    "scalar": lambda: jnp.asarray(2.0),
    "NumPy": lambda: jnp.asarray(np.arange(3)),
    "op": lambda: np.ones(3, np.float32) + jnp.ones(3),
    "method": lambda: jnp.arange(4).sum(),
    "key": lambda: curta.random.key(0),
    "jit": lambda: curta.jit(lambda x: x + 1)(np.ones(4, np.float32)),
    "jit without arguments": lambda: curta.jit(lambda: jnp.zeros(3))(),
    "put": lambda: curta.device_put(jnp.ones(3)),
}


@pytest.mark.parametrize("name", MAKERS)
class TestMade:
    def test_on_the_default_device(self, name):
        third = curta.devices()[2]
        with curta.default_device(third):
            x = MAKERS[name]()
            assert x.devices() == {third}
        assert x.devices() == {third}
        assert not x.committed
        if name != "key":
            assert (x + 1).devices() == {curta.devices()[0]}
            with curta.default_device(curta.devices()[3]):
                assert (x + 1).devices() == {curta.devices()[3]}

    @pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
    def test_on_a_mesh(self, name, kind):
        mesh = curta.make_mesh((2,), ("x",), (kind,))
        with curta.set_mesh(mesh):
            x = MAKERS[name]()
            assert x.sharding.mesh is mesh
        assert x.sharding.mesh is mesh
        assert x.committed
        assert x.is_fully_replicated
        if name != "key":
            assert (x + 1).sharding.mesh is mesh
            with pytest.raises(ValueError, match="incompatible devices"):
                x + curta.device_put(x, curta.devices()[3])


def test_what_was_made_before_stays_where_it_is():
    x = jnp.ones(8)
    with curta.set_mesh(curta.make_mesh((2,), ("x",))) as _:
        assert x.sharding.device_set == {curta.devices()[0]}
        assert (x + 1).sharding.num_devices == 2
    with curta.default_device(curta.devices()[2]):
        assert x.devices() == {curta.devices()[0]}
        assert (x + 1).devices() == {curta.devices()[2]}


def test_of_two_meshes_each_array_has_its_own():
    automatic = curta.make_mesh((2,), ("x",), (AxisType.Auto,))
    explicit = curta.make_mesh((2,), ("x",))
    with curta.set_mesh(explicit):
        x = curta.device_put(np.arange(8), P("x"))
        with curta.set_mesh(automatic):
            y = jnp.ones(8)
        first, second = curta.jit(lambda x, y: (x, y))(x, y)
    assert first.sharding == NamedSharding(explicit, P("x"))
    assert second.sharding.mesh is automatic


@pytest.mark.parametrize("first", [0, 2])
@pytest.mark.parametrize("f", [jnp.sin, jnp.sum, lambda x: x.reshape(2, 4)])
def test_derivatives_are_on_the_mesh_of_their_values(f, first):
    """Where another mesh has the same axes, and cotangents are NumPy arrays."""
    meshes = [
        curta.sharding.Mesh(np.array(curta.devices()[i : i + 2]), ("x",), explicit)
        for i in (0, 2)
        for explicit in [(AxisType.Explicit,)]
    ]
    mesh = meshes[first // 2]
    given = np.arange(8, dtype=np.float32)
    x = curta.device_put(given, NamedSharding(mesh, P("x")))
    y, back = curta.vjp(f, x)
    seed = np.ones(y.shape, np.float32)
    (found,) = back(seed)
    assert y.sharding.mesh is found.sharding.mesh is mesh
    (expected,) = curta.vjp(f, given)[1](seed)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    batched = curta.vmap(lambda ct: back(ct)[0])(np.stack([seed, 2 * seed]))
    assert batched.sharding.mesh is mesh
    pushed = curta.linearize(f, x)[1](given)
    assert pushed.sharding.mesh is mesh
    assert curta.grad(lambda x: f(x).sum())(x).sharding.mesh is mesh


def test_a_shard_map_does_not_close_over_arrays_on_its_explicit_axes():
    with curta.set_mesh(curta.make_mesh((2,), ("x",))):
        w, x = jnp.ones(4), curta.device_put(np.ones((4, 4)), P("x"))
        f = curta.shard_map(lambda a: a * w, in_specs=P("x"), out_specs=P("x"))
        for call in (f, curta.jit(f)):
            with pytest.raises(NotImplementedError, match="Closing over inputs"):
                call(x)
    with curta.set_mesh(curta.make_mesh((2,), ("x",), (AxisType.Auto,))):
        w = jnp.ones(4)
        f = curta.shard_map(lambda a: a * w, in_specs=P("x"), out_specs=P("x"))
        np.testing.assert_array_equal(f(np.ones((4, 4), np.float32)), 1)


def test_a_constraint_within_shard_map_names_no_axis_that_is_mapped_over():
    mesh = curta.make_mesh((2, 2), ("i", "j"), (AxisType.Auto,) * 2)
    place = NamedSharding(mesh, P("i", "j"))

    def body(x):
        return curta.lax.with_sharding_constraint(x, place)

    for names in ({"i"}, {"i", "j"}):
        f = curta.shard_map(
            body,
            mesh=mesh,
            in_specs=P("i"),
            out_specs=P("i"),
            axis_names=names,
            check_vma=False,
        )
        with pytest.raises(ValueError, match="contains a manual axes .* of mesh"):
            curta.jit(f)(jnp.ones((4, 8)))


@pytest.mark.parametrize("kind", [AxisType.Auto, AxisType.Explicit])
def test_callbacks_have_arrays_of_their_own(kind):
    """Not on the mesh in scope; each of their devices makes one call."""
    seen = []

    def on_host(x):
        seen.append((x + 1).sharding.num_devices)
        return x + 1, x * 2.0

    def body(x):
        like = curta.ShapeDtypeStruct(x.shape, x.dtype)
        return curta.pure_callback(on_host, (like, like), x)

    values = np.arange(32, dtype=np.float32).reshape(16, 2)
    with curta.set_mesh(curta.make_mesh((8,), ("x",), (kind,))):
        x = curta.device_put(values, P("x"))
        f = curta.shard_map(
            body, in_specs=P("x"), out_specs=(P("x"), P("x")), check_vma=False
        )
        for call in (f, curta.jit(f)):
            one, two = call(x)
            np.testing.assert_array_equal(one, values + 1)
            np.testing.assert_array_equal(two, 2 * values)
    assert {*seen} == {1}
