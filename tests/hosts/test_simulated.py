"""Hosts that are threads: the collectives, what is counted, and that nothing hangs."""

import signal
import threading
import time

import ml_dtypes
import numpy as np
import pytest

import curta
from curta.config import config, enable_x64, hosts_timeout
from curta.hosts import traffic
from curta.hosts.engine import current
from curta.hosts.failures import HostsError
from curta.hosts.folding import fold
from curta.hosts.group import HostGroup
from curta.hosts.simulated import run_on_hosts

from .engines import check

ALL = HostGroup(("x",), (4,), (0, 1, 2, 3), ("x",))


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_collectives(count):
    assert len(set(run_on_hosts(lambda host: check(current()), range(count)))) == 1


def test_narrow_floats_are_summed_in_float32():
    x = np.array([256, 1, 1, 2], ml_dtypes.bfloat16)
    totals = run_on_hosts(
        lambda i: current().all_reduce(ALL, "sum", x[i : i + 1]), range(4)
    )
    assert totals[0] == 260  # term by term it would stay 256


def test_sums_are_taken_in_the_order_of_the_hosts():
    x = np.random.default_rng(0).normal(size=(4, 100)).astype("f4")
    for _ in range(5):
        for found in run_on_hosts(
            lambda i: current().all_reduce(ALL, "sum", x[i]), range(4)
        ):
            assert found.tobytes() == fold("sum", x).tobytes()


def test_bytes_are_counted():
    def program(host):
        before = traffic.sent()[host]
        x = np.zeros((4, 6), "f4")  # 96 bytes
        engine = current()
        engine.all_reduce(ALL, "sum", x)
        engine.all_gather(ALL, x, 1)
        engine.reduce_scatter(ALL, "sum", x, 0)
        engine.all_to_all(ALL, x, 0, 1)
        engine.permute(ALL, ((0, 1), (0, 3), (2, 2)), x)
        after = traffic.sent()[host]
        return {name: after[name] - before[name] for name in after}

    counts = run_on_hosts(program, range(4))
    moved = {"all_reduce": 144, "all_gather": 288, "reduce_scatter": 72}
    moved["all_to_all"] = 72
    assert counts[0] == {**moved, "permute": 192}
    assert counts[1] == counts[2] == counts[3] == {**moved, "permute": 0}


def test_an_error_on_one_host_wakes_the_others():
    def program(host):
        if host == 2:
            raise KeyError("host 2")
        current().all_reduce(ALL, "sum", np.ones(3))

    with pytest.raises(KeyError, match="host 2"):
        run_on_hosts(program, range(4))
    assert run_on_hosts(lambda host: host, range(4)) == [0, 1, 2, 3]


def test_exits_are_passed_on():
    def program(host):
        if host == 1:
            raise SystemExit(3)
        current().all_gather(ALL, np.ones(3), 0)

    with pytest.raises(SystemExit, match="3"):
        run_on_hosts(program, range(4))


def test_different_collectives_are_named():
    def program(host):
        x = np.ones((4, 2), "f4")
        if host == 3:
            return current().all_gather(ALL, x, 0)
        return current().all_reduce(ALL, "sum", x)

    with pytest.raises(HostsError, match=r"different collectives: host .*") as error:
        run_on_hosts(program, range(4))
    assert "all_reduce(sum, float32[4,2]) between hosts 0, 1, 2, 3" in str(error.value)
    assert "host 3 all_gather(dim 0, float32[4,2])" in str(error.value)


@pytest.mark.parametrize(
    "x", [np.ones((4, 3), "f4"), np.ones((4, 2), "f8")], ids=["shape", "dtype"]
)
def test_different_operands_are_named(x):
    def program(host):
        y = x if host == 1 else np.ones((4, 2), "f4")
        return current().all_reduce(ALL, "sum", y)

    with pytest.raises(HostsError, match=r"host \d all_reduce"):
        run_on_hosts(program, range(4))


