"""Arrays over several hosts, simulated in this process."""

import copy
import itertools
import pickle

import numpy as np
import pytest
from tests.hosts.simulated_hosts import four_hosts  # noqa: F401

import curta
import curta.numpy as jnp
from curta import P, monitoring
from curta.config import config
from curta.hosts import traffic
from curta.runtime.hosts_data import HostsData
from curta.sharding import AxisType, NamedSharding

AUTO = (AxisType.Auto, AxisType.Auto)
DATA = np.arange(64, dtype=np.float32).reshape(8, 8)


def sharded(*entries, shape=(4, 2)):
    return NamedSharding(curta.make_mesh(shape, ("x", "y"), AUTO), P(*entries))


def parts(x) -> dict[int, tuple[int, ...]]:
    """The shape of the part of each host."""
    data = x._buffer()
    assert type(data) is HostsData
    return {host: part.shape for host, part in data.parts.items()}


def most_held(*arrays) -> int:
    """The bytes of the host that holds most."""
    held = dict.fromkeys(range(4), 0)
    for x in arrays:
        for host, part in x._buffer().parts.items():
            held[host] += part.nbytes
    return max(held.values())


def test_devices_are_dealt_out_in_blocks():
    assert [d.host for d in curta.devices()] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert curta.process_count() == 1 and curta.local_device_count() == 8
    config.update("curta_simulate_hosts", 3)
    assert [d.host for d in curta.devices()] == [0, 0, 0, 1, 1, 1, 2, 2]
    config.update("jax_num_cpu_devices", 2)
    assert [d.host for d in curta.devices()] == [0, 1]
    config.update("jax_num_cpu_devices", -1)
    assert [d.host for d in curta.devices()] == [0, 1, 2]
    with pytest.raises(ValueError, match="at least 1"):
        config.update("curta_simulate_hosts", 0)


def test_hosts_hold_their_parts():
    x = curta.device_put(DATA, sharded("x"))
    assert parts(x) == dict.fromkeys(range(4), (2, 8))
    np.testing.assert_array_equal(x, DATA)
    assert x.is_fully_addressable and not x.is_fully_replicated
    whole = curta.device_put(DATA, sharded())
    assert parts(whole) == dict.fromkeys(range(4), (8, 8))
    assert len({id(p) for p in whole._buffer().parts.values()}) == 1
    shard = x.addressable_shards[3]
    assert shard.index[0] == slice(2, 4) and shard.device.host == 1
    assert shard.replica_id == 1
    np.testing.assert_array_equal(shard.data, DATA[2:4])
    assert len(x.global_shards) == 8


@pytest.mark.parametrize("dtype", ["bfloat16", "int4", "bool", "complex64", "key"])
def test_all_dtypes(dtype):
    if dtype == "key":
        values = curta.random.split(curta.random.key(0), 8)
    else:
        values = jnp.asarray(DATA % 2, dtype)
    x = curta.device_put(values, sharded("x"))
    y = curta.device_put(x, sharded(None, "x") if x.ndim > 1 else sharded())
    assert x.dtype == y.dtype == values.dtype and type(y._pending) is HostsData
    assert repr(y) == repr(values)
    same = curta.jit(lambda a: a[::-1], out_shardings=x.sharding)(x)
    assert repr(same) == repr(values[::-1])


def test_results_are_where_they_belong():
    x = curta.device_put(DATA, sharded("x"))
    y = x * 2 + 1
    assert parts(y) == parts(x) and y.sharding == x.sharding
    np.testing.assert_array_equal(y, DATA * 2 + 1)
    z = curta.jit(lambda a, b: a @ b, out_shardings=sharded(None, "x"))(x, DATA)
    assert parts(z) == dict.fromkeys(range(4), (8, 2))
    np.testing.assert_allclose(z, DATA @ DATA)
    assert float(x[3, 1]) == 25 and x[2:4].tolist() == DATA[2:4].tolist()
    with pytest.raises(ValueError, match="incompatible devices"):
        x + curta.device_put(DATA, curta.devices()[0])


