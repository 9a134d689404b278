"""Exported functions with shardings: where they are called, and their derivatives."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import export, lax
from curta.sharding import AxisType

X = np.arange(20, dtype=np.float32).reshape(4, 5)


def mesh_of(*places):
    devices = np.array([curta.devices()[i] for i in places])
    return curta.sharding.Mesh(devices, ("d",), (AxisType.Auto,))


def split_rows(mesh):
    return curta.NamedSharding(mesh, curta.P("d", None))


def split_columns(mesh):
    return curta.NamedSharding(mesh, curta.P(None, "d"))


@pytest.mark.parametrize("given", [None, split_rows])
@pytest.mark.parametrize("wanted", [None, split_columns])
def test_derivative_has_shardings(given, wanted):
    mesh = mesh_of(0, 1)
    places = {"in_shardings": given, "out_shardings": wanted}
    places = {k: v(mesh) for k, v in places.items() if v}

    def f(x):
        return jnp.sin(lax.with_sharding_constraint(x, split_rows(mesh)).T)

    found = export.export(curta.jit(f, **places))(X)
    back = found.vjp()
    assert back.nr_devices == 2
    primal = split_rows(mesh) if given else None
    whole = curta.NamedSharding(mesh, curta.P(None, None))
    assert back.in_shardings_jax(mesh) == (primal, places.get("out_shardings", whole))
    assert back.out_shardings_jax(mesh) == (primal,)
    for loaded in found, export.deserialize(found.serialize(vjp_order=1)):
        g = curta.grad(lambda x, e=loaded: jnp.sum(3 * e.call(x)))
        for run in g, curta.jit(g):
            out = run(curta.device_put(X, split_rows(mesh)))
            np.testing.assert_allclose(out, 3 * np.cos(X), rtol=1e-5, atol=1e-6)
            assert out.sharding.is_equivalent_to(split_rows(mesh), 2)


def test_inner_meshes_follow_the_arguments():
    mesh = mesh_of(0, 1)

    @curta.jit
    def f(x):
        return 2 * lax.with_sharding_constraint(x, split_rows(mesh))

    found = export.export(f)(X)
    elsewhere = split_rows(mesh_of(3, 2))
    for loaded in found, export.deserialize(found.serialize()):
        for run in loaded.call, curta.jit(loaded.call):
            out = run(curta.device_put(X, elsewhere))
            np.testing.assert_array_equal(out, 2 * X)
            assert out.sharding.devices == elsewhere.devices


def test_program_for_one_device_runs_on_several():
    one = curta.NamedSharding(mesh_of(0), curta.P("d"))

    @curta.jit
    def f(x):
        return jnp.sum(lax.with_sharding_constraint(x, one) ** 2, axis=0)

    found = export.export(f)(X)
    assert found.nr_devices == 1
    x = curta.device_put(X, split_rows(mesh_of(0, 1, 2, 3)))
    again = export.export(curta.jit(found.call))(X)
    for run in found.call, curta.jit(found.call), again.call:
        np.testing.assert_allclose(run(x), (X**2).sum(0))


def test_other_number_of_devices_is_refused():
    mesh = mesh_of(0, 1)
    found = export.export(curta.jit(jnp.sin, in_shardings=split_rows(mesh)))(X)
    x = curta.device_put(X, split_rows(mesh_of(0, 1, 2, 3)))
    with pytest.raises(ValueError, match="exported for 2 devices and is called .* 4"):
        found.call(x)


def test_runs_on_the_mesh_in_scope():
    two = mesh_of(2, 3)
    f = curta.jit(jnp.sin, in_shardings=split_rows(mesh_of(0, 1)))
    found = export.export(f)(X)
    with curta.set_mesh(two):
        out = found.call(jnp.asarray(X))
    assert out.sharding.device_set == {*curta.devices()[2:4]}
    np.testing.assert_allclose(out, np.sin(X), rtol=1e-6)


def test_derivative_of_integers_of_open_sizes():
    sizes = export.symbolic_args_specs(
        [np.ones((2, 3), np.int32), np.ones((3, 4), np.float32)], ["2, a", "a, 4"]
    )
    found = export.export(curta.jit(lambda i, x: (2 * i.T, x.T * x.T)))(*sizes)
    i, x = np.ones((2, 3), np.int32), np.arange(12, dtype=np.float32).reshape(3, 4)
    for loaded in found, export.deserialize(found.serialize(vjp_order=2)):
        (_, out), pull = curta.vjp(loaded.call, i, x)
        none = np.zeros((3, 2), curta.float0)
        di, dx = pull((none, np.ones(out.shape, np.float32)))
        np.testing.assert_array_equal(dx, 2 * x)
        assert di.dtype == curta.float0 and di.shape == (2, 3)
        _, again = curta.vjp(pull, (none, np.ones(out.shape, np.float32)))
        ((_, ct),) = again((di, np.ones(x.shape, np.float32)))
        np.testing.assert_array_equal(ct, 2 * x.T)


def test_traced_for_other_devices():
    """A program that calls it says so as the function itself does."""
    two = split_rows(mesh_of(0, 1))
    f = curta.jit(lambda x: x * 2, in_shardings=two, out_shardings=two)
    exported = export.export(f)(np.ones((4, 2), np.float32))
    one = split_rows(mesh_of(0))
    x = np.ones((4, 2), np.float32)
    words = (
        "Function <lambda> was exported for 2 devices and is called in a context wit"
    )
    for call in (
        lambda: exported.call(x),
        lambda: curta.jit(exported.call, in_shardings=one)(x),
        lambda: curta.jit(lambda x: curta.jit(exported.call)(x) + 1)(
            curta.device_put(x, one)
        ),
    ):
        with pytest.raises(ValueError, match=words):
            call()
    assert curta.jit(exported.call, in_shardings=two)(x).sharding == two
