"""Recorded traces as data: planes of lines of events, as XLA's profiler has them.

The file format is the protocol buffer XSpace of OpenXLA
(https://github.com/openxla/xla/blob/main/third_party/tsl/tsl/profiler/protobuf/xplane.proto).
A plane has tables of the names of its events and statistics; events refer to them.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from curta.core.protobuf import (
    Message,
    bytes_field,
    bytes_of,
    number_field,
    number_of,
    parsed,
    text_of,
)

Path = str | os.PathLike[str]
Stats = Iterator[tuple[str | None, Any]]

# The fields of XPlane, XLine, XEvent and XStat.
_NAME, _LINES, _EVENT_NAMES, _STAT_NAMES, _PLANE_STATS = 2, 3, 4, 5, 6
_TIMESTAMP, _EVENTS = 3, 4
_OFFSET, _DURATION, _STATS = 2, 3, 4
_DOUBLE, _UINT, _INT, _TEXT, _BYTES, _REFERENCE = 2, 3, 4, 5, 6, 7


class _Tables(NamedTuple):
    """The names of a plane's events and statistics by number."""

    events: Mapping[int, str]
    stats: Mapping[int, str]


class ProfileEvent:
    """What ran from `start_ns` for `duration_ns`, in nanoseconds."""

    def __init__(self, message: Message, began: int, tables: _Tables):
        self._message, self._began, self._tables = message, began, tables

    @property
    def name(self) -> str:
        """What ran."""
        return self._tables.events.get(number_of(self._message, 1), "")

    @property
    def start_ns(self) -> float:
        """When it began."""
        return self._began + number_of(self._message, _OFFSET) / 1000

    @property
    def duration_ns(self) -> float:
        """How long it took."""
        return number_of(self._message, _DURATION) / 1000

    @property
    def end_ns(self) -> float:
        """When it ended."""
        return self.start_ns + self.duration_ns

    @property
    def stats(self) -> Stats:
        """Pairs of a name and a value; `(None, None)` for an unknown name."""
        return _stats(self._message, _STATS, self._tables)


class ProfileLine:
    """The events of a thread or stream."""

    def __init__(self, message: Message, tables: _Tables):
        self._message, self._tables = message, tables

    @property
    def name(self) -> str:
        """The name of the thread or stream."""
        return text_of(self._message, _NAME)

    @property
    def events(self) -> Iterator[ProfileEvent]:
        """Its events, in the order of the file."""
        began = number_of(self._message, _TIMESTAMP)
        for data in self._message.get(_EVENTS, ()):
            yield ProfileEvent(parsed(data), began, self._tables)


class ProfilePlane:
    """The lines of a device or of the host."""

    def __init__(self, message: Message):
        self._message = message
        names = _table(message, _EVENT_NAMES), _table(message, _STAT_NAMES)
        self._tables = _Tables(*names)

    @property
    def name(self) -> str:
        """The name of the device, or of the host."""
        return text_of(self._message, _NAME)

    @property
    def lines(self) -> Iterator[ProfileLine]:
        """Its lines, in the order of the file."""
        for data in self._message.get(_LINES, ()):
            yield ProfileLine(parsed(data), self._tables)

    @property
    def stats(self) -> Stats:
        """Pairs of a name and a value; `(None, None)` for an unknown name."""
        return _stats(self._message, _PLANE_STATS, self._tables)


class ProfileData:
    """A trace: what ran when, by devices and threads.

    Args:
      serialized: a serialized XSpace.

    >>> import curta
    >>> session = curta.profiler.ProfileSession().start()
    >>> with curta.profiler.TraceAnnotation("work"):
    ...     pass
    >>> data = session.stop()
    >>> [plane] = data.planes
    >>> [[event.name for event in line.events] for line in plane.lines]
    [['work']]
    """

    def __init__(self, serialized: bytes):
        self._serialized = serialized
        self._message = parsed(serialized)

    @classmethod
    def from_serialized_xspace(cls, serialized_xspace: bytes) -> ProfileData:
        """The trace of a serialized XSpace."""
        return cls(serialized_xspace)

    @classmethod
    def from_file(cls, proto_file_path: Path) -> ProfileData:
        """The trace of a file `*.xplane.pb`; OSError if it cannot be read."""
        with open(proto_file_path, "rb") as file:
            return cls(file.read())

    def serialized(self) -> bytes:
        """The serialized XSpace."""
        return self._serialized

    @property
    def planes(self) -> Iterator[ProfilePlane]:
        """The planes: the host's, and those of devices."""
        for data in self._message.get(1, ()):
            yield ProfilePlane(parsed(data))

    def find_plane_with_name(self, name: str) -> ProfilePlane | None:
        """The plane of that name, or None."""
        return next((p for p in self.planes if p.name == name), None)


# ---- reading


def _table(message: Message, field: int) -> dict[int, str]:
    """The names of a map from numbers to messages with a name."""
    entries = map(parsed, message.get(field, ()))
    return {number_of(e, 1): text_of(parsed(bytes_of(e, 2)), _NAME) for e in entries}


def _stats(message: Message, field: int, tables: _Tables) -> Stats:
    for stat in map(parsed, message.get(field, ())):
        name = tables.stats.get(number_of(stat, 1))
        yield (None, None) if name is None else (name, _value(stat, tables))


def _value(stat: Message, tables: _Tables) -> Any:
    read: dict[int, Callable[[Any], Any]] = {
        _DOUBLE: lambda x: struct.unpack("<d", x)[0],
        _UINT: lambda x: x,
        _INT: lambda x: x - 2**64 if x >= 2**63 else x,
        _TEXT: lambda x: x.decode(),
        _BYTES: lambda x: x,
        _REFERENCE: lambda x: tables.stats.get(x),
    }
    for field, convert in read.items():
        if field in stat:
            return convert(stat[field][-1])
    return None


# ---- writing


def xspace_of(events: Sequence[Mapping[str, Any]], threads: Mapping[int, str]) -> bytes:
    """The XSpace of recorded events (core/recorder.py): a line for each thread."""
    names: dict[str, int] = {}
    stats: dict[str, int] = {}

    def number(table: dict[str, int], name: str) -> int:
        return table.setdefault(name, len(table) + 1)

    def event(e: Mapping[str, Any]) -> bytes:
        data = number_field(1, number(names, e["name"]))
        data += number_field(_OFFSET, round(e["ts"] * 1e6))
        data += number_field(_DURATION, round(e["dur"] * 1e6))
        for key, value in {"category": e["cat"], **e["args"]}.items():
            stat = number_field(1, number(stats, key))
            data += bytes_field(_STATS, stat + bytes_field(_TEXT, value.encode()))
        return data

    plane = number_field(1, 1) + bytes_field(_NAME, b"/host:CPU")
    for thread, name in threads.items():
        line = number_field(1, thread) + bytes_field(_NAME, name.encode())
        own = [e for e in events if e["tid"] == thread]
        line += b"".join(bytes_field(_EVENTS, event(e)) for e in own)
        plane += bytes_field(_LINES, line)
    for field, table in ((_EVENT_NAMES, names), (_STAT_NAMES, stats)):
        for name, i in table.items():
            entry = number_field(1, i) + bytes_field(_NAME, name.encode())
            plane += bytes_field(field, number_field(1, i) + bytes_field(2, entry))
    return bytes_field(1, plane)
