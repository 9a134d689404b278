"""Saving and restoring trees of arrays, over hosts and not."""

import collections
import json
from pathlib import Path

import numpy as np
import pytest
from tests.hosts.simulated_hosts import four_hosts  # noqa: F401
from tests.stress.state import kills

import curta
import curta.numpy as jnp
from curta import P, state
from curta.config import config
from curta.runtime.hosts_data import HostsData
from curta.sharding import AxisType, NamedSharding

DATA = np.arange(64, dtype=np.float32).reshape(8, 8)
Pair = collections.namedtuple("Pair", "left right")


def sharded(*entries, shape=(4, 2)):
    auto = (AxisType.Auto, AxisType.Auto)
    return NamedSharding(curta.make_mesh(shape, ("x", "y"), auto), P(*entries))


def alike(found, wanted):
    assert type(found) is type(wanted)
    if isinstance(wanted, (np.ndarray, curta.Array)):
        assert found.dtype == wanted.dtype and found.shape == wanted.shape
        assert repr(found) == repr(wanted)
    else:
        assert found == wanted


def test_trees_of_all_kinds(tmp_path):
    tree = {
        "layers": [(jnp.ones((2, 3)), None), ()],
        3: np.arange(4, dtype=np.int64),
        "key": curta.random.key(7),
        "more keys": curta.random.split(curta.random.key(1, impl="rbg"), 3),
        "weak": jnp.asarray(2.0),
        "scalars": [1, 2.5, True, 1 - 2j, "text", float("inf")],
        "none": jnp.zeros((0, 3)),
    }
    tree["layers"].append({"a": jnp.int32(5), "b": np.float32(2)})
    tree = {"tree": tree, "other": [tree.pop(3)]}
    state.save(tmp_path / "new" / "folder", tree, step=12)
    found = state.restore(tmp_path / "new" / "folder")
    assert state.step(tmp_path / "new" / "folder") == 12
    wanted = curta.tree_util.tree_map(
        lambda x: np.asarray(x) if isinstance(x, np.generic) else x, tree
    )
    curta.tree_util.tree_map(alike, found, wanted)
    assert found["tree"]["weak"].weak_type
    shapes = state.describe(tmp_path / "new" / "folder")
    assert shapes["tree"]["more keys"].shape == (3,)


@pytest.mark.parametrize(
    "dtype",
    "bool int4 uint2 int8 uint16 bfloat16 float16 float8_e4m3fn float8_e5m2"
    " float8_e4m3b11fnuz float4_e2m1fn complex64".split(),
)
def test_all_dtypes(tmp_path, dtype):
    x = jnp.asarray(DATA % 2, dtype)
    state.save(tmp_path, [x, curta.device_put(x, sharded("x"))])
    for found in state.restore(tmp_path):
        alike(found, x)
    for found in state.restore(tmp_path, sharded(None, "x")):
        alike(found, x)


SPLITS = [(), ("x",), (None, "x"), ("y", "x"), (("y", "x"),)]


@pytest.mark.parametrize("before", SPLITS, ids=str)
def test_on_other_meshes(tmp_path, before):
    x = curta.device_put(DATA, sharded(*before))
    state.save(tmp_path, {"x": x})
    np.testing.assert_array_equal(state.restore(tmp_path)["x"], DATA)
    for after in SPLITS:
        for shape in (4, 2), (2, 4):
            where = sharded(*after, shape=shape)
            found = state.restore(tmp_path, {"x": where})["x"]
            assert found.sharding == where
            assert type(found._buffer()) is HostsData
            np.testing.assert_array_equal(found, DATA)
    config.update("curta_simulate_hosts", 1)
    config.update("jax_num_cpu_devices", 1)
    np.testing.assert_array_equal(state.restore(tmp_path)["x"], DATA)


