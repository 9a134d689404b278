"""Checkpoints by Orbax and by `jax.experimental.array_serialization`."""

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from jax.experimental import colocated_python
from jax.experimental.array_serialization import serialization
from jax.sharding import NamedSharding, PartitionSpec as P

jax.config.update("jax_num_cpu_devices", 4)

TREE = {
    "weights": np.arange(24.0, dtype=np.float32).reshape(8, 3),
    "half": np.ones(3, jnp.bfloat16),
    "nested": [np.int32(3), {"mask": np.array([True, False])}],
}


def arrays():
    return jax.tree.map(jnp.asarray, TREE)


def same(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def split(x, spec):
    return jax.device_put(x, NamedSharding(jax.make_mesh((4,), ("i",)), spec))


def test_standard_checkpointer(tmp_path):
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "at", arrays())
        checkpointer.wait_until_finished()
        same(checkpointer.restore(tmp_path / "at"), TREE)
        like = jax.tree.map(jnp.zeros_like, arrays())
        found = checkpointer.restore(tmp_path / "at", like)
    same(found, TREE)
    assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(found))


def test_keys(tmp_path):
    key = jax.random.key(7)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "at", {"key": key})
        checkpointer.wait_until_finished()
        found = checkpointer.restore(tmp_path / "at")["key"]
    assert found.dtype == key.dtype
    assert jax.random.normal(found) == jax.random.normal(key)


@pytest.mark.parametrize("spec", [P("i"), P(), P(None)])
def test_split_arrays_are_restored_in_other_pieces(tmp_path, spec):
    x = split(jnp.arange(16.0).reshape(8, 2), P("i"))
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "at", [x])
        checkpointer.wait_until_finished()
        like = split(jnp.zeros_like(x), spec)
        (found,) = checkpointer.restore(tmp_path / "at", [like])
    assert found.sharding.is_equivalent_to(like.sharding, 2)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(x))


def test_manager_keeps_the_last_steps(tmp_path):
    options = ocp.CheckpointManagerOptions(max_to_keep=2)
    with ocp.CheckpointManager(tmp_path, options=options) as manager:
        for step in range(4):
            tree = jax.tree.map(lambda x, n=step: (x + n).astype(x.dtype), arrays())
            manager.save(step, args=ocp.args.StandardSave(tree))
        manager.wait_until_finished()
        assert manager.all_steps() == [2, 3]
        found = manager.restore(3, args=ocp.args.StandardRestore(tree))
    same(found, tree)


def test_manager_in_a_training_loop(tmp_path):
    step = jax.jit(lambda w, x: w - 0.1 * jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w))
    w, x = jnp.ones((3,)), jnp.arange(6.0).reshape(2, 3) / 6
    with ocp.CheckpointManager(tmp_path) as manager:
        for i in range(4):
            w = step(w, x)
            if i == 1:
                manager.save(i, args=ocp.args.StandardSave({"w": w}))
        manager.wait_until_finished()
        again = manager.restore(1, args=ocp.args.StandardRestore({"w": w}))["w"]
    for _ in range(2):
        again = step(again, x)
    np.testing.assert_array_equal(np.asarray(again), np.asarray(w))


def test_global_manager(tmp_path):
    x, y = split(jnp.arange(8.0), P("i")), jnp.int32([1, 2])
    paths = [str(tmp_path / name) for name in "xy"]
    manager, done = serialization.GlobalAsyncCheckpointManager(), []
    manager.serialize_with_paths(
        [x, y], paths, on_commit_callback=lambda: done.append(True)
    )
    manager.wait_until_finished()
    assert done == [True]
    found = manager.deserialize_with_paths([x.sharding, y.sharding], paths)
    same(found, [x, y])
    assert found[0].sharding == x.sharding


def test_global_manager_cuts_fills_and_converts(tmp_path):
    x = jnp.arange(6.0).reshape(2, 3)
    manager, paths = serialization.GlobalAsyncCheckpointManager(), [str(tmp_path / "x")]
    manager.serialize_with_paths([x], paths)
    (found,) = manager.deserialize_with_paths(
        [x.sharding], paths, global_shapes=[(3, 2)], dtypes=[jnp.int32]
    )
    same([found], [np.int32([[0, 1], [3, 4], [0, 0]])])


def test_global_manager_says_what_went_wrong(tmp_path):
    def fail():
        raise OSError("full")

    manager = serialization.GlobalAsyncCheckpointManager()
    path = str(tmp_path / "x")
    manager.serialize_with_paths([jnp.ones(2)], [path], on_commit_callback=fail)
    with pytest.raises(OSError, match="full"):
        manager.wait_until_finished()
    manager.check_for_errors()  # said once
    with pytest.raises(TypeError, match="sharding"):
        manager.deserialize_with_paths(["cpu"], [path])


def test_colocated_python():
    @colocated_python.colocated_python
    def twice(x):
        return jax.device_put(2 * np.asarray(x), x.sharding)

    assert twice(jnp.arange(3)).tolist() == [0, 2, 4]
    with pytest.raises((AttributeError, ValueError)):
        twice(np.ones(3))
    with pytest.raises(ValueError, match="must be first specialized with devices"):
        colocated_python.colocated_python(lambda: jnp.ones(()))()
