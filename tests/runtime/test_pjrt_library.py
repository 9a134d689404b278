"""Calls of plugins: versions, sizes of structs, errors."""

import ctypes
import ctypes.util
import sys

import pytest
from tests.runtime.fake_pjrt import Fake, FakeError

from curta.errors import JaxRuntimeError
from curta.runtime.pjrt import abi, callbacks
from curta.runtime.pjrt.library import Library, open_library
from curta.runtime.pjrt.program import PluginModule
from curta.runtime.pjrt.values import NamedValues, decode


def test_table_and_structs_have_the_sizes_of_the_interface():
    # As a C compiler says them for the header of version 0.90.
    assert abi.FUNCTIONS.index("LoadedExecutable_Execute") == 55
    assert abi.FUNCTIONS.index("Compile") == 89
    assert abi.FUNCTIONS.index("Event_Set") == 127
    assert len(abi.FUNCTIONS) == len(set(abi.FUNCTIONS)) == 136
    sizes = {
        "Client_Create_Args": 88,
        "Client_BufferFromHostBuffer_Args": 120,
        "LoadedExecutable_Execute_Args": 80,
        "Device_MemoryStats_Args": 185,
        "ExecuteOptions": 112,
        "NamedValue": 56,
        "Buffer_MemoryLayout": 76,
        "Event_IsReady_Args": 25,
    }
    found = {name: abi.structs()[name].c_size for name in sizes}
    assert found == sizes


def test_functions_with_arguments_are_in_the_table():
    plain = {name.removesuffix("_Args") for name in abi.structs()}
    named = {row.split()[0] for row in abi.ARGUMENTS.splitlines() if row[:1].isalpha()}
    assert named <= set(abi.FUNCTIONS) and named <= plain


@pytest.mark.parametrize("version", [(0, 56), (0, 1), (1, 0)])
def test_other_versions_are_refused(version):
    with pytest.raises(JaxRuntimeError, match=r"UNIMPLEMENTED: plugin 'fake' speaks"):
        Fake(version=version).library()


def test_an_older_plugin_is_used_for_what_it_has():
    def set_event(args):
        pass

    known = abi.FUNCTIONS.index("Event_Set")
    library = Fake({"Event_Set": set_event}, (0, 60), known=known).library()
    assert not library.has("Event_Set")
    with pytest.raises(JaxRuntimeError, match="0.60. has no function PJRT_Event_Set"):
        library.call("Event_Set")
    assert Fake({"Event_Set": set_event}).library().call("Event_Set")


def test_a_newer_plugin_gets_the_structs_that_it_wants():
    seen = []

    def create(args):
        seen.append(args.struct_size)
        assert not any(bytes(args)[args.c_size :])
        args.client = 7

    fake = Fake({"Client_Create": create}, (0, 300), {"PJRT_Client_Create_Args": 120})
    library = fake.library()
    assert library.call("Client_Create").client == 7
    assert library.call("Client_Create").client == 7
    assert seen == [120, 120]
    # Asked once: the size is known afterwards.
    assert list(fake.calls).count("Client_Create") == 3
    assert not fake.errors


def test_a_nested_struct_grows_too():
    kind = abi.structs()["Program"]

    def compile_(args):
        fake.check_size(kind.from_address(args.program))

    fake = Fake({"Client_Compile": compile_}, sizes={"PJRT_Program": 64})
    library = fake.library()
    program = library.struct("Program")
    library.call("Client_Compile", program, program=ctypes.addressof(program))
    assert program.struct_size == library.struct("Program").struct_size == 64


def test_a_struct_that_is_far_too_long_is_refused():
    fake = Fake({"Client_Create": lambda args: None}, sizes={})
    fake.sizes = {"PJRT_Client_Create_Args": 10_000}
    with pytest.raises(JaxRuntimeError, match="INVALID_ARGUMENT: Unexpected PJRT_Clie"):
        fake.library().call("Client_Create")
    assert not fake.errors


def test_errors_carry_status_and_message_and_are_freed():
    def create(args):
        raise FakeError("RESOURCE_EXHAUSTED", "Out of memory: größer")

    fake = Fake({"Client_Create": create})
    with pytest.raises(JaxRuntimeError) as caught:
        fake.library().call("Client_Create")
    assert str(caught.value) == "RESOURCE_EXHAUSTED: Out of memory: größer"
    assert not fake.errors


def test_files_that_are_no_plugins(tmp_path):
    with pytest.raises(JaxRuntimeError, match="NOT_FOUND: the library of plugin 'x'"):
        open_library(tmp_path / "missing.so", "x")
    with pytest.raises(JaxRuntimeError, match="has no function GetPjrtApi"):
        open_library(ctypes.util.find_library("m") or "libm.so.6", "x")


def test_named_values_come_back():
    values = {
        "text": "wört",
        "empty": "",
        "yes": True,
        "no": False,
        "number": -(2**40),
        "list": [1, 2, -3],
        "none": [],
        "float": 0.75,
    }
    named = NamedValues(values)
    assert decode(named.address, named.count) == values
    with pytest.raises(TypeError, match=r"option x=\{\} of a plugin"):
        NamedValues({"x": {}})


def test_texts_end_in_a_zero():
    # Older plugins read the text of a program up to it.
    fake = Fake()
    module = PluginModule(fake.library(), "module {}", b"options")
    assert ctypes.string_at(module.struct.code) == b"module {}"
    assert module.struct.code_size == 9
    assert module.arguments["compile_options_size"] == 7


def test_extensions_are_found():
    base = abi.structs()["Extension_Base"]
    second = base(24, 3, None)
    first = base(24, 9, ctypes.addressof(second))
    fake = Fake()
    fake.table[1] = ctypes.addressof(first)
    library = fake.library()
    assert library.extension(3) == ctypes.addressof(second)
    assert library.extension(4) is None


def test_no_exception_leaves_a_callback(monkeypatch):
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)

    def body(x):
        assert callbacks.running
        if x < 0:
            raise ValueError(x)
        return 2 * x

    def failed(error, x):
        if x < -1:
            raise KeyError(x)
        return -7

    double = callbacks.guarded(kind, body, failed)
    assert double(4) == 8 and double(-1) == -7 and not reported
    double(-2)
    assert reported[0].exc_type is KeyError
    assert not callbacks.running


def test_a_library_is_shown_by_name_and_version():
    assert isinstance(Fake().library(), Library)
    assert repr(Fake().library()) == "Library('fake', PJRT 0.105)"
