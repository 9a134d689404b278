"""Messages between processes, over TCP: texts, and who may send them.

A message is a number of texts: their count, their sizes, and the texts. Before the
first one, both ends show that they know the token of the program (`CURTA_HOSTS_TOKEN`),
by what they make of each other's random numbers. Without a token, any process that can
connect takes part: the addresses must then be ones that only the program's machines
reach. Nothing that comes over a connection is run as code.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import struct

TOKEN = "CURTA_HOSTS_TOKEN"
# Longer messages come from nobody who speaks this protocol.
_LONGEST = 1 << 30
_MOST = 1 << 16
_MAGIC = b"curta/1\n"
_NONCE = 16
_GREETING = 30.0  # seconds, for what takes two round trips


class WrongToken(ConnectionError):
    """The other end belongs to another program."""


def receive(connection: socket.socket, size: int) -> bytes:
    """So many bytes; ConnectionError if the other end closes before."""
    data = bytearray()
    while len(data) < size:
        part = connection.recv(min(size - len(data), 1 << 20))
        if not part:
            raise ConnectionError("the other end closed the connection")
        data += part
    return bytes(data)


def send_texts(connection: socket.socket, *texts: bytes) -> None:
    """Send a message."""
    head = struct.pack(f"!{len(texts) + 1}I", len(texts), *map(len, texts))
    connection.sendall(head + b"".join(texts))


def receive_texts(connection: socket.socket) -> list[bytes]:
    """The next message; ConnectionError if it is none of this protocol."""
    (count,) = struct.unpack("!I", receive(connection, 4))
    if count > _MOST:
        raise ConnectionError("not a message between processes")
    sizes = struct.unpack(f"!{count}I", receive(connection, 4 * count))
    if sum(sizes) > _LONGEST:
        raise ConnectionError("a message between processes is too long")
    return [receive(connection, size) for size in sizes]


def greet(connection: socket.socket, token: str | None = None) -> None:
    """What the end that connects says first; ConnectionError for another token."""
    key, mine = _key(token), os.urandom(_NONCE)
    with _Patience(connection):
        _send_at_once(connection)
        connection.sendall(_MAGIC + mine)
        theirs = receive(connection, _NONCE)
        _check(receive(connection, 32), b"accepts", key, mine, theirs)
        connection.sendall(_proof(b"connects", key, mine, theirs))


def admit(connection: socket.socket, token: str | None = None) -> None:
    """What the end that accepts answers; ConnectionError for another token."""
    key, mine = _key(token), os.urandom(_NONCE)
    with _Patience(connection):
        _send_at_once(connection)
        if receive(connection, len(_MAGIC)) != _MAGIC:
            raise ConnectionError("the other end speaks another protocol")
        theirs = receive(connection, _NONCE)
        connection.sendall(mine + _proof(b"accepts", key, theirs, mine))
        _check(receive(connection, 32), b"connects", key, theirs, mine)


def _send_at_once(connection: socket.socket) -> None:
    if connection.family != getattr(socket, "AF_UNIX", None):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _Patience:
    """Limits how long the other end may take to answer."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._before = connection.gettimeout()

    def __enter__(self) -> None:
        self._connection.settimeout(_GREETING)

    def __exit__(self, *_: object) -> None:
        self._connection.settimeout(self._before)


def _key(token: str | None) -> bytes:
    return (os.environ.get(TOKEN, "") if token is None else token).encode()


def _proof(role: bytes, key: bytes, *nonces: bytes) -> bytes:
    return hmac.digest(key, b" ".join((role, *nonces)), hashlib.sha256)


def _check(proof: bytes, role: bytes, key: bytes, *nonces: bytes) -> None:
    if not hmac.compare_digest(proof, _proof(role, key, *nonces)):
        raise WrongToken(f"the other end has another token ({TOKEN})")


def parts_of(address: str) -> tuple[str, int]:
    """Host and port of "host:port"; ValueError if it is none.

    >>> parts_of("localhost:1234"), parts_of("[::1]:80")
    (('localhost', 1234), ('::1', 80))
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        raise ValueError(f"an address is 'host:port', not {address!r}")
    return host.strip("[]"), int(port)


def connect(address: tuple[str, int], seconds: float | None) -> socket.socket:
    """A connection whose other end has the token; OSError if there is none."""
    connection = socket.create_connection(address, seconds)
    try:
        connection.settimeout(None)
        greet(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def listener(host: str, port: int = 0) -> socket.socket:
    """A socket that others can connect to."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=1024)
