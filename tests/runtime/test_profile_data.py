"""Traces in memory and as XSpace files."""

import struct

import pytest

import curta
from curta import profiler
from curta.core.protobuf import bytes_field, number_field


def named(field, number, name):
    entry = number_field(1, number) + bytes_field(2, name)
    return bytes_field(field, number_field(1, number) + bytes_field(2, entry))


def stat(number, kind, data):
    value = data if isinstance(data, bytes) else number_field(kind, data)
    return bytes_field(4, number_field(1, number) + value)


def test_a_file_is_read():
    double = bytes([2 << 3 | 1]) + struct.pack("<d", 1.5)
    stats = stat(1, 0, double) + stat(2, 4, -3) + stat(3, 0, bytes_field(5, b"text"))
    stats += stat(1, 7, 2) + stat(9, 3, 7)
    event = number_field(1, 5) + number_field(2, 2500) + number_field(3, 4000) + stats
    line = bytes_field(2, b"thread") + number_field(3, 100) + bytes_field(4, event)
    plane = bytes_field(2, b"/device:0") + bytes_field(3, line) + named(4, 5, b"work")
    plane += named(5, 1, b"a") + named(5, 2, b"b") + named(5, 3, b"c")
    data = profiler.ProfileData.from_serialized_xspace(bytes_field(1, plane))
    found = data.find_plane_with_name("/device:0")
    (line,) = found.lines
    (event,) = line.events
    assert (line.name, event.name) == ("thread", "work")
    assert (event.start_ns, event.duration_ns, event.end_ns) == (102.5, 4, 106.5)
    assert [*event.stats] == [
        ("a", 1.5),
        ("b", -3),
        ("c", "text"),
        ("a", "b"),
        (None, None),
    ]
    assert data.find_plane_with_name("other") is None and [*found.stats] == []


def test_a_session(tmp_path):
    with profiler.ProfileSession(tmp_path) as session:
        assert session.is_running and session.profile_data is None
        with profiler.TraceAnnotation("outer", step=3):
            curta.jit(lambda x: x + 1)(1.0)
        with pytest.raises(RuntimeError, match="already been started"):
            profiler.ProfileSession().start()
        with pytest.raises(RuntimeError, match="while it is running"):
            session.export_profile_data(tmp_path)
    (file,) = tmp_path.glob("plugins/profile/*/*.xplane.pb")
    data = profiler.ProfileData.from_file(file)
    for trace in data, session.profile_data:
        events = [e for p in trace.planes for line in p.lines for e in line.events]
        outer = next(e for e in events if e.name == "outer")
        assert dict(outer.stats) == {"category": "annotation", "step": "3"}
        assert any(e.name.startswith("jit(") for e in events)
        assert all(e.end_ns >= e.start_ns >= 0 for e in events)


def test_mistakes(tmp_path):
    session = profiler.ProfileSession()
    with pytest.raises(RuntimeError, match="No profile started"):
        session.stop()
    with pytest.raises(RuntimeError, match="No profile data to export"):
        profiler.export_profile_data(session, tmp_path)
    with pytest.raises(TypeError, match="Expected ProfileData or ProfileSession"):
        profiler.export_profile_data(3, tmp_path)
    with pytest.raises(NotImplementedError, match="Perfetto"):
        profiler.export_profile_data(session, tmp_path, create_perfetto_trace=True)
