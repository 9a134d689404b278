"""Native functions as callables: right results, and refusal of every wrong call."""

from __future__ import annotations

import dataclasses
import gc
import struct
import threading
import weakref

import numpy as np
import pytest

from curta.compiler import code_generator
from curta.compiler.host_target import host
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.types import F32, F64, I64, PTR
from curta.compiler.machine_code import calls, link
from curta.compiler.machine_code.native import NativeProgram
from curta.compiler.support import entry as module, entry_code
from curta.compiler.support.entry import native_entry, table_entry
from curta.config import config

SHAPE = (3, 5)


@pytest.fixture(scope="module")
def code():
    """`scale`: result = x * factor, for 15 floats and a constant that is a number."""
    m = Module.of(host())
    b = m.function("scale", [PTR])
    (table,) = b.arguments
    out, x = (b.load(PTR, b.offset(table, i, PTR)) for i in range(2))
    factor = b.convert(b.load(F64, b.offset(table, 2, I64)), "f32")
    with b.loop(0, 15) as loop:
        value = b.load(F32, b.offset(x, loop.index, F32)) * factor
        b.store(value, b.offset(out, loop.index, F32))
    b.ret()
    return link.load(code_generator.compile_text(m.text(), verify=True), ["scale"])


def program(code, name, signature, *constants, cost=0):
    """A program that needs no arena; the first of its arrays is a result."""
    return NativeProgram(
        code=code, address=code.address(name), signature=tuple(signature),
        results=min(1, len(signature)), constants=constants, cost=cost, arena_word=0,
        arena_bytes=0, temporaries=0,
    )  # fmt: skip


def make_builtin(code, release_gil=False):
    (factor,) = struct.unpack("<Q", struct.pack("<d", 3.0))
    signature = [(np.float32, SHAPE)] * 2
    cost = config.tuning.released_cost + 1 if release_gil else 0
    scale = program(code, "scale", signature, factor, cost=cost)
    assert scale.long == release_gil
    return native_entry(scale)


@pytest.fixture(params=["builtin", "builtin without the GIL", "ctypes"])
def entry(request, code, monkeypatch):
    if request.param == "ctypes":
        monkeypatch.setattr(module, "_builtin_makers", lambda: None)
    else:
        assert module._builtin_makers() is not None
    return make_builtin(code, release_gil="without" in request.param)


def arrays():
    x = np.arange(15, dtype=np.float32).reshape(SHAPE)
    return np.zeros_like(x), x


def test_a_call_runs_the_function(entry):
    out, x = arrays()
    assert entry(out, x) is True
    np.testing.assert_array_equal(out, 3 * x)


class Sub(np.ndarray):
    pass


def read_only(a):
    a.flags.writeable = False
    return a


@pytest.mark.parametrize(
    "spoil",
    [
        lambda out, x: (),
        lambda out, x: (out,),
        lambda out, x: (out, x, x),
        lambda out, x: (out, None),
        lambda out, x: (out, 3),
        lambda out, x: (out, x.tolist()),
        lambda out, x: (out, x.astype(np.float64)),
        lambda out, x: (out, x.astype(np.int32)),
        lambda out, x: (out, x.astype(">f4")),
        lambda out, x: (out, x.reshape(5, 3)),
        lambda out, x: (out, x.reshape(15)),
        lambda out, x: (out, x.reshape(1, 3, 5)),
        lambda out, x: (out, x[:2]),
        lambda out, x: (out, np.asfortranarray(x)),
        lambda out, x: (out, np.repeat(x, 2, axis=1)[:, ::2]),
        lambda out, x: (out, np.frombuffer(b" " * 61, "f4", 15, 1).reshape(SHAPE)),
        lambda out, x: (out, x.view(Sub)),
        lambda out, x: (out, np.float32(1)),
        lambda out, x: (read_only(out), x),
    ],
)
def test_a_wrong_call_does_nothing(entry, spoil):
    out, x = arrays()
    assert entry(*spoil(out, x)) is False
    assert not out.any()


@pytest.mark.parametrize("native", [True, False])
def test_tables_of_calls_by_others(code, native, monkeypatch):
    if not native:
        monkeypatch.setattr(module, "_builtin_makers", lambda: None)
    scale = dataclasses.replace(
        program(code, "scale", [(np.float32, SHAPE)] * 2, 7, 0, 0),
        arena_word=1, arena_bytes=64, cancellable=True,
    )  # fmt: skip
    table, (out, x) = table_entry(scale), arrays()
    words = table(out, read_only(x))
    calls.complete(scale, words, 11, 12)
    wanted = [out.ctypes.data, x.ctypes.data, 7, 11, 12]
    assert struct.unpack("=5Q", words) == (*wanted,)
    for wrong in [(out,), (out, None), (x, out), (out, x[:2]), (out, x.astype(int))]:
        assert table(*wrong) == b""


def test_read_only_operands_are_fine(entry):
    out, x = arrays()
    assert entry(out, read_only(x)) is True
    assert out[1, 1] == 18


def test_the_entry_keeps_its_code():
    m = Module.of(host())
    m.function("nothing", [PTR]).ret()
    code = link.load(code_generator.compile_text(m.text()), ["nothing"])
    alive = weakref.ref(code)
    entry = native_entry(program(code, "nothing", []))
    del code
    gc.collect()
    assert alive() is not None and entry() is True
    del entry
    gc.collect()
    assert alive() is None


def test_many_threads_at_once(code):
    entry = make_builtin(code, release_gil=True)
    wrong = []

    def work():
        out, x = arrays()
        for i in range(2000):
            x[0, 0] = i
            if not entry(out, x) or out[0, 0] != 3 * i:
                wrong.append(i)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert wrong == []


def test_many_arrays(code):
    m = Module.of(host())
    b = m.function("count", [PTR])
    out = b.load(PTR, b.arguments[0])
    last = b.load(PTR, b.offset(b.arguments[0], 199, PTR))
    b.store(b.load(F64, last), out)
    b.ret()
    many = link.load(code_generator.compile_text(m.text(), verify=True), ["count"])
    entry = native_entry(program(many, "count", [(np.float64, ())] * 200))
    values = [np.array(float(i)) for i in range(200)]
    assert entry(*values) and values[0] == 199.0


def test_an_unknown_layout_is_noticed(monkeypatch):
    array = np.zeros((2, 3))
    assert module._layout_is_known(array)
    monkeypatch.setattr(entry_code, "DATA", entry_code.DATA + 8)
    assert not module._layout_is_known(array)
