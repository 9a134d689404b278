"""Queries of programs for several processes, in a single process."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
from curta import P, distributed
from curta.config import config
from curta.experimental import multihost_utils
from curta.sharding import NamedSharding


@pytest.fixture
def alone():
    distributed.initialize("localhost:1", num_processes=1, process_id=0)
    yield
    distributed.shutdown()


def test_a_single_process(alone):
    assert distributed.is_initialized()
    with pytest.raises(RuntimeError, match="should only be called once"):
        distributed.initialize("localhost:1", 1, 0)
    distributed.shutdown()
    assert not distributed.is_initialized()
    distributed.shutdown()


@pytest.mark.parametrize(("given", "visible"), [(2, "2"), ([1, 3], "1,3")])
def test_local_device_ids_choose_gpus(given, visible):
    names = ("jax_cuda_visible_devices", "jax_rocm_visible_devices")
    before = [getattr(config, name) for name in names]
    try:
        distributed.initialize("localhost:1", 1, 0, local_device_ids=given)
        assert [getattr(config, name) for name in names] == [visible] * 2
    finally:
        distributed.shutdown()
        for name, value in zip(names, before):
            config.update(name, value)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((), ValueError, "address should be defined. No launcher .* curta.run -n 4"),
        (("h:1",), ValueError, "Number of processes must be defined"),
        (("h:1", 1), ValueError, "process id of the current process must be defined"),
        (("h:1", 1, "0"), TypeError, "process_id must be an int"),
        (("h:1", 1, 1), ValueError, "process_id < num_processes"),
        (("h", 2, 0), ValueError, "an address is 'host:port', not 'h'"),
    ],
)
def test_other_processes_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        distributed.initialize(*arguments)
    assert not distributed.is_initialized()


def test_live_devices(alone):
    devices = curta.devices()
    with multihost_utils.live_devices(devices[::-1]) as alive:
        assert alive == devices
    with pytest.raises(ValueError, match="No devices"):
        with multihost_utils.live_devices([]):
            pass
    distributed.shutdown()
    with pytest.raises(RuntimeError, match="not initialized"):
        with multihost_utils.live_devices(devices):
            pass
    assert not multihost_utils.reached_preemption_sync_point(3)
    error = multihost_utils.ProcessFailureError({devices[0]})
    assert error.failed_devices == {devices[0]} and "Devices failed" in str(error)


def test_local_and_global_arrays():
    mesh = curta.make_mesh((2,), ("x",))
    where = {"global_mesh": mesh, "pspec": P("x")}
    x = np.arange(4.0, dtype=np.float32)
    whole = multihost_utils.host_local_array_to_global_array_impl(x, **where)
    assert whole.sharding == NamedSharding(mesh, P("x"))
    back = multihost_utils.global_array_to_host_local_array_impl(whole, **where)
    np.testing.assert_array_equal(back, x)
    for rule in (multihost_utils.ltg_abstract_eval, multihost_utils.gtl_abstract_eval):
        assert rule(x, **where).str_short() == "float32[4]"
    axis = type("Axis", (), {"spmd_name": None})
    out, dim = multihost_utils.ltg_batcher(False, axis, [x[None]], [0], mesh, P("x"))
    assert dim == 0 and out.sharding.spec == P(None, "x")


class TestMemory:
    def test_spaces(self):
        Space = curta.memory.Space
        assert [s.name for s in Space] == ["Device", "Host", "Any"]
        assert repr(Space.Host) == "MemorySpace.Host"
        mesh = curta.make_mesh((2,), ("x",))
        x = curta.device_put(np.arange(4.0), NamedSharding(mesh, P("x")))
        host = curta.device_put({"a": x, "b": 1.0}, Space.Host)
        assert host["a"].sharding == x.sharding.with_memory_kind("pinned_host")
        assert host["b"].sharding.memory_kind == "pinned_host"
        back = curta.device_put(host, Space.Device)
        assert back["a"].sharding == x.sharding
        np.testing.assert_array_equal(back["a"], x)
        mixed = curta.device_put((x, x), (Space.Host, None))
        kinds = [y.sharding.memory_kind for y in mixed]
        assert kinds == ["pinned_host", x.sharding.memory_kind]

    def test_in_a_program(self):
        put = lambda x: curta.device_put(2 * x, curta.memory.Space.Host)  # noqa: E731
        (eqn,) = curta.make_jaxpr(put)(1.0).eqns[1:]
        assert eqn.params["devices"] == (curta.memory.Space.Host,)
        for call in (put, curta.jit(put)):
            assert call(np.ones(2)).sharding.memory_kind == "pinned_host"
        assert curta.grad(put)(1.0) == 2
        with pytest.raises(ValueError, match="MemorySpace.Any does not say"):
            curta.device_put(1.0, curta.memory.Space.Any)
