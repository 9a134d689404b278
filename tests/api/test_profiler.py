"""Traces of what ran, profiles of memory, and listeners to events."""

import gzip
import json

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import monitoring, profiler


def events(folder):
    """The events of the one trace in a folder, as (name, kind), but what compiles."""
    found = [(e["name"], e["cat"]) for e in spans(folder)]
    return [(name, kind) for name, kind in found if kind not in ("phase", "pass")]


def spans(folder):
    """The events with a duration of the one trace in a folder."""
    (path,) = folder.glob("plugins/profile/*/*.trace.json.gz")
    with gzip.open(path, "rt") as file:
        found = json.load(file)["traceEvents"]
    found = [e for e in found if e["ph"] == "X"]
    assert all(e["dur"] >= 0 and e["ts"] >= 0 for e in found)
    return found


@curta.jit
def ready(x):
    return x + 1


def test_traces(tmp_path):
    ready(1.0), ready(1.0)

    @profiler.annotate_function
    def prepare():
        return ready(2.0)

    with profiler.trace(tmp_path):
        prepare()
        curta.jit(lambda x: jnp.sin(x), inline=False)(ready(3.0))
        with profiler.StepTraceAnnotation("train", step_num=1):
            pass

        @profiler.TraceAnnotation("named")
        def g():
            pass

        g()
    name = prepare.__qualname__
    assert events(tmp_path) == [
        ("jit(ready)", "program"),
        (name, "annotation"),
        ("jit(ready)", "program"),
        ("tracing <lambda> for jit", "tracing"),
        ("compilation of jit(<lambda>)", "compilation"),
        ("jit(<lambda>)", "program"),
        ("train", "annotation"),
        ("named", "annotation"),
    ]
    assert ready(1.0) == 2.0


def inside(event, events):
    """The names of the events within another, in order."""
    end = event["ts"] + event["dur"]
    return [
        e["name"]
        for e in sorted(events, key=lambda e: e["ts"])
        if e is not event and event["ts"] <= e["ts"] and e["ts"] + e["dur"] <= end
    ]


def test_phases_and_passes_of_the_compiler(tmp_path):
    new = np.random.default_rng().uniform()  # a program that no cache has
    with profiler.trace(tmp_path):
        curta.jit(lambda x: jnp.sin(x) * new)(jnp.ones(5))
    found = spans(tmp_path)
    (compilation,) = [e for e in found if e["name"] == "compilation of jit(<lambda>)"]
    names = inside(compilation, found)
    assert [n for n in names if n in ("prepare", "lower and fuse", "kernels")] == [
        "prepare",
        "lower and fuse",
        "kernels",
    ]
    assert "simplify" in names and "LLVM, or the kernel cache" in names


def test_what_programs_do_in_python(tmp_path):
    @curta.jit
    def f(x):
        curta.debug.callback(lambda v: None, x)
        return x + 1

    f(1.0)
    with profiler.trace(tmp_path):
        f(2.0)
    found = spans(tmp_path)
    (call,) = [e for e in found if e["name"] == "jit(f)"]
    assert inside(call, found) == ["debug_callback"]


WITH_KERNELS = profiler.ProfileOptions(device_tracer_level=2)


def test_kernels_of_programs(tmp_path):
    seen = []

    @curta.jit
    def f(x, i):
        y = jnp.tanh(x @ x)
        curta.debug.callback(lambda v: seen.append(float(v)), y[0, 0])
        return {"sorted": jnp.sort(y, 1), "row": y[i], "key": curta.random.key(3)}

    x = jnp.linspace(-0.1, 0.1, 256).reshape(16, 16)
    wanted = f(x, 3)
    with profiler.trace(tmp_path, profiler_options=WITH_KERNELS):
        again = [f(x, 3), f(2 * x, np.int32(3))][0]
    for name in wanted:
        assert str(wanted[name]) == str(again[name])
        assert wanted[name].aval is again[name].aval
    assert len(seen) == 3
    found = spans(tmp_path)
    calls = [e for e in found if e["name"] == "jit(f)"]
    assert len(calls) == 2
    for call in calls:
        names = inside(call, found)
        assert any(n.startswith("product of matrices: dot") for n in names)
        assert any(n.startswith("Python: debug_callback") for n in names)
        assert any("sort" in n for n in names)
    kernels = [e for e in found if e["cat"] == "kernel"]
    assert any("jnp.tanh(x @ x)" in e["args"]["lines"] for e in kernels)
    assert {e["args"]["bytes written"] for e in kernels} >= {str(16 * 16 * 4)}


