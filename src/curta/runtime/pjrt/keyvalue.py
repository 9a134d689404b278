"""Where the processes of one program tell each other keys and values.

One of them has the store and serves it over TCP; the others connect. Plugins reach it
through callbacks when a client is made, and whenever devices of several processes
first work together. As with JAX's, whoever can connect can read and write: the address
has to be one that only the program's machines reach.

A message is a number of texts: their count, their sizes, and the texts.
"""

from __future__ import annotations

import ctypes
import math
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from curta.errors import JaxRuntimeError
from curta.runtime.pjrt import callbacks
from curta.runtime.pjrt.abi import structs
from curta.runtime.pjrt.errors import runtime_error
from curta.runtime.pjrt.host_calls import callback_error

# Longer messages come from nobody who speaks this protocol.
_LONGEST = 1 << 30
_DEADLINE_EXCEEDED, _NOT_FOUND, _ALREADY_EXISTS, _UNAVAILABLE = 4, 5, 6, 14


def _receive(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(size - len(data), 1 << 20))
        if not part:
            raise ConnectionError("the other end closed the connection")
        data += part
    return bytes(data)


def _send_texts(connection: socket.socket, texts: Sequence[bytes]) -> None:
    head = struct.pack(f"!{len(texts) + 1}I", len(texts), *map(len, texts))
    connection.sendall(head + b"".join(texts))


def _receive_texts(connection: socket.socket) -> list[bytes]:
    (count,) = struct.unpack("!I", _receive(connection, 4))
    if count > 8:
        raise ConnectionError("not a message of the key-value store")
    sizes = struct.unpack(f"!{count}I", _receive(connection, 4 * count))
    if sum(sizes) > _LONGEST:
        raise ConnectionError("a message is too long for the key-value store")
    return [_receive(connection, size) for size in sizes]


class Table:
    """Keys and values, and threads that wait for them."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._counts: dict[bytes, int] = {}
        self._changed = threading.Condition()

    def put(self, key: bytes, value: bytes) -> bool:
        """Set a key; False if it has been set to another value."""
        with self._changed:
            if self._values.setdefault(key, value) != value:
                return False
            self._changed.notify_all()
            return True

    def get(self, key: bytes, seconds: float) -> bytes | None:
        """The value of a key, once there is one; None if that takes too long."""
        with self._changed:
            self._changed.wait_for(lambda: key in self._values, seconds)
            return self._values.get(key)

    def delete(self, key: bytes) -> None:
        """Forget a key and, if it ends in `/`, all that begin with it."""
        with self._changed:
            for known in [k for k in self._values if k == key or _within(k, key)]:
                del self._values[known]

    def meet(self, name: bytes, count: int, seconds: float) -> bool:
        """Wait until `count` threads wait at a barrier; False if some do not come."""
        with self._changed:
            now = self._counts[name] = self._counts.get(name, 0) + 1
            self._changed.notify_all()
            # The barrier can be used again: each round ends at a multiple of `count`.
            wanted = math.ceil(now / count) * count
            if self._changed.wait_for(lambda: self._counts[name] >= wanted, seconds):
                return True
            self._counts[name] -= 1
            return False


def _within(key: bytes, folder: bytes) -> bool:
    return folder.endswith(b"/") and key.startswith(folder)


class _Handler(socketserver.BaseRequestHandler):
    """Answers one connection: pairs of a status and a value."""

    server: _TCPServer

    def handle(self) -> None:
        connection = self.request
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            while True:
                _send_texts(connection, self._answer(*_receive_texts(connection)))
        except (OSError, ValueError, TypeError):
            return  # the other end is gone, or speaks another protocol

    def _answer(self, verb: bytes, key: bytes, value: bytes) -> list[bytes]:
        table = self.server.table
        if verb == b"put":
            return [b"ok" if table.put(key, value) else b"exists", b""]
        if verb == b"get":
            found = table.get(key, float(value))
            return [b"none", b""] if found is None else [b"ok", found]
        if verb == b"delete":
            table.delete(key)
            return [b"ok", b""]
        if verb == b"meet":
            count, seconds = value.split()
            met = table.meet(key, int(count), float(seconds))
            return [b"ok" if met else b"none", b""]
        raise ValueError(verb)


class _TCPServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024  # all processes of a program connect at once
    table: Table


class Server:
    """Serves a table; `address` is where."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self._server = _TCPServer((host, port), _Handler)
        self._server.table = Table()
        self.address: tuple[str, int] = self._server.server_address[:2]
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="key-value store", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Store:
    """A connection to a server: one for each thread, as a `get` may wait for long.

    Raises JaxRuntimeError: UNAVAILABLE if the server cannot be reached in time.
    """

    def __init__(self, address: tuple[str, int], timeout: float = 300.0) -> None:
        self.address = address
        self.timeout = timeout
        self._threads = threading.local()
        self._ask(b"get", b"", b"0")

    def put(self, key: str, value: bytes) -> None:
        """Set a key; ALREADY_EXISTS if it has been set to another value."""
        status, _ = self._ask(b"put", key.encode(), value)
        if status != b"ok":
            raise runtime_error(_ALREADY_EXISTS, f"key {key!r} has another value")

    def get(self, key: str, seconds: float) -> bytes:
        """The value of a key, waiting for it; DEADLINE_EXCEEDED if it does not come."""
        status, value = self._ask(b"get", key.encode(), repr(seconds).encode())
        if status == b"ok":
            return value
        message = f"waited {seconds:g} s for key {key!r}, which no process has set"
        raise runtime_error(_DEADLINE_EXCEEDED, message)

    def try_get(self, key: str) -> bytes:
        """The value of a key; NOT_FOUND if it has none now."""
        status, value = self._ask(b"get", key.encode(), b"0")
        if status != b"ok":
            raise runtime_error(_NOT_FOUND, f"key {key!r} is not set")
        return value

    def delete(self, key: str) -> None:
        """Forget a key and, if it ends in `/`, all that begin with it."""
        self._ask(b"delete", key.encode(), b"")

    def barrier(self, name: str, processes: int, seconds: float) -> None:
        """Wait until that many have called this; DEADLINE_EXCEEDED if some do not."""
        value = f"{processes} {seconds!r}".encode()
        status, _ = self._ask(b"meet", name.encode(), value)
        if status != b"ok":
            raise runtime_error(
                _DEADLINE_EXCEEDED,
                f"waited {seconds:g} s at barrier {name!r} for {processes} processes",
            )

    def _ask(self, *texts: bytes) -> list[bytes]:
        connection = getattr(self._threads, "connection", None)
        if connection is None:
            connection = self._threads.connection = self._connect()
        try:
            _send_texts(connection, texts)
            return _receive_texts(connection)
        except OSError as error:
            self._threads.connection = None
            connection.close()
            raise self._unavailable(error) from None

    def _connect(self) -> socket.socket:
        """A connection; the server may begin to serve later than others connect."""
        end, pause = time.monotonic() + self.timeout, 0.01
        while True:
            try:
                connection = socket.create_connection(self.address, self.timeout)
            except OSError as error:
                if time.monotonic() > end:
                    raise self._unavailable(error) from None
                time.sleep(pause)
                pause = min(1.0, 2 * pause)
            else:
                connection.settimeout(None)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return connection

    def _unavailable(self, error: OSError) -> JaxRuntimeError:
        host, port = self.address
        message = f"the key-value store at {host}:{port} cannot be reached: {error}"
        return runtime_error(_UNAVAILABLE, message)


