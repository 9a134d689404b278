"""Processes that exchange arrays over TCP: nothing but Python is needed.

Each pair of processes has a connection. A collective sends on all it needs and receives
on all it needs at once, so that no order of processes can block. Each array comes after
a label: the collective, the program, and the number of the message among its hosts. A
receiver whose own label differs raises an error that shows both. Collectives that a
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
from curta.hosts.collectives import CollectiveCall
from curta.hosts.failures import HostsError
from curta.hosts.patience import Patience
from curta.hosts.presence import Presence
from curta.hosts.started import InThread
from curta.hosts.store import StoreConnection

NDArray = np.ndarray[Any, Any]
_HEAD = struct.Struct("!IQ")  # lengths of the label and of the array
_AT_ONCE = 1 << 22  # bytes handed to the system in one call
_LOOK = 0.5  # seconds after which a process that waits looks whether others failed


class TCP(ByExchange):
    """The engine of a process that has a connection to every other one."""

    def __init__(self, index: int, peers: dict[int, socket.socket], presence: Presence):
        super().__init__(index, len(peers) + 1)
        self._peers = peers
        self._presence = presence
        self._sent: dict[tuple[int, ...], int] = {}  # messages among members
        self._waits: tuple[CollectiveCall, float] | None = None
        self._patience = Patience(index, presence.states)
        self._failure: HostsError | None = None
        self._in_thread = self.started = InThread(self, self._give_up)
        presence.waiting = self._waiting
        presence.watched = self._watched
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
        self,
        call: CollectiveCall,
        sends: Mapping[int, NDArray],
        receives: Mapping[int, NDArray],
    ) -> None:
        def swap() -> None:
            self._in_thread.drain()
            self._swap_now(call, sends, receives)

        if self._in_thread.is_here():  # within a program
            self._swap_now(call, sends, receives)
        else:
            self.in_thread_order(call.members, swap)

    def _waiting(self) -> str | None:
        return None if (waits := self._waits) is None else str(waits[0])

    def _watched(self) -> None:
        if (waits := self._waits) is not None:
            call, since = waits
            self._patience.look(call, since, time.monotonic() - since)

    def _give_up(self) -> None:
        if self._failure is None:
            self._failure = HostsError("an earlier program ended in a collective")

    def _swap_now(
        self,
        call: CollectiveCall,
        sends: Mapping[int, NDArray],
        receives: Mapping[int, NDArray],
    ) -> None:
        self._raise_failure()
        self._waits = call, time.monotonic()
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
        self,
        call: CollectiveCall,
        sends: Mapping[int, NDArray],
        receives: Mapping[int, NDArray],
    ) -> None:
        label = self._label(call)
        streams = [
            _Stream(call.members[i], self._peers[call.members[i]])
            for i in sorted({*sends, *receives})
        ]
        with selectors.DefaultSelector() as selector:
            for stream, i in zip(streams, sorted({*sends, *receives}), strict=True):
                if i in sends:
                    body = words(sends[i])
                    stream.send(_HEAD.pack(len(label), len(body)) + label, body)
                if i in receives:
                    stream.receive(label, words(receives[i]))
                if events := stream.events():
                    selector.register(stream.socket, events, stream)
            self._finish(call, selector)

    def _label(self, call: CollectiveCall) -> bytes:
        """What is equal on all members, then after a line break what only they know."""
        number = self._sent[call.members] = self._sent.get(call.members, 0) + 1
        program = f" of {self._program}" if self._program else ""
        line = f", at {call.line}" if call.line else ""
        return f"{call.key}, message {number}{program}\n{line}".encode()

    def _finish(self, call: CollectiveCall, selector: selectors.BaseSelector) -> None:
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
                    self._differs(stream.host, other)
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

    def _lost(self, call: CollectiveCall, host: int) -> NoReturn:
        left = f"process {host} has ended" if host in self._presence.left else None
        reason = left or self._presence.reason(1.0) or f"process {host} is gone"
        raise HostsError(f"{reason}, while host {self.index} was in {call}") from None

    def _differs(self, host: int, other: _OtherCall) -> NoReturn:
        raise HostsError(
            f"hosts call different collectives: host {self.index} {other.own}, host"
            f" {host} {other.theirs}"
        ) from None

    def _too_late(
        self, call: CollectiveCall, limit: float, hosts: list[int]
    ) -> NoReturn:
        raise HostsError(
            f"time-out after {limit:g} s: host {self.index} waits in {call} for"
            f" {', '.join(map(str, hosts))}: {self._presence.states(hosts)}"
        )


class _OtherCall(Exception):
    """The other end is in another collective."""

    def __init__(self, own: bytes, theirs: bytes) -> None:
        super().__init__()
        self.own, self.theirs = (
            label.decode(errors="replace").replace("\n", "") for label in (own, theirs)
        )


class _Stream:
    """What is to be sent to a process, and received from it, in one collective."""

    def __init__(self, host: int, connection: socket.socket) -> None:
        self.host = host
        self.socket = connection
        self._out: list[memoryview] = []
        self._in: list[memoryview] = []
        self._head = bytearray()
        self._label = b""
        self._body = memoryview(b"")
        self._size = 0
        self._then: Callable[[], list[memoryview]] = list

    def send(self, head: bytes, body: memoryview) -> None:
        """Send an array, as far as that goes at once."""
        self._out = [memoryview(head), body]
        self._write()

    def receive(self, label: bytes, body: memoryview) -> None:
        """Receive an array with this label, but for what is after its line break."""
        self._label, self._body = label, body
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
        length, self._size = _HEAD.unpack(self._head)
        self._head = bytearray(length)
        self._then = self._after_label
        return [memoryview(self._head)]

    def _after_label(self) -> list[memoryview]:
        own, theirs = self._label, bytes(self._head)
        same = own.partition(b"\n")[0] == theirs.partition(b"\n")[0]
        if not same or self._size != len(self._body):
            raise _OtherCall(own, theirs)
        self._then = list
        return [self._body] if self._body else []


def connected(
    store: StoreConnection, index: int, count: int, seconds: float
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
