"""Processes that exchange arrays over TCP: nothing but Python is needed.

Each pair of processes has a connection. A collective sends on all it needs and receives
on all it needs at once, so that no order of processes can block. Before an array goes
what the collective is: processes that call different ones find out. Collectives that a
program begins, and computes meanwhile, go on in a thread.
"""

from __future__ import annotations

import selectors
import socket
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

from curta.config import config
from curta.hosts import wire
from curta.hosts.by_exchange import ByExchange, words
from curta.hosts.collectives import Call
from curta.hosts.failures import HostsError
from curta.hosts.presence import Presence
from curta.hosts.started import InThread
from curta.hosts.store import Store

NDArray = np.ndarray[Any, Any]
_HEAD = struct.Struct("!IQ")  # lengths of the collective's name and of the array
_AT_ONCE = 1 << 22  # bytes handed to the system in one call
_LOOK = 0.5  # seconds after which a process that waits looks whether others failed


class TCP(ByExchange):
    """The engine of a process that has a connection to every other one."""

    def __init__(self, index: int, peers: dict[int, socket.socket], presence: Presence):
        super().__init__(index, len(peers) + 1)
        self._peers = peers
        self._presence = presence
        self._waits: Call | None = None
        self._failure: HostsError | None = None
        self._in_thread = self.started = InThread(self, self._give_up)
        presence.waiting = lambda: str(self._waits) if self._waits else None
        for peer in peers.values():
            peer.setblocking(False)

    def close(self) -> None:
        """Close the connections."""
        self._in_thread.close()
        for peer in self._peers.values():
            peer.close()

    def abort(self, status: int) -> None:
        """The others are told, and find the connections closed."""

    def _swap(
        self, call: Call, sends: Mapping[int, NDArray], receives: Mapping[int, NDArray]
    ) -> None:
        def swap() -> None:
            self._in_thread.drain()
            self._swap_now(call, sends, receives)

        if self._in_thread.is_here():  # within a program
            self._swap_now(call, sends, receives)
        else:
            self.in_thread_order(call.members, swap)

    def _give_up(self) -> None:
        if self._failure is None:
            self._failure = HostsError("an earlier program ended in a collective")

    def _swap_now(
        self, call: Call, sends: Mapping[int, NDArray], receives: Mapping[int, NDArray]
    ) -> None:
        self._raise_failure()
        self._waits = call
        try:
            self._swap_all(call, sends, receives)
        except BaseException as error:  # what was not received is still to come
            if self._failure is None:
                self._failure = HostsError(f"an earlier collective failed: {error}")
            raise
        finally:
            self._waits = None

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise HostsError(f"{self._failure}") from self._failure

    def _swap_all(
        self, call: Call, sends: Mapping[int, NDArray], receives: Mapping[int, NDArray]
    ) -> None:
        name = str(call).encode()
        streams = [
            _Stream(call.members[i], self._peers[call.members[i]])
            for i in sorted({*sends, *receives})
        ]
        with selectors.DefaultSelector() as selector:
            for stream, i in zip(streams, sorted({*sends, *receives}), strict=True):
                if i in sends:
                    body = words(sends[i])
                    stream.send(_HEAD.pack(len(name), len(body)) + name, body)
                if i in receives:
                    stream.receive(name, words(receives[i]))
                if events := stream.events():
                    selector.register(stream.socket, events, stream)
            self._finish(call, selector)

    def _finish(self, call: Call, selector: selectors.BaseSelector) -> None:
        """Go on with all streams until they are done."""
        limit = config.curta_hosts_timeout
        end = time.monotonic() + limit
        while selector.get_map():
            for key, events in selector.select(_LOOK):
                stream: _Stream = key.data
                before = stream.events()
                try:
                    stream.go_on(events)
                except OSError:
                    self._lost(call, stream.host)
                except _OtherCall as other:
                    self._differs(call, stream.host, str(other))
                end = time.monotonic() + limit
                if not stream.events():
                    selector.unregister(stream.socket)
                elif stream.events() != before:
                    selector.modify(stream.socket, stream.events(), stream)
            self._raise_failure()
            if (failure := self._presence.failure) is not None:
                raise HostsError(f"{failure}, while host {self.index} was in {call}")
            if time.monotonic() > end and selector.get_map():
                keys = selector.get_map().values()
                self._too_late(call, limit, sorted(k.data.host for k in keys))

    def _lost(self, call: Call, host: int) -> NoReturn:
        left = f"process {host} has ended" if host in self._presence.left else None
        reason = left or self._presence.reason(1.0) or f"process {host} is gone"
        raise HostsError(f"{reason}, while host {self.index} was in {call}") from None

    def _differs(self, call: Call, host: int, other: str) -> NoReturn:
        raise HostsError(
            f"hosts call different collectives: host {self.index} {call}, host {host}"
            f" {other}"
        ) from None

    def _too_late(self, call: Call, limit: float, hosts: list[int]) -> NoReturn:
        raise HostsError(
            f"time-out after {limit:g} s: host {self.index} waits in {call} for"
            f" {', '.join(map(str, hosts))}: {self._presence.states(hosts)}"
        )