SPLITS = [(), ("x",), (None, "x"), ("y", "x"), ("x", "y"), (("x", "y"),), (("y", "x"),)]


@pytest.mark.parametrize(
    ("source", "target"), [*itertools.product(SPLITS, repeat=2)], ids=str
)
def test_from_one_split_to_another(source, target):
    before, after = sharded(*source), sharded(*target)
    x = curta.device_put(curta.device_put(DATA, before), after)
    np.testing.assert_array_equal(x, DATA)
    assert x.sharding == after
    for shard in x.addressable_shards:
        np.testing.assert_array_equal(shard.data, DATA[shard.index])


def test_to_other_devices():
    x = curta.device_put(DATA, sharded("x"))
    some = curta.sharding.Mesh(np.array(curta.devices()[2:6]), "z")
    y = curta.device_put(x, NamedSharding(some, P(None, "z")))
    assert parts(y) == {1: (8, 4), 2: (8, 4)}
    np.testing.assert_array_equal(y, DATA)
    back = curta.device_put(y, curta.devices()[3])
    assert back._data is not None and back.devices() == {curta.devices()[3]}
    np.testing.assert_array_equal(back, DATA)


def test_only_what_is_missing_moves():
    x = curta.device_put(DATA, sharded("x"))
    before = traffic.sent()
    curta.device_put(x, sharded(None, "x"))
    after = traffic.sent()
    moved = [sum(after[h].values()) - sum(before[h].values()) for h in range(4)]
    assert moved == [3 * 4 * 2 * 2] * 4  # three times a block of 2 by 2
    whole = curta.device_put(DATA, sharded())
    before = traffic.sent()
    curta.device_put(whole, sharded("x"))
    assert traffic.sent() == before


def test_donation_and_the_ways_of_arrays():
    x = curta.device_put(DATA, sharded("x"))
    y = curta.jit(lambda a: a + 1, donate_argnums=0)(x)
    assert x.is_deleted()
    with pytest.raises(RuntimeError, match="deleted"):
        x + 1
    assert y.block_until_ready() is y and y.is_ready()
    assert y.on_device_size_in_bytes() == DATA.nbytes
    with pytest.raises(ValueError, match="addressable_shards"):
        y.unsafe_buffer_pointer()
    again = copy.deepcopy(y)
    assert parts(again) == parts(y)
    y.delete()
    np.testing.assert_array_equal(again, DATA + 1)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(again)), DATA + 1)
    np.testing.assert_array_equal(np.stack(list(again)), DATA + 1)
    assert float(again.sum()) == (DATA + 1).sum()


def test_results_take_over_the_memory_of_donated_arrays():
    def addresses(x):
        return {h: p.ctypes.data for h, p in x._buffer().parts.items()}

    step = curta.jit(lambda a, b: (a * 2 + b, b), donate_argnums=0)
    big = np.ones((64, 64), np.float32)
    b = curta.device_put(big, sharded("x"))
    x = curta.device_put(big, sharded("x")) + b
    before = addresses(x)
    x, _ = step(x, b)
    assert addresses(x) == before and float(x.sum()) == 5 * big.size
    shard = x.addressable_shards[2].data  # which may be read later
    y, _ = step(x, b)
    assert addresses(y)[1] != before[1] and float(shard[0, 0]) == 5
    assert addresses(y)[0] == before[0]
    whole = curta.jit(lambda a: a + 1, donate_argnums=0)
    one = curta.device_put(big, sharded())  # one buffer for all hosts
    assert float(whole(one).sum()) == 2 * big.size and big[0, 0] == 1
    with pytest.raises(curta.errors.JaxRuntimeError, match="donate"):
        step(y, y)
    assert not y.is_deleted()


def test_constants_and_closures():
    x = curta.device_put(DATA, sharded("x"))
    table = jnp.asarray(DATA[::-1])
    f = curta.jit(lambda a: a + x + table)
    np.testing.assert_array_equal(f(x), 2 * DATA + DATA[::-1])
    np.testing.assert_array_equal(f(np.zeros_like(DATA)), DATA + DATA[::-1])


