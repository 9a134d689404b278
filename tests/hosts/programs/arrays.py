"""Arrays over two processes of two devices each, in the way of JAX's model."""

import os
import signal
import sys

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import P, lax, state
from curta.config import config
from curta.experimental import multihost_utils
from curta.experimental.layout import Format, Layout
from curta.hosts.failures import HostsError
from curta.sharding import AxisType, Mesh, NamedSharding

DATA = np.arange(32, dtype=np.float32).reshape(8, 4)
AUTO = (AxisType.Auto, AxisType.Auto)


def sharded(*entries, shape=(2, 2)):
    return NamedSharding(curta.make_mesh(shape, ("x", "y"), AUTO), P(*entries))


def devices(index: int) -> None:
    assert curta.process_count() == 2 and curta.process_index() == index
    assert curta.process_indices() == [0, 1]
    assert [d.id for d in curta.devices()] == [0, 1, 2, 3]
    assert [d.id for d in curta.local_devices()] == [2 * index, 2 * index + 1]
    assert [d.process_index for d in curta.devices()] == [0, 0, 1, 1]
    assert curta.local_devices(process_index=1)[0].id == 2
    mesh = curta.make_mesh((2, 2), ("x", "y"), AUTO)
    assert mesh.is_multi_process and mesh.local_mesh.shape == {"x": 1, "y": 2}
    assert mesh.local_devices == curta.local_devices()
    assert jnp.ones(3).devices() == {curta.local_devices()[0]}
    assert float(jnp.ones(3).sum()) == 3


def reading(index: int) -> None:
    x = curta.device_put(DATA, sharded("x"))
    message = "Fetching value for `jax.Array` that spans non-addressable"
    for read in (np.asarray, curta.device_get, lambda x: x.tolist()):
        with pytest.raises(RuntimeError, match=message):
            read(x)
    at = curta.sharding.SingleDeviceSharding(curta.local_devices()[0])
    for given in (x, DATA):
        with pytest.raises(RuntimeError, match="Closing over jax.Array that spans"):
            curta.jit(lambda y: y + x)(given)
    laid_out = curta.jit(lambda y: y + x, out_shardings=Format(Layout((1, 0)), at))
    with pytest.raises(RuntimeError, match="Closing over jax.Array that spans"):
        laid_out(np.ones((8, 4), np.float32))
    assert repr(x) == str(x) == "Array(shape=(8, 4), dtype=float32)"
    same = curta.device_put(DATA, sharded())
    assert same.is_fully_replicated and not same.is_fully_addressable
    np.testing.assert_array_equal(same, DATA)
    assert str(same) == str(DATA) and float(same[1, 2]) == 6
    total = x.sum()
    assert total.is_fully_replicated and float(total) == DATA.sum()
    assert x[5].tolist() == DATA[5].tolist()
    mesh = curta.make_mesh((2, 2), ("x", "y"), (AxisType.Explicit,) * 2)
    with pytest.raises(AssertionError, match="rows of an array over several"):
        iter(curta.device_put(DATA, NamedSharding(mesh, P("x"))))


def parts(index: int) -> None:
    x = curta.device_put(DATA, sharded("x"))
    shards = x.addressable_shards
    assert [s.device for s in shards] == curta.local_devices()
    for shard in shards:
        np.testing.assert_array_equal(shard.data, DATA[4 * index :][:4])
    assert [s.data is None for s in x.global_shards].count(True) == 2
    np.testing.assert_array_equal(x.addressable_data(0), DATA[4 * index :][:4])
    assert x.sharding.addressable_devices == {*curta.local_devices()}


def computing(index: int) -> None:
    x = curta.device_put(DATA, sharded("x"))
    w = curta.random.normal(curta.random.key(3), (4, 4))
    f = curta.jit(lambda x, w: jnp.sin(x) @ w, out_shardings=sharded(None, "x"))
    y = curta.device_put(f(x, w), sharded())
    np.testing.assert_allclose(y, np.sin(DATA) @ np.asarray(w), rtol=1e-5, atol=1e-5)
    keys = curta.random.split(curta.random.key(1), 8)
    spread = curta.device_put(keys, sharded("x"))
    bits = curta.jit(curta.vmap(curta.random.bits), out_shardings=sharded())(spread)
    np.testing.assert_array_equal(bits, curta.vmap(curta.random.bits)(keys))
    told = curta.jit(lambda x: x + 1, in_shardings=sharded("x"))
    np.testing.assert_array_equal(
        told(x).addressable_data(0), DATA[4 * index :][:4] + 1
    )
    with pytest.raises(ValueError, match="non-trivial shardings for numpy inputs"):
        told(DATA + index)
    whole = curta.jit(lambda x: x + 1, in_shardings=sharded())(DATA)
    np.testing.assert_array_equal(whole, DATA + 1)
    z = curta.jit(lambda a: a + 1, donate_argnums=0)(x)
    assert x.is_deleted() and float(z.sum()) == DATA.sum() + 32
    mean = curta.shard_map(
        lambda a: a - lax.pmean(a, ("x", "y")),
        mesh=z.sharding.mesh,
        in_specs=P(("x", "y")),
        out_specs=P(("x", "y")),
    )
    assert abs(float(mean(z).sum())) < 1e-3


