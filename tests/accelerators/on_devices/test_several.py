"""Programs over the devices of a plugin."""

import functools

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.sharding import AxisType, NamedSharding, PartitionSpec as P

HOST = np.arange(32, dtype=np.float32).reshape(8, 4)


@pytest.fixture(scope="module")
def mesh():
    if len(curta.devices()) < 4:
        pytest.skip("needs four devices")
    devices = curta.devices()[:4]
    return curta.make_mesh((4,), ("x",), (AxisType.Auto,), devices=devices)


@pytest.fixture
def rows(mesh):
    return curta.device_put(HOST, NamedSharding(mesh, P("x", None)))


def test_each_device_has_its_part(rows):
    assert [s.data.shape for s in rows.addressable_shards] == [(2, 4)] * 4
    for shard in rows.addressable_shards:
        assert shard.data.devices() == {shard.device}
        np.testing.assert_array_equal(shard.data, HOST[shard.index])
    np.testing.assert_array_equal(rows, HOST)


def test_jit_follows_its_arguments(rows):
    out = curta.jit(lambda a: jnp.tanh(a @ a.T))(rows)
    assert out.sharding.spec == P("x", None)
    np.testing.assert_allclose(out, np.tanh(HOST @ HOST.T), rtol=1e-5)


def test_shardings_of_arguments_and_results(mesh):
    split, whole = (NamedSharding(mesh, s) for s in (P("x"), P()))
    total = curta.jit(lambda a: a.sum(0), in_shardings=split, out_shardings=whole)
    out = total(HOST)
    assert out.sharding == whole
    np.testing.assert_array_equal(out, HOST.sum(0))


def test_constraints(rows, mesh):
    columns = NamedSharding(mesh, P(None, "x"))
    out = curta.jit(lambda a: curta.lax.with_sharding_constraint(a + 1, columns))(rows)
    assert out.sharding.spec == P(None, "x")
    np.testing.assert_array_equal(out, HOST + 1)


def test_collectives(rows, mesh):
    @curta.jit
    @functools.partial(
        curta.shard_map, mesh=mesh, in_specs=P("x", None), out_specs=(P(), P("x"))
    )
    def f(a):
        return curta.lax.psum(a, "x"), curta.lax.axis_index("x")[None]

    total, numbers = f(rows)
    np.testing.assert_array_equal(total, HOST.reshape(4, 2, 4).sum(0))
    np.testing.assert_array_equal(numbers, range(4))


def test_pmap(mesh):
    f = curta.pmap(lambda a: a / curta.lax.psum(a, "i"), axis_name="i")
    given = HOST.reshape(4, 8)[:, 1:]
    np.testing.assert_allclose(f(given), given / given.sum(0), rtol=1e-6)


def test_ops_one_by_one(rows):
    out = rows * 2 + 1
    assert out.sharding.spec == P("x", None)
    np.testing.assert_array_equal(out, HOST * 2 + 1)


def test_gradients(rows):
    found = curta.grad(lambda a: (a**2).sum())(rows)
    np.testing.assert_array_equal(found, 2 * HOST)
    assert found.sharding.spec == P("x", None)


def test_moved_to_another_split(rows, mesh):
    out = curta.device_put(rows, NamedSharding(mesh, P(None, "x")))
    assert out.addressable_shards[1].data.shape == (8, 1)
    np.testing.assert_array_equal(out, HOST)


def test_the_text_of_what_the_plugin_compiled(mesh, rows):
    whole = NamedSharding(mesh, P())
    alone = curta.jit(lambda x: x * 2).lower(rows).compile().as_text()
    gathered = curta.jit(lambda x: x * 2, out_shardings=whole).lower(rows).compile()
    assert "HloModule" in alone and "all-gather" not in alone
    assert "all-gather" in gathered.as_text()