def test_errors_of_a_program():
    x = curta.device_put(DATA, sharded("x"))

    def fails(a):
        raise KeyError("nothing there")

    f = curta.jit(lambda a: curta.pure_callback(fails, a, a))
    with pytest.raises(Exception, match="nothing there"):
        f(x).block_until_ready()
    np.testing.assert_array_equal(x + 1, DATA + 1)
    with curta.debug_nans(True), pytest.raises(FloatingPointError, match="nan"):
        curta.jit(lambda a: jnp.log(a - 1))(x).block_until_ready()


def test_tangents_of_integers():
    x = curta.device_put(DATA.astype(int), sharded("x"))
    grads = curta.grad(lambda a: jnp.sum(a * 1.0), allow_int=True)(x)
    assert grads.dtype == curta.dtypes.float0 and grads.shape == x.shape


@pytest.mark.parametrize("where", [None, "same"])
def test_what_is_put_in_memory_of_its_own_outlives_its_argument(where):
    """It was the argument itself."""
    x = curta.device_put(DATA, sharded("x"))
    y = curta.device_put(x, None if where is None else x.sharding, may_alias=False)
    x.delete()
    assert y.sharding == x.sharding
    np.testing.assert_array_equal(y, DATA)


class TestMaking:
    def test_from_a_callback(self):
        calls = []

        def part(index):
            calls.append(index)
            return DATA[index]

        x = curta.make_array_from_callback((8, 8), sharded("x", "y"), part)
        assert len(calls) == 8 and parts(x) == dict.fromkeys(range(4), (2, 8))
        np.testing.assert_array_equal(x, DATA)
        calls.clear()
        x = curta.make_array_from_callback((8, 8), sharded(("y", "x")), part)
        assert len(calls) == 8
        np.testing.assert_array_equal(x, DATA)

    def test_from_arrays_of_devices(self):
        where = sharded(None, ("x", "y"))
        indices = where.addressable_devices_indices_map((8, 8))
        arrays = [curta.device_put(DATA[i], d) for d, i in indices.items()]
        x = curta.make_array_from_single_device_arrays((8, 8), where, arrays)
        assert parts(x) == dict.fromkeys(range(4), (8, 2))
        np.testing.assert_array_equal(x, DATA)
        again = [shard.data for shard in x.addressable_shards]
        y = curta.make_array_from_single_device_arrays((8, 8), where, again[::-1])
        np.testing.assert_array_equal(y, DATA)

    def test_from_local_data(self):
        x = curta.make_array_from_process_local_data(sharded("x"), DATA)
        assert parts(x) == dict.fromkeys(range(4), (2, 8))

    def test_no_host_has_all(self):
        shape = (1024, 256)
        whole = 4 * 1024 * 256
        rows = lambda index: np.ones(shape, np.float32)[index]  # noqa: E731
        x = curta.make_array_from_callback(shape, sharded("x"), rows)
        f = curta.jit(lambda: jnp.ones(shape) * 2, out_shardings=sharded("x"))
        y = f()
        z = curta.jit(lambda a, b: jnp.sin(a) + b)(x, y)
        assert most_held(x) == most_held(y) == most_held(z) == whole // 4


@pytest.mark.parametrize("over_hosts", [False, True])
def test_compilation_is_timed_where_it_is_known_who_runs_the_program(over_hosts):
    """Listeners heard of it before, when nothing had been compiled yet."""
    x = curta.device_put(DATA, sharded("x")) if over_hosts else DATA
    heard = []

    def listen(event, seconds, **_):
        heard.append((event.rpartition("/")[2], seconds))

    compiled = curta.jit(lambda x: jnp.tanh(x) @ x).lower(x).compile()
    monitoring.register_event_duration_secs_listener(listen)
    try:
        compiled(x), compiled(x)
    finally:
        monitoring.unregister_event_duration_listener(listen)
    assert [name for name, _ in heard] == [
        "jaxpr_to_mlir_module_duration",
        "backend_compile_duration",
    ]
    assert heard[1][1] >= heard[0][1]