class _OtherCall(Exception):
    """The other end is in another collective."""


class _Stream:
    """What is to be sent to a process, and received from it, in one collective."""

    def __init__(self, host: int, connection: socket.socket) -> None:
        self.host = host
        self.socket = connection
        self._out: list[memoryview] = []
        self._in: list[memoryview] = []
        self._head = bytearray()
        self._name = b""
        self._body = memoryview(b"")
        self._same = False
        self._then: Callable[[], list[memoryview]] = list

    def send(self, head: bytes, body: memoryview) -> None:
        """Send an array, as far as that goes at once."""
        self._out = [memoryview(head), body]
        self._write()

    def receive(self, name: bytes, body: memoryview) -> None:
        """Receive an array of the collective `name`."""
        self._name, self._body = name, body
        self._head = bytearray(_HEAD.size)
        self._in = [memoryview(self._head)]
        self._then = self._after_head

    def events(self) -> int:
        """The events it waits for."""
        reading = selectors.EVENT_READ if self._in else 0
        return reading | (selectors.EVENT_WRITE if self._out else 0)

    def go_on(self, events: int) -> None:
        """Send and receive what can be; OSError if the process is gone."""
        if events & selectors.EVENT_WRITE:
            self._write()
        if events & selectors.EVENT_READ:
            self._read()

    def _write(self) -> None:
        try:
            while self._out:
                sent = self.socket.sendmsg([part[:_AT_ONCE] for part in self._out])
                while self._out and sent >= len(self._out[0]):
                    sent -= len(self._out.pop(0))
                if self._out:
                    self._out[0] = self._out[0][sent:]
        except BlockingIOError:
            return

    def _read(self) -> None:
        try:
            while self._in:
                count = self.socket.recv_into(self._in[0][:_AT_ONCE])
                if count == 0:
                    raise ConnectionError("the other end closed the connection")
                self._in[0] = self._in[0][count:]
                if not self._in[0]:
                    self._in = self._then()
        except BlockingIOError:
            return

    def _after_head(self) -> list[memoryview]:
        length, size = _HEAD.unpack(self._head)
        self._head = bytearray(length)
        self._same = (length, size) == (len(self._name), len(self._body))
        self._then = self._after_name
        return [memoryview(self._head)]

    def _after_name(self) -> list[memoryview]:
        if not self._same or self._head != self._name:
            raise _OtherCall(self._head.decode(errors="replace"))
        self._then = list
        return [self._body] if self._body else []


def connected(
    store: Store, index: int, count: int, seconds: float
) -> dict[int, socket.socket]:
    """Connections to all other processes, which do the same."""
    # Where this process is reached is where it reaches process 0 from.
    with store.connect() as probe:
        own = probe.getsockname()[0]
    peers: dict[int, socket.socket] = {}
    with wire.listener(own) as listening:
        port = listening.getsockname()[1]
        store.put(f"curta/address/{index}", f"{own} {port}".encode())
        for other in range(index):
            host, number = store.get(f"curta/address/{other}", seconds).split()
            peer = wire.connect((host.decode(), int(number)), seconds)
            wire.send_texts(peer, b"%d" % index)
            peers[other] = peer
        listening.settimeout(seconds)
        while len(peers) < count - 1:
            other, peer = _accepted(listening)
            peers[other] = peer
    return peers


def _accepted(listening: socket.socket) -> tuple[int, socket.socket]:
    """The next process that connects; strangers are turned away."""
    while True:
        peer, _ = listening.accept()
        try:
            peer.settimeout(None)
            wire.admit(peer)
            (text,) = wire.receive_texts(peer)
            return int(text), peer
        except (OSError, ValueError):
            peer.close()
