"""Processes that exchange arrays over TCP; here each is a thread with connections."""

import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from curta.config import config
from curta.errors import JaxRuntimeError
from curta.hosts import fingerprint, wire
from curta.hosts.client import StoreClient
from curta.hosts.engine import set_thread_engine
from curta.hosts.failures import HostsError
from curta.hosts.group import HostGroup
from curta.hosts.presence import Presence
from curta.hosts.service import Service
from curta.hosts.store import StoreConnection
from curta.hosts.tcp import TCP, connected

from .engines import check

SECONDS = 30.0


class Process:
    """The state of a process."""

    def __init__(self, address, index, count):
        self.index = index
        self.store = StoreConnection(address, SECONDS)
        self.client = StoreClient(self.store.ask, index, count)
        self.presence = Presence(self.store, index, SECONDS)
        peers = connected(self.store, index, count, SECONDS)
        self.engine = TCP(index, peers, self.presence)


@pytest.fixture
def together(monkeypatch):
    """`together(count, body)`: what `body(process)` gives, or raises, in each."""
    monkeypatch.setenv(wire.TOKEN, "secret")
    # A process that has failed would be ended; here it is the one of the tests.
    monkeypatch.setattr(Presence, "_end_later", lambda self: None)
    made, services = [], []

    def run(count, body):
        service = Service()
        services.append(service)

        def start(index):
            process = Process(service.address, index, count)
            made.append(process)
            set_thread_engine(process.engine)
            try:
                return body(process)
            except Exception as error:
                return error
            finally:
                set_thread_engine(None)

        with ThreadPoolExecutor(count) as pool:
            return list(pool.map(start, range(count)))

    yield run
    for process in made:
        process.presence.leave()
        process.engine.close()
    for service in services:
        service.close()


def everyone(engine):
    return HostGroup(("x",), (engine.count,), tuple(range(engine.count)), ("x",))


@pytest.mark.parametrize("count", [2, 3])
def test_collectives(together, count):
    some = [np.dtype(c) for c in "?biefD"]
    found = together(count, lambda process: check(process.engine, some))
    assert len(set(found)) == 1 and isinstance(found[0], int)


def test_large_arrays(together):
    def body(process):
        x = np.random.default_rng(process.index).normal(size=300_001)
        return process.engine.all_reduce(everyone(process.engine), "sum", x)

    totals = together(2, body)
    wanted = sum(np.random.default_rng(i).normal(size=300_001) for i in range(2))
    for total in totals:
        assert total.tobytes() == wanted.tobytes()


def test_different_collectives_are_named(together):
    def body(process):
        x, engine = np.ones((2, 2), "f4"), process.engine
        if process.index:
            return engine.all_gather(everyone(engine), x, 0)
        return engine.all_reduce(everyone(engine), "sum", x)

    for error in together(2, body):
        assert isinstance(error, HostsError)
        assert "all_reduce(sum, float32[2,2])" in str(error)
        assert "all_gather(dim 0, float32[2,2])" in str(error)


def test_time_outs_name_who_waits_for_what(together):
    before = config.curta_hosts_timeout
    config.update("curta_hosts_timeout", 0.2)
    over = threading.Event()

    def body(process):
        if process.index == 1:
            return over.wait(SECONDS)
        try:
            x = np.ones(2)
            process.engine.all_reduce(everyone(process.engine), "sum", x)
        finally:
            over.set()

    try:
        error, _ = together(2, body)
    finally:
        config.update("curta_hosts_timeout", before)
    assert str(error).startswith(
        "time-out after 0.2 s: host 0 waits in all_reduce(sum, float64[2]) between"
        " hosts 0, 1 for 1: process 1 is at "
    )


def test_what_failed_is_told_to_those_that_wait(together):
    def body(process):
        if process.index == 1:
            process.presence.failed("ValueError: no data")
            process.engine.close()
            return None
        x = np.ones(2)
        return process.engine.all_reduce(everyone(process.engine), "sum", x)

    first, _, third = together(3, body)
    for error in (first, third):
        assert "process 1 failed: ValueError: no data, while host" in str(error)


def test_a_process_that_is_gone_is_noticed(together):
    def body(process):
        if process.index == 1:  # what the system does when a process is killed
            process.presence._connection.shutdown(socket.SHUT_RDWR)
            process.engine.close()
            return None
        x = np.ones(2)
        return process.engine.all_reduce(everyone(process.engine), "sum", x)

    first, _, third = together(3, body)
    assert "process 1 is gone, while host 0 was in all_reduce" in str(first)
    assert "process 1 is gone, while host 2 was in all_reduce" in str(third)


