"""Keys and values between processes, here threads."""

import ctypes
import socket
import threading

import pytest

from curta.errors import JaxRuntimeError
from curta.hosts.store import Server, StoreConnection
from curta.runtime.pjrt.abi import structs
from curta.runtime.pjrt.keyvalue import Callbacks


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


def test_put_get_and_delete(server):
    store, other = StoreConnection(server.address), StoreConnection(server.address)
    store.put("a/x", b"1")
    store.put("a/y", bytes(range(256)) * 5000)
    assert other.get("a/x", 1) == other.try_get("a/x") == b"1"
    assert other.get("a/y", 1) == bytes(range(256)) * 5000
    other.delete("a/")
    with pytest.raises(JaxRuntimeError, match="NOT_FOUND: key 'a/x' is not set"):
        store.try_get("a/x")


def test_a_key_is_waited_for(server):
    found = []
    store = StoreConnection(server.address)
    waiting = threading.Thread(target=lambda: found.append(store.get("k", 60)))
    waiting.start()
    store.put("k", b"late")
    waiting.join(60)
    assert found == [b"late"]
    with pytest.raises(JaxRuntimeError, match="DEADLINE_EXCEEDED: waited 0.01 s for k"):
        store.get("never", 0.01)


def test_a_key_has_one_value(server):
    store = StoreConnection(server.address)
    store.put("k", b"1")
    store.put("k", b"1")
    with pytest.raises(JaxRuntimeError, match="ALREADY_EXISTS: key 'k'"):
        store.put("k", b"2")


def test_a_server_that_has_ended_is_not_waited_for():
    server = Server()
    store, errors = StoreConnection(server.address, timeout=300), []
    server.close()

    def ask():  # a thread of its own makes a connection
        try:
            store.get("k", 0)
        except JaxRuntimeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(20)
    assert len(errors) == 1 and errors[0].startswith("UNAVAILABLE")


def test_a_barrier_can_be_used_again(server):
    store, passed = StoreConnection(server.address), []

    def meet():
        for turn in range(3):
            store.barrier("b", 3, 60)
            passed.append(turn)

    threads = [threading.Thread(target=meet) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert passed == sorted(passed) and len(passed) == 9
    with pytest.raises(JaxRuntimeError, match="waited 0.01 s at barrier 'c' for 2 pro"):
        store.barrier("c", 2, 0.01)


def test_no_server():
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = unused.getsockname()
    with pytest.raises(
        JaxRuntimeError, match="UNAVAILABLE: the key-value store at 127"
    ):
        StoreConnection(address, timeout=0.01)


def test_strangers_are_not_answered(server):
    with socket.create_connection(server.address) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert stranger.recv(100) == b""
    StoreConnection(server.address).put("still", b"there")


def called(functions, name, struct, **fields):
    """Call a callback as a plugin does; the arguments, and the error as it was made."""
    errors = []
    kind = ctypes.CFUNCTYPE(
        ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t
    )
    make = kind(lambda code, message, size: errors.append((code, message[:size])) or 9)
    pointer = ctypes.c_void_p(ctypes.cast(make, ctypes.c_void_p).value)
    args = structs()[struct](callback_error=ctypes.addressof(pointer), **fields)
    run = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(functions[name])
    error = run(ctypes.addressof(args))
    assert bool(error) == bool(errors)
    return args, errors


def test_plugins_reach_the_store(server):
    store = StoreConnection(server.address)
    callbacks = Callbacks(store, "gpu:")
    functions = callbacks.arguments()
    key, value = (ctypes.create_string_buffer(t) for t in (b"key", b"v\0lue"))
    where = {"key": ctypes.addressof(key), "key_size": 3}
    given = {"value": ctypes.addressof(value), "value_size": 5}
    struct = "KeyValueTryGetCallback_Args"
    _, errors = called(functions, "kv_try_get_callback", struct, **where)
    assert errors == [(5, b"key 'gpu:key' is not set")]
    struct = "KeyValueGetCallback_Args"
    _, errors = called(functions, "kv_get_callback", struct, timeout_in_ms=10, **where)
    assert errors[0][0] == 4 and errors[0][1].startswith(b"waited 0.01 s for key")
    struct = "KeyValuePutCallback_Args"
    assert called(functions, "kv_put_callback", struct, **where, **given)[1] == []
    assert store.try_get("gpu:key") == b"v\0lue"
    struct = "KeyValueGetCallback_Args"
    args, errors = called(
        functions, "kv_get_callback", struct, timeout_in_ms=1000, **where
    )
    assert not errors and ctypes.string_at(args.value, args.value_size) == b"v\0lue"
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(args.value_deleter_callback)(args.value)
