"""Process 0 knows which processes there are, and tells all when one is gone.

Every process keeps a connection to it (presence.py), over which it says each second
that it is there, that it leaves, or what failed. A connection that ends otherwise is
that of a process that was killed.
"""

from __future__ import annotations

import socket
import threading

from curta.hosts import wire
from curta.hosts.store import Server

# What is said of a process that is no more one of the program.
_ENDS = (b"gone", b"failed", b"left")


class Service(Server):
    """A server of keys and values that processes join."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self._members: dict[int, _Member] = {}
        #: What was said of processes that ended, for those that join later.
        self._ended: list[tuple[bytes, ...]] = []
        self._changed = threading.Condition()
        super().__init__(host, port)

    def join(self, process: int, connection: socket.socket, limit: float) -> None:
        """Listen to a process until it leaves; `limit` is how long it may be silent."""
        member = _Member(connection)
        connection.settimeout(limit)
        with self._changed:
            self._members[process] = member
            ended = [*self._ended]
        for message in ended:
            member.send(*message)
        reason = b""
        try:
            while self._heard(process, member, wire.receive_texts(connection)):
                pass
        except TimeoutError:
            reason = b"has not been heard of for %g s" % limit
        except (OSError, ValueError):
            reason = b"is gone"
        if reason:
            self._tell_others(process, b"gone", reason)
        with self._changed:
            del self._members[process]
            self._changed.notify_all()

    def _heard(self, process: int, member: _Member, texts: list[bytes]) -> bool:
        """Answer a message; whether the process stays."""
        verb, *rest = texts
        if verb == b"here":
            member.send(b"here")
        elif verb == b"failed":
            self._tell_others(process, b"failed", *rest)
            member.send(b"bye")
            return False
        elif verb == b"states?":
            self._tell_others(process, b"state?", *rest)
        elif verb == b"state":
            number, text = rest
            self.table.put(b"curta/state/%s/%d" % (number, process), text)
        elif verb == b"leaving":
            self._tell_others(process, b"left")
            member.send(b"bye")
            return False
        else:
            raise ValueError(verb)
        return True

    def _tell_others(self, process: int, verb: bytes, *texts: bytes) -> None:
        message = verb, b"%d" % process, *texts
        with self._changed:
            if verb in _ENDS:
                self._ended.append(message)
            others = [m for p, m in self._members.items() if p != process]
        for member in others:
            member.send(*message)

    def wait_until_left(self, stay: int) -> None:
        """Wait until nobody is here but the process `stay`."""
        with self._changed:
            self._changed.wait_for(lambda: not {*self._members} - {stay})


class _Member:
    """The connection of a process, on which several threads send."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Condition()

    def send(self, *texts: bytes) -> None:
        """Send a message, if the process is there."""
        try:
            with self._sending:
                wire.send_texts(self._connection, *texts)
        except OSError:
            return  # its own thread notices that it is gone