def test_each_host_writes_its_part(tmp_path):
    x = curta.device_put(DATA, sharded("x"))
    same = curta.device_put(DATA, sharded())
    state.save(tmp_path, [x, same])
    files = sorted(tmp_path.glob("*/*.safetensors"))
    assert [f.stem for f in files] == [f"host-{n:05d}" for n in range(4)]
    reader = pytest.importorskip("safetensors.numpy")
    first, *others = [reader.load_file(f) for f in files]
    np.testing.assert_array_equal(first.pop("[1]@0,0"), DATA)
    for n, arrays in enumerate([first, *others]):
        np.testing.assert_array_equal(arrays.pop(f"[0]@{2 * n},0"), DATA[2 * n :][:2])
        assert not arrays


def test_like_the_saved_tree(tmp_path):
    tree = Pair({"w": jnp.ones(8)}, curta.random.key(0))
    state.save(tmp_path, tree)
    with pytest.raises(ValueError, match="Pair"):
        state.restore(tmp_path)
    struct = curta.ShapeDtypeStruct((8,), "float32", sharding=sharded("x"))
    found = state.restore(tmp_path, Pair({"w": struct}, tree.right))
    assert type(found) is Pair and found.left["w"].sharding == sharded("x")
    again = state.restore(tmp_path, found)
    assert again.left["w"].sharding == sharded("x")
    with pytest.raises(ValueError, match="was saved as float32.8."):
        wrong = curta.ShapeDtypeStruct((9,), "float32")
        state.restore(tmp_path, Pair({"w": wrong}, tree.right))
    with pytest.raises(ValueError, match="another structure.*'v'"):
        state.restore(tmp_path, Pair({"v": struct}, tree.right))
    config.update("curta_simulate_hosts", 1)


def test_numbers_of_a_first_state_stand_for_those_that_steps_have_made(tmp_path):
    """As the step of a `TrainState` of Flax."""
    state.save(tmp_path, {"step": jnp.array(7), "loss": jnp.array(0.5), "on": True})
    again = state.restore(tmp_path, like={"step": 0, "loss": 0.0, "on": False})
    assert int(again["step"]) == 7 and float(again["loss"]) == 0.5 and again["on"]
    with pytest.raises(ValueError, match="step'. was saved as int32.*first state"):
        state.restore(tmp_path, like={"step": 0.0, "loss": 0.0, "on": False})


def test_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="no state was saved"):
        state.restore(tmp_path / "nothing")
    for leaf in (object(), np.array(["text"]), len):
        with pytest.raises(TypeError, match="state.save takes"):
            state.save(tmp_path, [leaf])
    with pytest.raises(curta.errors.UnexpectedTracerError):
        curta.jit(lambda x: state.save(tmp_path, x))(1.0)


def test_the_last_is_kept_until_the_next_is_whole(tmp_path):
    state.save(tmp_path, {"x": jnp.ones(3)}, step=1)
    with pytest.raises(TypeError):
        state.save(tmp_path, {"x": jnp.zeros(3), "y": object()}, step=2)
    assert state.step(tmp_path) == 1
    assert state.restore(tmp_path)["x"].tolist() == [1, 1, 1]
    state.save(tmp_path, {"x": jnp.zeros(3)}, step=3)
    assert len([p for p in tmp_path.iterdir() if p.is_dir()]) == 1


def test_damaged_files(tmp_path):
    state.save(tmp_path, {"x": jnp.arange(100.0)})
    (file,) = tmp_path.glob("*/*.safetensors")
    good = file.read_bytes()
    bad = [b"", good[:5], good[:-1], b"\xff" * len(good), good[:8] + b"[]" + good[10:]]
    for content in bad:
        file.write_bytes(content)
        with pytest.raises(ValueError, match="is damaged"):
            state.restore(tmp_path)
    file.write_bytes(good)
    index = Path(tmp_path, "index.json")
    text = index.read_text()
    for content in ("", "{}", text[:-20], text.replace("[100]", "[101]")):
        index.write_text(content)
        with pytest.raises(ValueError, match="is damaged"):
            state.restore(tmp_path)
    index.write_text(json.dumps(json.loads(text) | {"version": 2}))
    with pytest.raises(ValueError, match="version 2"):
        state.restore(tmp_path)


def test_killed_programs_leave_the_last_state():
    assert len(kills(3, seed=0)) == 3
