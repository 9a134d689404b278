"""Moving values to and from devices, and naming the devices."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.core.sharding import SingleDeviceSharding
from curta.errors import JaxRuntimeError


def test_names():
    (cpu,) = curta.devices()
    assert (repr(cpu), str(cpu)) == ("CpuDevice(id=0)", "cpu:0")
    assert (cpu.platform, cpu.device_kind, cpu.process_index) == ("cpu", "cpu", 0)
    assert curta.local_devices() == curta.devices("cpu") == [cpu]
    assert curta.device_count() == curta.local_device_count() == 1
    assert (curta.process_index(), curta.process_count()) == (0, 1)
    for count in curta.process_index, curta.process_count, curta.process_indices:
        with pytest.raises(RuntimeError, match="Unknown backend tpu. Available"):
            count("tpu")
    assert curta.default_backend() == "cpu"
    with pytest.raises(RuntimeError, match="Unknown backend tpu. Available"):
        curta.devices("tpu")


class TestPut:
    def test_trees(self):
        out = curta.device_put([1, 2.0, np.arange(3)])
        assert repr(out) == (
            "[Array(1, dtype=int32, weak_type=True),"
            " Array(2., dtype=float32, weak_type=True),"
            " Array([0, 1, 2], dtype=int32)]"
        )

    def test_places(self):
        (cpu,) = curta.devices()
        assert not curta.device_put(1).committed
        for place in (cpu, SingleDeviceSharding(cpu)):
            x = curta.device_put(np.ones(2), place)
            assert x.committed and x.devices() == {cpu}
            assert (x + 1).committed and curta.jit(lambda x: x * 2)(x).committed

    def test_tree_of_places(self):
        (cpu,) = curta.devices()
        out = curta.device_put({"a": 1, "b": (2, 3)}, {"a": None, "b": cpu})
        assert not out["a"].committed
        assert out["b"][0].committed and out["b"][1].committed

    def test_mistakes(self):
        with pytest.raises(ValueError, match="`jax.device_put` only accepts `None`"):
            curta.device_put(1, "cpu")
        with pytest.raises(TypeError, match="Argument 'a' of type .* not a valid"):
            curta.device_put("a")
        with pytest.raises(ValueError, match=r"(?s)tree prefix.*details \(2 found\)"):
            curta.device_put({"a": 1, "b": 2}, {"a": [None], "b": (None, None)})

    def test_donation(self):
        (cpu,) = curta.devices()
        x = curta.numpy.ones(3)
        y = curta.device_put(x, cpu, donate=True)
        assert x.is_deleted() and y.tolist() == [1, 1, 1]

    def test_donation_of_parts(self):
        (cpu,) = curta.devices()
        tree = {"a": curta.numpy.ones(3), "b": (curta.numpy.ones(2),)}
        flags = {"a": True, "b": False}
        curta.device_put(tree, cpu, donate=flags, may_alias={"a": None, "b": True})
        assert tree["a"].is_deleted() and not tree["b"][0].is_deleted()
        with pytest.raises(ValueError, match="device_put donate specification must be"):
            curta.device_put(tree, cpu, donate={"a": True})
        with pytest.raises(ValueError, match="may_alias and donate cannot be True"):
            curta.device_put(tree, cpu, donate=True, may_alias=flags)

    def test_under_tracing(self):
        assert curta.jit(lambda x: curta.device_put(x) + 1)(1).item() == 2


def test_get():
    got = curta.device_get({"a": curta.numpy.arange(3), "b": "text", "c": 2})
    assert type(got["a"]) is np.ndarray
    assert got["b"] == "text"


def test_block():
    x = curta.numpy.arange(3)
    assert curta.block_until_ready((x, 1))[0] is x
    x.delete()
    with pytest.raises(RuntimeError, match="deleted or donated buffer"):
        curta.block_until_ready(x)


class TestDlpack:
    def test_shared_memory(self):
        source = np.arange(3, dtype=np.int32)
        x = curta.dlpack.from_dlpack(source)
        assert np.shares_memory(np.asarray(x), source)
        assert np.from_dlpack(x).tolist() == [0, 1, 2]

    def test_copies_where_it_must(self):
        strided = np.arange(8, dtype=np.float32)[::2]
        assert curta.dlpack.from_dlpack(strided).tolist() == [0, 2, 4, 6]
        wide = np.arange(3.0)
        assert curta.dlpack.from_dlpack(wide).dtype == np.float32
        with pytest.raises(ValueError, match="cannot share this memory"):
            curta.dlpack.from_dlpack(wide, copy=False)

    @pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 2000)])
    @pytest.mark.parametrize("dtype", ["bool", "int8", "float32", "complex64"])
    def test_own_arrays(self, shape, dtype):
        x = curta.numpy.ones(shape, dtype)
        for copy in None, False, True:
            y = curta.numpy.from_dlpack(x, copy=copy)
            np.testing.assert_array_equal(y, x)
            assert y is not x and y.aval is x.aval
            shared = y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
            assert shared is not bool(copy)
            on_device = curta.numpy.from_dlpack(x, curta.devices()[0], copy)
            assert on_device.committed

    def test_keys(self):
        key = curta.random.key(0)
        for read in np.from_dlpack, curta.numpy.from_dlpack, np.asarray:
            with pytest.raises(TypeError):
                read(key)

    def test_other_objects(self):
        with pytest.raises(TypeError, match="must have __dlpack__"):
            curta.dlpack.from_dlpack([1])


def test_compile_time():
    @curta.jit
    def f(x):
        with curta.ensure_compile_time_eval():
            n = int(curta.numpy.arange(4).sum())
        return x * n

    assert f(2).item() == 12


def test_traced_values_stay_traced_at_compile_time():
    @curta.jit
    def f(x, y):
        with curta.ensure_compile_time_eval():
            assert (y == y).shape == (2,)
            known = curta.jit(lambda a: a * 2)(jnp.ones(3))
            assert float(known.sum()) == 6
            scaled = curta.jit(lambda a: a * x)(known)
            _, sums = curta.lax.scan(lambda c, a: (c + a, c * x), 0.0, jnp.arange(3.0))
            slope = curta.grad(lambda t: curta.nn.relu(t) * x)(1.0)
            assert float(curta.grad(curta.nn.relu)(1.0)) == 1
        return scaled, sums, slope

    for run in (f, curta.jit(f)):
        scaled, sums, slope = run(3.0, jnp.ones(2))
        assert (scaled.tolist(), sums.tolist(), slope) == ([6.0] * 3, [0, 0, 3], 3)
    assert curta.grad(lambda x: f(x, jnp.ones(2))[0].sum())(1.0) == 6
    assert curta.vmap(lambda x: f(x, jnp.ones(2))[2])(jnp.arange(3.0)).tolist() == [
        0,
        1,
        2,
    ]


def test_memories():
    (cpu,) = curta.devices()
    kinds = [memory.kind for memory in cpu.addressable_memories()]
    assert kinds == ["device", "pinned_host", "unpinned_host"]
    assert cpu.memory("device") == cpu.default_memory() != cpu.memory("pinned_host")
    assert cpu.default_memory().kind == curta.numpy.ones(1).sharding.memory_kind
    memory = cpu.memory("unpinned_host")
    assert memory.addressable_by_devices() == [cpu]
    assert (memory.platform, memory.process_index) == ("cpu", 0)
    with pytest.raises(JaxRuntimeError, match="INVALID_ARGUMENT: Could not find memor"):
        cpu.memory("disk")


def test_moves_are_printed_as_in_jax():
    moved = curta.make_jaxpr(lambda x: curta.device_put(x, curta.devices()[0]))(1.0)
    assert "copy_semantics=(ArrayCopySemantics.REUSE_INPUT,)" in str(moved)
