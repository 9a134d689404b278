"""Where the processes of one program tell each other keys and values.

One of them has the table and serves it over TCP; the others connect. It is reached by
`distributed.global_state.client`, and by plugins when a client of several processes
is made.
"""

from __future__ import annotations

import math
import socket
import socketserver
import threading
import time

from curta.errors import JaxRuntimeError
from curta.hosts import wire


class KeyValueTable:
    """Keys and values, and threads that wait for them."""

    def __init__(self) -> None:
        self._values: dict[bytes, bytes] = {}
        self._counts: dict[bytes, int] = {}
        self._broken: dict[bytes, bytes] = {}
        self._changed = threading.Condition()

    def put(self, key: bytes, value: bytes) -> bool:
        """Set a key; False if it has been set to another value."""
        with self._changed:
            if self._values.setdefault(key, value) != value:
                return False
            self._changed.notify_all()
            return True

    def set(self, key: bytes, value: bytes, again: bool) -> bool:
        """Set a key; unless `again`, False if it has been set."""
        with self._changed:
            if key in self._values and not again:
                return False
            self._values[key] = value
            self._changed.notify_all()
            return True

    def get(self, key: bytes, seconds: float) -> bytes | None:
        """The value of a key, once there is one; None if that takes too long."""
        with self._changed:
            self._changed.wait_for(lambda: key in self._values, seconds)
            return self._values.get(key)

    def add(self, key: bytes, increment: int) -> bytes:
        """Add to the number of a key, which begins as 0; the sum."""
        with self._changed:
            total = b"%d" % (int(self._values.get(key, b"0")) + increment)
            self._values[key] = total
            self._changed.notify_all()
            return total

    def folder(self, key: bytes) -> list[bytes]:
        """Keys within another one, in order, each followed by its value."""
        with self._changed:
            known = sorted(k for k in self._values if _within(k, key))
            return [text for k in known for text in (k, self._values[k])]

    def delete(self, key: bytes) -> None:
        """Forget a key, and all that are within it."""
        with self._changed:
            for known in [k for k in self._values if k == key or _within(k, key)]:
                del self._values[known]

    def meet(self, name: bytes, count: int, seconds: float) -> bytes | None:
        """Wait until `count` threads wait at a barrier.

        None if some do not come; not empty if the barrier was broken: by whom.
        """
        with self._changed:
            now = self._counts[name] = self._counts.get(name, 0) + 1
            self._changed.notify_all()
            # The barrier can be used again: each round ends at a multiple of `count`.
            wanted = math.ceil(now / count) * count
            broken = self._broken
            self._changed.wait_for(
                lambda: self._counts[name] >= wanted or name in broken, seconds
            )
            if name in broken:
                return broken[name]
            if self._counts[name] >= wanted:
                return b""
            self._counts[name] -= 1
            return None

    def break_barrier(self, name: bytes, who: bytes) -> None:
        """Let all who come to a barrier know that somebody came who is not expected."""
        with self._changed:
            self._broken[name] = who
            self._changed.notify_all()

    def answer(self, verb: bytes, key: bytes, value: bytes) -> list[bytes]:
        """A status, and what was asked for; ValueError for what is no question."""
        if verb == b"put":
            return [b"ok" if self.put(key, value) else b"exists", b""]
        if verb in (b"set", b"reset"):
            done = self.set(key, value, verb == b"reset")
            return [b"ok" if done else b"exists", b""]
        if verb == b"get":
            result = self.get(key, float(value))
            return [b"none", b""] if result is None else [b"ok", result]
        if verb == b"add":
            return [b"ok", self.add(key, int(value))]
        if verb == b"folder":
            return [b"ok", *self.folder(key)]
        if verb == b"delete":
            self.delete(key)
            return [b"ok", b""]
        if verb == b"break":
            self.break_barrier(key, value)
            return [b"ok", b""]
        if verb == b"meet":
            count, seconds = value.split()
            met = self.meet(key, int(count), float(seconds))
            return [b"none", b""] if met is None else [b"ok", met]
        raise ValueError(verb)


def _within(key: bytes, folder: bytes) -> bool:
    return key.startswith(folder.rstrip(b"/") + b"/")


