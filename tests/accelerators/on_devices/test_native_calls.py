"""Calls of jitted functions on one device: all but the first by native code."""

import gc
import threading

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.runtime.native_call import MISS


@pytest.fixture
def x():
    return jnp.arange(4.0) + 1


def ready(f, *args):
    """Whether native code makes the call; it was called before."""
    return f._native(*args) is not MISS


def test_the_second_call(x):
    f = curta.jit(lambda x, y: x * y + 1)
    for _ in range(3):
        np.testing.assert_array_equal(f(x, x), np.arange(1.0, 5) ** 2 + 1)
    assert ready(f, x, x)
    assert f(x, x).sharding == x.sharding and not f(x, x).committed


def test_trees(x):
    f = curta.jit(lambda d: {"a": d["x"] + d["y"][0], "b": [d["x"], None], "c": ()})
    given = {"x": x, "y": (2 * x, None)}
    first = f(given)
    f(given)
    assert ready(f, given)
    assert curta.tree.structure(f(given)) == curta.tree.structure(first)
    np.testing.assert_array_equal(f(given)["a"], 3 * np.arange(1.0, 5))
    np.testing.assert_array_equal(f(given)["b"][0], x)
    assert not ready(f, {"x": x, "y": (2 * x, x)})


def test_each_placement_is_one_of_its_own(x):
    f = curta.jit(lambda x: 2 * x)
    placed = [curta.device_put(x, d) for d in curta.devices()[:2]]
    given = [x, *placed]
    for _ in range(3):
        for y in given:
            out = f(y)
            np.testing.assert_array_equal(out, 2 * np.arange(1.0, 5))
            assert out.devices() == y.devices()
            assert out.committed == y.committed
    assert all(ready(f, y) for y in given)


def test_results_are_arguments_of_other_programs(x):
    f, g = curta.jit(lambda x: 2 * x), curta.jit(lambda x, y: x - y)
    for _ in range(3):
        np.testing.assert_array_equal(g(f(x), x), np.arange(1.0, 5))
    assert ready(g, f(x), x)


def test_arguments_of_the_host_go_by_python(x):
    f = curta.jit(lambda x, y: x + y)
    f(x, x)
    np.testing.assert_array_equal(f(x, np.ones(4, np.float32)), np.arange(2.0, 6))
    assert not ready(f, x, 1.0)
    assert f._native(x) is MISS


def test_other_settings_are_other_programs(x):
    f = curta.jit(lambda x: x / 3)
    f(x), f(x)
    assert ready(f, x)
    with curta.default_matmul_precision("highest"):
        assert not ready(f, x)
    with curta.disable_jit():
        assert f(x).dtype == x.dtype
    np.testing.assert_allclose(curta.grad(lambda x: f(x).sum())(x), 1 / 3, rtol=1e-6)


def test_deleted_arguments_are_refused(x):
    f = curta.jit(lambda x: x + 1)
    f(x)
    y = x + 0
    f(y)
    y.delete()
    assert not ready(f, y)
    with pytest.raises(RuntimeError, match="deleted"):
        f(y)


def test_errors_of_the_plugin_are_raised(x):
    f = curta.jit(lambda x: x + 1)
    f(x)
    y = x + 0
    y._pending.buffers[0].delete()  # behind the array's back
    with pytest.raises(curta.errors.JaxRuntimeError, match="[A-Z_]+: "):
        f(y)
    np.testing.assert_array_equal(f(x), np.arange(2.0, 6))


def test_donated_arguments_are_gone(x):
    f = curta.jit(lambda x, d: (x + d["y"], d["y"] * 2), donate_argnums=0)
    for k in range(4):
        y, d = x + 0, {"y": x + 0}
        assert (f._native(x + 0, d) is not MISS) == (k > 1)
        out, other = f(y, d)
        np.testing.assert_array_equal(out, 2 * np.arange(1.0, 5))
        np.testing.assert_array_equal(other, 2 * np.arange(1.0, 5))
        assert y.is_deleted() and not d["y"].is_deleted()


def test_donated_arrays_go_on(x):
    f = curta.jit(lambda x: x + 1, donate_argnums=0)
    place = curta.device_put(x, curta.devices()[1])
    for given in (x + 0, place + 0):
        for _ in range(5):
            before, given = given, f(given)
            assert before.is_deleted() and given.committed == before.committed
        assert ready(f, given) and given.is_deleted()
    np.testing.assert_array_equal(f(x + 0), np.arange(2.0, 6))


def test_a_donated_array_is_used_once(x):
    f = curta.jit(lambda x, y: x + y, donate_argnums=0)
    for _ in range(3):
        y = x + 0
        f(x + 0, x)
        with pytest.raises(curta.errors.JaxRuntimeError, match="Attempt to donate a b"):
            f(y, y)
        assert not y.is_deleted()
    np.testing.assert_array_equal(f(x + 0, x), 2 * np.arange(1.0, 5))


def test_lent_memory_of_donated_arguments(x):
    torch = pytest.importorskip("torch")
    f = curta.jit(lambda x: x + 1, donate_argnums=0)
    f(x + 0), f(x + 0)
    y = x + 0
    lent = torch.from_dlpack(y)
    np.testing.assert_array_equal(f(y), np.arange(2.0, 6))
    assert lent.tolist() == [1, 2, 3, 4]