def test_kernels_of_steps_that_donate(tmp_path):
    def step(state, x):
        w = state["w"].at[3].add(1.0)
        return {"w": w - 0.1 * jnp.sort(x @ w, 0), "n": state["n"] + 1}

    x = jnp.linspace(0.0, 1.0, 32 * 32).reshape(32, 32)
    state = {"w": jnp.ones((32, 32)), "n": 0}
    wanted = state
    for _ in range(3):
        wanted = step(wanted, x)
    compiled = curta.jit(step, donate_argnums=0)
    with profiler.trace(tmp_path, profiler_options=WITH_KERNELS):
        for _ in range(3):
            before = state["w"]
            state = compiled(state, x)
            assert before.is_deleted()
    np.testing.assert_allclose(state["w"], wanted["w"], rtol=1e-5)
    assert state["n"] == 3
    kernels = [e for e in spans(tmp_path) if e["cat"] == "kernel"]
    assert sum("dot_general" in e["name"] for e in kernels) == 3
    assert any("jnp.sort(x @ w, 0)" in e["args"]["lines"] for e in kernels)


def test_one_trace_at_a_time(tmp_path):
    with pytest.raises(RuntimeError, match="No profile started"):
        profiler.stop_trace()
    profiler.start_trace(tmp_path)
    with pytest.raises(
        RuntimeError, match="Profile has already been started. Only one"
    ):
        profiler.start_trace(tmp_path)
    profiler.stop_trace()
    assert events(tmp_path) == []
    with pytest.raises(NotImplementedError, match="no profiler server"):
        profiler.start_server(9999)
    with pytest.raises(NotImplementedError, match="the trace of process 1 at port 2"):
        profiler.register_subprocess(1, 2)
    with pytest.raises(ValueError, match="No active profiler server"):
        profiler.stop_server()


def fields(data):
    """The fields of a protocol buffer: (number, integer or bytes)."""
    i, found = 0, []

    def varint():
        nonlocal i
        value = shift = 0
        while True:
            byte = data[i]
            i += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while i < len(data):
        key = varint()
        value = varint()
        if key & 7 == 2:
            i += value
            value = data[i - value : i]
        found.append((key >> 3, value))
    return found


def test_memory_profile(tmp_path):
    kept = [jnp.ones((123, 7)), jnp.ones((123, 7))]
    path = tmp_path / "memory.prof"
    profiler.save_device_memory_profile(path)
    profile = fields(gzip.decompress(path.read_bytes()))
    names = [value.decode() for number, value in profile if number == 6]
    assert names[:5] == ["", "allocations", "count", "space", "bytes"]
    functions = {dict(fields(f))[1]: dict(fields(f))[2] for n, f in profile if n == 5}
    samples = [dict(fields(s)) for n, s in profile if n == 2]
    lines = {dict(fields(x))[1]: dict(fields(x))[4] for n, x in profile if n == 4}
    for sample in samples:
        (location,) = sample[1]
        name = names[functions[dict(fields(lines[location]))[1]]]
        if name == "float32[123,7]":
            assert sample[2][0] == len(kept)
            break
    else:
        raise AssertionError(names)


def test_monitoring():
    heard = []

    def listen(*args, **metadata):
        heard.append((*args, metadata))

    monitoring.register_event_listener(listen)
    monitoring.register_scalar_listener(listen)
    monitoring.register_event_time_span_listener(listen)
    monitoring.record_event("/a", n=1)
    monitoring.record_scalar("/b", 2.5)
    monitoring.record_event_time_span("/c", 1.0, 2.0)
    assert heard == [("/a", {"n": 1}), ("/b", 2.5, {}), ("/c", 1.0, 2.0, {})]
    monitoring.unregister_event_listener(listen)
    monitoring.record_event("/a")
    assert len(heard) == 3
    monitoring.clear_event_listeners()
    heard.clear()
    monitoring.register_event_duration_secs_listener(listen)
    curta.jit(lambda x: x - 1)(1.0)
    monitoring.unregister_event_duration_listener(listen)
    assert [name.rpartition("/")[2] for name, *_ in heard] == [
        "jaxpr_trace_duration",
        "jaxpr_to_mlir_module_duration",
        "backend_compile_duration",
    ]
    assert all(duration > 0 for _, duration, _ in heard)
    with pytest.raises(AssertionError, match="is not among the listeners"):
        monitoring.unregister_event_duration_listener(listen)