class _Handler(socketserver.BaseRequestHandler):
    """Answers one connection: statuses and values."""

    server: _TCPServer

    def handle(self) -> None:
        connection = self.request
        try:
            wire.admit(connection)
            while True:
                verb, key, value = wire.receive_texts(connection)
                if verb == b"join":
                    self.server.owner.join(int(key), connection, float(value))
                    return
                texts = self.server.owner.table.answer(verb, key, value)
                wire.send_texts(connection, *texts)
        except (OSError, ValueError, TypeError):
            return  # the other end is gone, or speaks another protocol


class _TCPServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024  # all processes of a program connect at once
    owner: Server


class Server:
    """Serves a table; `address` is where."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.table: KeyValueTable = KeyValueTable()
        self._server = _TCPServer((host, port), _Handler)
        self._server.owner = self
        name, at = self._server.server_address[:2]
        self.address: tuple[str, int] = str(name), int(at)
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(0.02,),
            name="key-value store",
            daemon=True,
        )
        self._thread.start()

    def join(self, process: int, connection: socket.socket, limit: float) -> None:
        """Serve a process that wants to be told of others; see service.py."""
        raise ValueError("a table alone knows no processes")

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class StoreConnection:
    """A connection to a server: one for each thread, as a `get` may wait for long.

    Raises JaxRuntimeError: UNAVAILABLE if the server cannot be reached in time.
    """

    def __init__(self, address: tuple[str, int], timeout: float = 300.0) -> None:
        self.address = address
        self.timeout = timeout
        self._threads = threading.local()
        self._has_served = False
        self.ask(b"get", b"", b"0")

    def put(self, key: str, value: bytes) -> None:
        """Set a key; ALREADY_EXISTS if it has been set to another value."""
        status, _ = self.ask(b"put", key.encode(), value)
        if status != b"ok":
            raise JaxRuntimeError(f"ALREADY_EXISTS: key {key!r} has another value")

    def get(self, key: str, seconds: float) -> bytes:
        """The value of a key, waiting for it; DEADLINE_EXCEEDED if it does not come."""
        status, value = self.ask(b"get", key.encode(), repr(seconds).encode())
        if status == b"ok":
            return value
        raise JaxRuntimeError(
            f"DEADLINE_EXCEEDED: waited {seconds:g} s for key {key!r}, which no process"
            " has set"
        )

    def try_get(self, key: str) -> bytes:
        """The value of a key; NOT_FOUND if it has none now."""
        status, value = self.ask(b"get", key.encode(), b"0")
        if status != b"ok":
            raise JaxRuntimeError(f"NOT_FOUND: key {key!r} is not set")
        return value

    def delete(self, key: str) -> None:
        """Forget a key, and all that are within it."""
        self.ask(b"delete", key.encode(), b"")

    def barrier(self, name: str, processes: int, seconds: float) -> None:
        """Wait until that many have called this; DEADLINE_EXCEEDED if some do not."""
        value = f"{processes} {seconds!r}".encode()
        status, broken = self.ask(b"meet", name.encode(), value)
        if broken:
            raise JaxRuntimeError(f"INVALID_ARGUMENT: {broken.decode()}")
        if status != b"ok":
            raise JaxRuntimeError(
                f"DEADLINE_EXCEEDED: waited {seconds:g} s at barrier {name!r} for"
                f" {processes} processes"
            )

    def ask(self, *texts: bytes) -> list[bytes]:
        """What the table answers."""
        connection = getattr(self._threads, "connection", None)
        if connection is None:
            connection = self._threads.connection = self.connect()
        try:
            wire.send_texts(connection, *texts)
            return wire.receive_texts(connection)
        except OSError as error:
            self._threads.connection = None
            connection.close()
            raise self._unavailable(error) from None

    def connect(self) -> socket.socket:
        """A connection; the server may begin to serve later than others connect.

        Once it has served, a server that is not there has ended.
        """
        end, pause = time.monotonic() + self.timeout, 0.01
        while True:
            try:
                connection = wire.connect(self.address, self.timeout)
                self._has_served = True
                return connection
            except OSError as error:
                ended = self._has_served and isinstance(error, ConnectionRefusedError)
                late = time.monotonic() > end
                if ended or late or isinstance(error, wire.WrongToken):
                    raise self._unavailable(error) from None
                time.sleep(pause)
                pause = min(1.0, 2 * pause)

    def _unavailable(self, error: OSError) -> JaxRuntimeError:
        host, port = self.address
        return JaxRuntimeError(
            f"UNAVAILABLE: the key-value store at {host}:{port} cannot be reached:"
            f" {error}"
        )