def pmaps(index: int) -> None:
    local = np.arange(2.0, dtype=np.float32) + 2 * index
    out = curta.pmap(lambda x: x / lax.psum(x, "i"), axis_name="i")(local)
    assert out.is_fully_addressable and out.shape == (2,)
    np.testing.assert_allclose(out, local / 6)
    f = curta.pmap(lambda x: x / lax.psum(x, "i"), "i", devices=curta.devices())
    np.testing.assert_allclose(f(local), local / 6)
    f = curta.pmap(lambda x: lax.psum(x, "i"), "i", devices=curta.local_devices())
    assert f(local).tolist() == [local.sum()] * 2
    out = curta.pmap(lambda x, y: (x + y, lax.axis_index("i")), "i", in_axes=(0, None))
    total, place = out(local, np.float32(1))
    np.testing.assert_array_equal(total, local + 1)
    assert place.tolist() == [2 * index, 2 * index + 1]
    none = np.zeros((2, 3), curta.dtypes.float0)
    for axis, shape in ((0, (2, 3)), (-1, (3, 2))):
        found, total = curta.pmap(lambda x, y: (x, y), out_axes=(axis, 0))(none, local)
        assert found.shape == shape and found.dtype == none.dtype
        np.testing.assert_array_equal(total, local)


def making(index: int) -> None:
    calls = []

    def part(at):
        calls.append(at)
        return DATA[at]

    x = curta.make_array_from_callback((8, 4), sharded("y", "x"), part)
    assert len(calls) == 2
    np.testing.assert_array_equal(multihost_utils.process_allgather(x, True), DATA)
    own = DATA[4 * index :][:4]
    x = curta.make_array_from_process_local_data(sharded("x"), own)
    assert x.shape == (8, 4)
    y = curta.make_array_from_process_local_data(sharded("x"), DATA, (8, 4))
    z = curta.make_array_from_process_local_data(sharded(("y", "x")), own, (8, 4))
    assert z.shape == (8, 4)
    np.testing.assert_array_equal(multihost_utils.process_allgather(x - y, True), 0)
    with pytest.raises(ValueError, match="does not fit dim 0"):
        curta.make_array_from_process_local_data(sharded("x"), own[:3], (8, 4))
    arrays = [
        curta.device_put(DATA[at], d)
        for d, at in sharded("x", "y").addressable_devices_indices_map((8, 4)).items()
    ]
    make = curta.make_array_from_single_device_arrays
    x = make((8, 4), sharded("x", "y"), arrays)
    np.testing.assert_array_equal(multihost_utils.process_allgather(x, True), DATA)
    with pytest.raises(ValueError, match="Expected 2 per-device arrays"):
        make((8, 4), sharded("x", "y"), arrays[:1])
    only = Mesh(np.array(curta.devices()[2:]), "z")
    x = curta.make_array_from_callback(
        (4,), NamedSharding(only, P("z")), lambda at: np.ones(4)[at], dtype=np.float32
    )
    assert len(x.addressable_shards) == 2 * index


def putting(index: int) -> None:
    with pytest.raises(AssertionError, match="is not the same on each process"):
        curta.device_put(np.full(4, index), sharded("x"))
    other = curta.devices()[2 - 2 * index]
    placed = curta.device_put(DATA, curta.local_devices()[0])
    with pytest.raises(ValueError, match="represents addressable devices"):
        curta.device_put(placed, other)
    with pytest.raises(ValueError, match="represents addressable devices"):
        curta.device_put(placed, sharded("x"))
    x = curta.device_put(DATA, sharded("x"))
    with pytest.raises(ValueError, match="must be a fully addressable array or"):
        curta.device_put(x, other)
    for entries in ((None, "x"), ("y", "x"), (("y", "x"),), ()):
        moved = curta.device_put(x, sharded(*entries))
        for shard in moved.addressable_shards:
            np.testing.assert_array_equal(shard.data, DATA[shard.index])


def elsewhere(index: int) -> None:
    """On devices of one process; for the other these are arrays without shards."""
    mesh = Mesh(np.array(curta.local_devices(process_index=1)), ("x",))
    for where in (NamedSharding(mesh, P("x")), curta.devices()[2]):
        for given in (DATA, jnp.array(DATA)):
            x = curta.device_put(given, where)
            y = curta.jit(lambda x: jnp.sin(x).sum(0))(x)
            for _ in range(2):
                z = curta.jit(lambda x, w: x @ w)(x, np.ones((4, 2), np.float32))
            wanted = (x, DATA), (y, np.sin(DATA).sum(0)), (z, DATA @ np.ones((4, 2)))
            for array, value in (*wanted, (x + 1, DATA + 1)):
                count = array.sharding.num_devices
                assert len(array.addressable_shards) == count * index
                assert array.is_fully_addressable == (index == 1)
                if index == 1:
                    np.testing.assert_allclose(array, value, rtol=1e-5)
                else:
                    with pytest.raises(RuntimeError, match="Fetching value"):
                        np.asarray(array)
                    with pytest.raises(RuntimeError, match="no addressable devices"):
                        array.on_device_size_in_bytes()
    everywhere = curta.device_put(DATA, NamedSharding(mesh, P()))
    if index == 1:
        np.testing.assert_array_equal(everywhere.addressable_data(0), DATA)
    else:
        with pytest.raises(RuntimeError, match="Array has no addressable shards"):
            everywhere.addressable_data(0)