# PJRT_Error* callback(args*)
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


class Callbacks:
    """A store as plugins call it; `prefix` keeps the keys of plugins apart.

    It lives as long as the client that is made with it.
    """

    def __init__(self, store: Store, prefix: str = "") -> None:
        self.store = store
        self.prefix = prefix
        libc = ctypes.CDLL(None)
        self._allocate = libc.malloc
        self._allocate.restype, self._allocate.argtypes = (
            ctypes.c_void_p,
            [ctypes.c_size_t],
        )
        self._free = ctypes.cast(libc.free, ctypes.c_void_p).value
        self._functions = {
            "kv_get_callback": self._made("KeyValueGetCallback_Args", self._get),
            "kv_put_callback": self._made("KeyValuePutCallback_Args", self._put),
            "kv_try_get_callback": self._made("KeyValueTryGetCallback_Args", self._try),
        }

    def arguments(self) -> dict[str, int]:
        """Fields of PJRT_Client_Create_Args."""
        return {n: callbacks.address_of(f) for n, f in self._functions.items()}

    def _made(self, struct: str, body: Callable[[Any, str], None]) -> Any:
        kind = structs()[struct]

        def call(address: int) -> None:
            args: Any = kind.from_address(address)
            key = ctypes.string_at(args.key, args.key_size).decode()
            body(args, self.prefix + key)

        def failed(error: BaseException, address: int) -> int | None:
            args: Any = kind.from_address(address)
            return callback_error(args.callback_error, error)

        return callbacks.guarded(_CALLBACK, call, failed)

    def _get(self, args: Any, key: str) -> None:
        self._hand_over(args, self.store.get(key, args.timeout_in_ms / 1000))

    def _try(self, args: Any, key: str) -> None:
        self._hand_over(args, self.store.try_get(key))

    def _put(self, args: Any, key: str) -> None:
        self.store.put(key, ctypes.string_at(args.value, args.value_size))

    def _hand_over(self, args: Any, value: bytes) -> None:
        """Copy a value to memory of C, which the plugin frees."""
        memory = self._allocate(max(1, len(value)))
        ctypes.memmove(memory, value, len(value))
        args.value, args.value_size = memory, len(value)
        args.value_deleter_callback = self._free
