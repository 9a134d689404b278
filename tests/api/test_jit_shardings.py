"""Memories, arrays from one process, and `jit` with shardings and meshes in scope."""

import pickle

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
from curta import NamedSharding, P
from curta.sharding import AbstractMesh, AxisType, SingleDeviceSharding

AUTO = (AxisType.Auto,) * 2
X = np.arange(16.0, dtype=np.float32).reshape(8, 2)


def auto_mesh():
    return curta.make_mesh((4, 2), ("x", "y"), AUTO)


class TestMemories:
    def test_names(self):
        mesh = auto_mesh()
        pinned = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
        plain = NamedSharding(mesh, P("x"))
        assert (pinned.memory_kind, plain.memory_kind) == (
            "pinned_host",
            "unpinned_host",
        )
        assert pinned != plain and pinned == plain.with_memory_kind("pinned_host")
        assert not pinned.is_equivalent_to(plain, 2)
        assert pickle.loads(pickle.dumps(pinned)) == pinned
        assert pinned.update(spec=P("y")).memory_kind == "pinned_host"
        x = curta.device_put(X, pinned)
        assert x.sharding == pinned
        device = SingleDeviceSharding(curta.devices()[0], memory_kind="device")
        assert curta.device_put(1.0, device).sharding.memory_kind == "device"

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