def split_within_processes(index: int) -> None:
    """Each process has all parts, on its own devices together."""
    x = curta.device_put(DATA, sharded("y"))
    assert not x.is_fully_addressable and not x.is_fully_replicated
    np.testing.assert_array_equal(x, DATA)
    assert str(x) == str(DATA)
    y = curta.jit(lambda x: x[:2] + 1, out_shardings=sharded(None, "y"))(x)
    np.testing.assert_array_equal(y, DATA[:2] + 1)


def mesh_in_scope(index: int) -> None:
    """An uncommitted array stays local to its process."""
    own = np.full((2, 2), index, np.float32)
    x = jnp.array(own)
    with curta.set_mesh(curta.make_mesh((2, 2), ("x", "y"), AUTO)):
        assert x.is_fully_addressable
        rows = multihost_utils.process_allgather(x, True)
        made = curta.make_array_from_process_local_data(P("x"), {"a": own})
    assert rows.tolist() == [[0, 0], [0, 0], [1, 1], [1, 1]]
    whole = multihost_utils.process_allgather(made["a"], True)
    np.testing.assert_array_equal(whole, rows)


def utilities(index: int) -> None:
    tree = {"a": np.full(2, index), "b": [np.float32(index) + 0.5, index == 1]}
    found = multihost_utils.broadcast_one_to_all(tree)
    assert found["a"].tolist() == [0, 0] and found["b"] == [0.5, False]
    found = multihost_utils.broadcast_one_to_all(tree, is_source=index == 1)
    assert found["a"].tolist() == [1, 1] and found["b"] == [1.5, True]
    rows = multihost_utils.process_allgather(np.array([index, 5]))
    assert rows.tolist() == [[0, 5], [1, 5]]
    assert multihost_utils.process_allgather(np.array([index]), True).tolist() == [0, 1]
    assert multihost_utils.process_allgather(index).tolist() == [0, 1]
    with pytest.raises(ValueError, match="only supports tiled=True"):
        multihost_utils.process_allgather(curta.device_put(DATA, sharded("x")))
    multihost_utils.sync_global_devices("here")
    with pytest.raises(AssertionError, match="sync_global_devices name mismatch"):
        multihost_utils.sync_global_devices(f"here {index}")
    multihost_utils.assert_equal({"a": DATA, "b": float("nan")})
    with pytest.raises(AssertionError, match="differ. Processes .1. have other values"):
        multihost_utils.assert_equal(index, "numbers differ")
    mesh = sharded().mesh
    local = {"x": DATA[4 * index :][:4], "same": np.arange(3)}
    specs = {"x": P("x"), "same": P()}
    both = multihost_utils.host_local_array_to_global_array(local, mesh, specs)
    assert both["x"].shape == (8, 4) and both["same"].shape == (3,)
    back = multihost_utils.global_array_to_host_local_array(both, mesh, specs)
    np.testing.assert_array_equal(back["x"], local["x"])
    assert back["same"].tolist() == [0, 1, 2] and back["x"].is_fully_addressable
    with multihost_utils.live_devices(curta.devices()) as alive:
        assert alive == curta.devices()


def preempted(index: int) -> None:
    for step in range(3):
        assert not multihost_utils.reached_preemption_sync_point(step)
    if index == 1:
        os.kill(os.getpid(), signal.SIGTERM)
    assert multihost_utils.reached_preemption_sync_point(3)


def other_programs(index: int) -> None:
    x = curta.device_put(DATA, sharded("x"))
    with pytest.raises(HostsError, match="process 1 traced a program that differs"):
        curta.jit(lambda x: jnp.cos(x) if index else jnp.sin(x))(x)
    with pytest.raises(HostsError, match="constant int32"):
        curta.jit(lambda x: x + np.full((8, 4), index))(x)


def saving(index: int) -> None:
    folder = sys.argv[1]
    tree = {"x": curta.device_put(DATA, sharded("x")), "local": jnp.arange(3)}
    state.save(folder, tree, step=1)
    like = {"x": sharded(None, "x"), "local": tree["local"]}
    found = state.restore(folder, like)
    np.testing.assert_array_equal(
        multihost_utils.process_allgather(found["x"], True), DATA
    )


CHECKS = (
    devices,
    parts,
    reading,
    computing,
    pmaps,
    making,
    putting,
    elsewhere,
    split_within_processes,
    mesh_in_scope,
    utilities,
    other_programs,
    preempted,
    saving,
)


def main() -> None:
    config.update("jax_num_cpu_devices", 2)
    curta.distributed.initialize()
    index = curta.process_index()
    for check in CHECKS:
        check(index)
        multihost_utils.sync_global_devices(check.__name__)
    print("process", index, "did", len(CHECKS))


if __name__ == "__main__":
    main()
