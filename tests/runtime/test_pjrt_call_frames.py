"""The handler of XLA's typed interface that calls Python, called as XLA calls it."""

import ctypes

import numpy as np
import pytest
from tests.runtime.fake_pjrt import Fake, FakeError

from curta.compiler.stablehlo.callbacks import PYTHON_TARGET, Callback
from curta.core.avals import ShapedArray
from curta.runtime.pjrt import call_frames
from curta.runtime.pjrt.abi import FFI_EXTENSION, STATUS, structs
from curta.runtime.pjrt.call_frames import PythonCalls, can_call_python, frame_structs
from curta.runtime.pjrt.library import FUNCTION

X = np.arange(6, dtype=np.float32).reshape(2, 3)
HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


def address(x):
    return ctypes.addressof(x)


class Frames:
    """XLA's part: it makes frames, and errors."""

    def __init__(self):
        self.errors, self.keep = [], []
        self.make_error = HANDLER(self.error)
        self.api = frame_structs()["Api"](
            XLA_FFI_Error_Create=ctypes.cast(self.make_error, ctypes.c_void_p).value
        )

    def error(self, args):
        said = frame_structs()["Error_Create_Args"].from_address(args)
        text = ctypes.string_at(said.message).decode()
        self.errors.append((STATUS[said.errc], text))
        return 1

    def pointers(self, structs_):
        made = (ctypes.c_void_p * len(structs_))(*map(address, structs_))
        self.keep += [structs_, made]
        return address(made)

    def buffers(self, arrays):
        kind = frame_structs()["Buffer"]
        return self.pointers([kind(data=x.ctypes.data, rank=x.ndim) for x in arrays])

    def call(self, number, operands, results, stage=3, attribute=b"index"):
        value = ctypes.c_uint64(number)
        scalar = frame_structs()["Scalar"](value=address(value))
        letters = ctypes.create_string_buffer(attribute)
        name = frame_structs()["ByteSpan"](ptr=address(letters), len=len(attribute))
        frame = frame_structs()["CallFrame"](
            api=address(self.api),
            stage=stage,
            args_size=len(operands),
            args_args=self.buffers(operands),
            rets_size=len(results),
            rets_rets=self.buffers(results),
            attrs_size=1,
            attrs_names=self.pointers([name]),
            attrs_attrs=self.pointers([scalar]),
        )
        handler = HANDLER(ctypes.cast(call_frames._handler, ctypes.c_void_p).value)
        return handler(address(frame))


@pytest.fixture
def frames():
    return Frames()


def called(run, number, ins=(X,), outs=(X,)):
    avals = ([ShapedArray(x.shape, x.dtype) for x in arrays] for arrays in (ins, outs))
    return PythonCalls([Callback(run, *avals, number=number)])


def test_results_are_written(frames):
    keep = called(lambda x: [np.sin(x), x.sum()], 1000, outs=(X, X[0, 0]))
    out, total = np.zeros_like(X), np.zeros((), np.float32)
    assert frames.call(1000, [X], [out, total]) is None
    np.testing.assert_allclose(out, np.sin(X), rtol=1e-6)
    assert total == 15
    del keep


def test_only_the_last_stage_calls(frames):
    keep = called(lambda x: pytest.fail("called"), 1001)
    for stage in range(3):
        assert frames.call(1001, [X], [X.copy()], stage) is None
    del keep


def test_exceptions_are_errors(frames):
    def bad(x):
        raise ValueError("no number")

    keep = called(bad, 1002)
    assert frames.call(1002, [X], [X.copy()]) == 1
    assert frames.errors == [("INTERNAL", "no number")]
    del keep


def test_what_nobody_has_any_more_is_not_called(frames):
    keep = called(lambda x: [x], 1003)
    del keep
    assert frames.call(1003, [X], [X.copy()]) == 1
    assert frames.call(1003, [X], [X.copy()], attribute=b"other") == 1
    assert [word for word, _ in frames.errors] == ["INTERNAL"] * 2


class Plugin(Fake):
    """A plugin that takes handlers of one minor version."""

    def __init__(self, minor):
        super().__init__()
        self.minor, self.names = minor, []
        structs()["Register_Args"] = structs()["FFI_Register_Handler_Args"]
        self.register = FUNCTION(self.wrapped("Register", self.taken))
        functions = [0, 0, ctypes.cast(self.register, ctypes.c_void_p).value]
        head = structs()["Extension_Base"](type=FFI_EXTENSION)
        words = ctypes.sizeof(head) // 8
        self.extension = (ctypes.c_size_t * (words + 3))()
        ctypes.memmove(self.extension, address(head), ctypes.sizeof(head))
        self.extension[words:] = functions
        self.table[1] = address(self.extension)

    def taken(self, args):
        metadata = frame_structs()["Metadata"](struct_size=200)
        extension = frame_structs()["Metadata_Extension"](
            extension_base_type=1, metadata=address(metadata)
        )
        frame = frame_structs()["CallFrame"](extension_start=address(extension))
        assert HANDLER(args.handler)(address(frame)) is None
        if metadata.api_version_minor_version != self.minor:
            raise FakeError("INVALID_ARGUMENT", "another version")
        self.names.append(ctypes.string_at(args.target_name, args.target_name_size))


@pytest.mark.parametrize(("minor", "can"), [(0, True), (2, True), (9, False)])
def test_the_plugins_version_is_spoken(minor, can):
    plugin = Plugin(minor)
    library = plugin.library()
    for _ in range(2):
        assert can_call_python(library) is can
    assert plugin.names == [PYTHON_TARGET.encode()] * can


def test_a_plugin_without_the_extension_cannot():
    assert not can_call_python(Fake().library())