def test_programs_that_differ_are_named(together):
    programs = [["a = sin x", "b = mul a a"]] * 2 + [["a = sin x", "b = mul a x"]]

    def body(process):
        eqns = programs[process.index]
        fingerprint.check(range(3), ["step"], programs[0], lambda i: "")
        fingerprint.check(range(3), ["step"], eqns, lambda i: f"train.py:{40 + i}")

    for error in together(3, body):
        assert str(error).splitlines()[:3] == [
            "process 2 traced a program that differs at eqn 1, train.py:41:",
            "  process 0: b = mul a a (train.py:41)",
            "  process 2: b = mul a x (train.py:41)",
        ]


def test_programs_of_other_lengths_and_names(together):
    def body(process):
        longer = ["a = sin x", *["b = cos a"] * process.index]
        try:
            fingerprint.check(range(2), [f"f{process.index}"], [], lambda i: "")
        except HostsError as error:
            assert "process 1 traced a program that differs:\n" in str(error)
        fingerprint.check(range(2), ["f"], longer, lambda i: "a.py:1")

    for error in together(2, body):
        assert "differs at eqn 1, a.py:1" in str(error)
        assert "process 0: the end of the program" in str(error)


def test_keys_values_and_barriers(together):
    def body(process):
        client, index = process.client, process.index
        client.key_value_set(f"dir/{index}", f"value {index}")
        client.wait_at_barrier("set", 10_000)
        assert client.key_value_dir_get("dir") == [
            (f"dir/{i}", f"value {i}") for i in range(3)
        ]
        assert client.blocking_key_value_get("dir/2", 1000) == "value 2"
        assert client.key_value_try_get_bytes("dir/0") == b"value 0"
        with pytest.raises(JaxRuntimeError, match="ALREADY_EXISTS: key dir/1 already"):
            client.key_value_set("dir/1", "other")
        with pytest.raises(JaxRuntimeError, match="NOT_FOUND: Config key x not found"):
            client.key_value_try_get("x")
        with pytest.raises(JaxRuntimeError, match="DEADLINE_EXCEEDED"):
            client.blocking_key_value_get("x", 1)
        client.key_value_increment("total", index)
        client.wait_at_barrier("set", 10_000)
        assert client.key_value_increment("total", 0) == 3
        if index < 2:
            client.wait_at_barrier("two", 10_000, [0, 1])
            with pytest.raises(JaxRuntimeError, match="DEADLINE_EXCEEDED: Barrier tim"):
                client.wait_at_barrier("all", 10)
        client.wait_at_barrier("set", 10_000)
        with pytest.raises(JaxRuntimeError, match="INVALID_ARGUMENT: A non-partic"):
            client.wait_at_barrier("none", 10_000, [0] if index else [1, 2])
        client.wait_at_barrier("set", 10_000)
        client.key_value_delete("dir")
        assert client.key_value_dir_get("dir") == []
        client.key_value_set("total", "7", allow_overwrite=True)
        return client.key_value_increment("total", 0)

    assert together(3, body) == [7, 7, 7]


def test_strangers_are_turned_away():
    service = Service()
    with socket.create_connection(service.address) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert stranger.recv(100) == b""
    service.close()


@pytest.mark.parametrize("theirs", ["ours", "other"])
def test_both_ends_need_the_token(theirs):
    here, there = socket.socketpair(socket.AF_UNIX)
    with here, there, ThreadPoolExecutor() as pool:
        answer = pool.submit(wire.admit, there, theirs)
        if theirs == "ours":
            wire.greet(here, "ours")
            return answer.result()
        with pytest.raises(wire.WrongToken):
            wire.greet(here, "ours")
        here.close()
        with pytest.raises(ConnectionError):
            answer.result()


def test_errors_end_all_processes():
    program = "tests.hosts.programs.ending"
    command = [sys.executable, "-m", "curta", "run", "-n", "2", "--engine", "tcp"]
    ended = subprocess.run(
        [*command, "--prefix", "-m", program, "exit"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 3, ended.stderr
    assert "process 1 failed: sys.exit(3), while host 0 was in" in ended.stderr


def test_who_joins_late_is_told_who_is_gone():
    service = Service()
    store = StoreConnection(service.address, 10.0)
    gone = store.connect()
    wire.send_texts(gone, b"join", b"1", b"10.0")
    gone.close()
    store.ask(b"get", b"", b"0.2")  # the service has noticed by then
    presence = Presence(store, 0, 10.0)
    try:
        assert str(presence.reason(5.0)) == "process 1 is gone"
    finally:
        presence.leave()
        service.close()