def test_hosts_that_wait_for_one_another():
    mesh = HostGroup(("x", "y"), (2, 2), (0, 1, 2, 3), ("x",))

    def program(host):
        group = mesh if host in (0, 1) else mesh.along(("y",))
        return current().all_reduce(group, "sum", np.ones(2))

    with pytest.raises(HostsError, match="hosts wait for one another: host 0 waits in"):
        run_on_hosts(program, range(4))


def test_a_host_that_has_ended_is_not_waited_for():
    def program(host):
        return host and current().all_reduce(ALL, "sum", np.ones(2))

    with pytest.raises(HostsError, match=r"host 0 has ended; host 1 waits in all_red"):
        run_on_hosts(program, range(4))


def test_time_outs_name_who_waits():
    release = threading.Event()

    def program(host):
        if host == 1:
            release.wait(5)
            return 0
        try:
            current().all_reduce(ALL.along(()), "sum", np.ones(2))
            return current().all_reduce(ALL, "sum", np.ones(2))
        finally:
            release.set()

    with hosts_timeout(0.1), pytest.raises(HostsError) as error:
        run_on_hosts(program, range(4))
    assert "time-out after 0.1 s" in str(error.value)
    assert "host 1 computes" in str(error.value)
    assert "waits in all_reduce(sum, float64[2])" in str(error.value)


def test_signals_end_all_hosts():
    main = threading.get_ident()

    def program(host):
        if host == 0:
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0.05)
        current().all_reduce(ALL, "sum", np.ones(2))
        return run_until_told()

    def run_until_told():
        for _ in range(10_000):
            current().all_reduce(ALL, "sum", np.ones(2))
            time.sleep(0.001)

    # Shells let what they start in the background ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_on_hosts(program, range(4))
    finally:
        signal.signal(signal.SIGINT, before)


def test_settings_are_those_of_the_caller():
    with enable_x64(True), np.errstate(divide="raise"):
        found = run_on_hosts(
            lambda host: (config.jax_enable_x64, np.geterr()["divide"]), range(2)
        )
    assert found == [(True, "raise")] * 2
    assert run_on_hosts(lambda host: config.jax_enable_x64, range(2)) == [False] * 2


def test_threads_are_kept():
    first = run_on_hosts(lambda host: threading.get_ident(), range(3))
    assert run_on_hosts(lambda host: threading.get_ident(), range(3)) == first


def test_a_run_within_a_run_is_refused():
    with pytest.raises(HostsError, match="within"):
        run_on_hosts(lambda host: run_on_hosts(lambda h: h, range(2)), range(2))


def test_programs_run_in_the_threads_of_hosts():
    step = curta.jit(lambda x: x * 2 + 1)
    found = run_on_hosts(lambda host: float(step(float(host))), range(4))
    assert found == [1.0, 3.0, 5.0, 7.0]


def test_compiled_loops_meet():
    from curta.primitives.host_collectives import HostIndex, HostReduce

    @curta.jit
    def program(x):
        x = x + HostIndex(ALL)()
        total = HostReduce(ALL, "sum")
        return curta.lax.fori_loop(1, 4, lambda i, x: total(x * i), x)

    found = run_on_hosts(lambda host: np.asarray(program(np.zeros(3, "i4"))), range(4))
    for x in found:
        np.testing.assert_array_equal(x, [6 * 6 * 4 * 4] * 3)


def test_collectives_of_constants_run_on_hosts():
    from curta.primitives.host_collectives import HostBucket, HostReduce

    def program():
        two = curta.numpy.float32(2)
        largest = HostBucket(HostReduce(ALL, "max"))
        return HostReduce(ALL, "sum")(two), *largest(two, two)

    compiled = curta.jit(program).lower().compile()
    found = run_on_hosts(lambda host: list(map(float, compiled())), range(4))
    assert found == [[8.0, 2.0, 2.0]] * 4