def over(spec, count=4):
    mesh = curta.sharding.Mesh(np.array(curta.devices()[:count]), ("d",))
    return curta.sharding.NamedSharding(mesh, curta.sharding.PartitionSpec(*spec))


@pytest.mark.parametrize("count", [2, 4])
def test_several_devices(count):
    host = np.arange(24.0).reshape(8, 3).astype(np.float32)
    rows, whole = over(["d"], count), over([], count)
    x, w = curta.device_put(host, rows), curta.device_put(host[0], whole)
    f = curta.jit(lambda x, w: (x * w, x.sum(0), {"w": w + 1}))
    for k in range(3):
        assert (f._native(x, w) is not MISS) == (k > 1)
        out, total, d = f(x, w)
        np.testing.assert_array_equal(out, host * host[0])
        np.testing.assert_array_equal(total, host.sum(0))
        np.testing.assert_array_equal(d["w"], host[0] + 1)
        assert out.sharding == rows and len(out.addressable_shards) == count
        shards = [np.asarray(s.data) for s in out.addressable_shards]
        np.testing.assert_array_equal(np.concatenate(shards), host * host[0])
    assert f(out, w) is not MISS and not ready(f, x, x)


def test_donation_over_several_devices():
    x = curta.device_put(np.arange(4, dtype=np.float32), over(["d"]))
    f = curta.jit(lambda x: x + 1, donate_argnums=0)
    for _ in range(5):
        before, x = x, f(x)
        assert before.is_deleted()
    np.testing.assert_array_equal(x, np.arange(5, 9))
    handles = x._pending.buffers[0].client.buffers
    gc.collect()
    count = len(handles)
    for _ in range(20):
        x = f(x)
    assert ready(f, x) and len(handles) <= count


def test_equal_shardings_that_are_not_the_same():
    f = curta.jit(lambda x: x * 2)
    xs = [curta.device_put(np.ones(4, np.float32), over(["d"])) for _ in range(3)]
    for _ in range(3):
        for x in xs:
            np.testing.assert_array_equal(f(x), [2, 2, 2, 2])
    assert all(ready(f, x) for x in xs)


@pytest.mark.parametrize("place", [None, 1])
def test_numbers_beside_arrays(x, place, monkeypatch):
    if place is not None:
        x = curta.device_put(x, curta.devices()[place])
    host = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(jnp.asarray(host) + 1, host + 1)
    np.testing.assert_array_equal(jnp.add(jnp.asarray(host), 1), host + 1)
    calls = [lambda: x + 1, lambda: 2 * x, lambda: -0.0 * x, lambda: jnp.add(x, 1.5)]
    want = [np.asarray(call()) for call in calls]
    for call in calls:
        call(), call()
    monkeypatch.setattr("curta.runtime.device_call.DeviceCall.__call__", None)
    for call, values in zip(calls, want, strict=True):
        assert np.asarray(call()).tobytes() == values.tobytes()
        assert call().committed == x.committed and call().devices() == x.devices()


def test_memory_that_others_use_is_not_donated(x):
    torch = pytest.importorskip("torch")
    f = curta.jit(lambda x: x + 1)
    f(x)
    lent = torch.from_dlpack(x)
    assert not ready(f, x)
    np.testing.assert_array_equal(f(x), np.arange(2.0, 6))
    del lent


def test_buffers_are_freed(x):
    f = curta.jit(lambda x: (x + 1, x + 2))
    f(x)
    gc.collect()
    handles = x._pending.buffers[0].client.buffers
    before = len(handles)
    for _ in range(50):
        a, b = f(x)
    assert len(handles) <= before + 2
    del a, b
    assert len(handles) == before


def test_native_code_keeps_the_program(x):
    f = curta.jit(lambda x: x + 1)
    f(x), f(x)
    ((_, compiled),) = [(p, p.call) for p in f._plans.values()]
    dict.clear(compiled._elsewhere)  # as a plan is replaced by that of another thread
    gc.collect()
    np.testing.assert_array_equal(f._native(x), np.arange(2.0, 6))


def test_threads(x):
    f = curta.jit(lambda x, y: x * 2 + y)
    f(x, x)
    wrong = []

    def work(n):
        y = x * n
        for _ in range(200):
            y = f(x, y) - 2 * x
        if not np.array_equal(y, n * np.arange(1.0, 5)):
            wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("place", [None, 0, 1])
def test_functions_of_the_library(x, place, monkeypatch):
    if place is not None:
        x = curta.device_put(x, curta.devices()[place])
    host = np.arange(1.0, 5).astype(np.float32)
    calls = [
        (lambda: jnp.sin(x), np.sin(host)),
        (lambda: jnp.add(x, x), 2 * host),
        (lambda: jnp.sum(x), np.float32(10)),
        (lambda: jnp.where(x > 2, x, -x), np.where(host > 2, host, -host)),
        (lambda: curta.nn.softmax(x), np.exp(host) / np.exp(host).sum()),
    ]
    for call, want in 2 * calls:
        out = call()
        np.testing.assert_allclose(out, want, rtol=1e-6)
        assert out.devices() == x.devices() and out.committed == x.committed
    monkeypatch.setattr("curta.api.inner.evaluated", None)  # the way of Python
    for call, want in calls:
        np.testing.assert_allclose(call(), want, rtol=1e-6)
