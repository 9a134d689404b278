"""Object files become code: relocations, imports, protection, freeing, refusal."""

from __future__ import annotations

import ctypes
import gc
import platform
import sys
import threading
import weakref

import pytest
from tests.compiler.native import Native

from curta.compiler import code_generator, llvm_binding as binding
from curta.compiler.host_target import host
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.types import F64
from curta.compiler.machine_code import elf, link
from curta.compiler.machine_code.relocations import PROCESSORS, UnsupportedObject
from curta.compiler.targets import describe

needs_elf = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in PROCESSORS,
    reason="Linux on x86-64 or AArch64",
)

# A table, a call inside, an imported function called and its address taken.
IR = """
@table = internal constant [3 x i64] [i64 10, i64 20, i64 30]
@pointers = internal constant [1 x ptr] [ptr @inner]
@counter = internal global i64 5
@address = external global i8
declare i64 @outside(i64)
define internal i64 @inner(i64 %i) nounwind {
  %p = getelementptr i64, ptr @table, i64 %i
  %v = load i64, ptr %p
  ret i64 %v
}
define i64 @f(i64 %i) nounwind {
  %g = load volatile ptr, ptr @pointers
  %v = call i64 %g(i64 %i)
  %w = call i64 @outside(i64 %v)
  ret i64 %w
}
define i64 @count() nounwind {
  %v = load i64, ptr @counter
  %w = add i64 %v, 1
  store i64 %w, ptr @counter
  ret i64 %w
}
define ptr @where() nounwind {
  ret ptr @address
}
"""
DOUBLE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: 2 * x)
EXPORTS = ["f", "count", "where"]


def imports():
    return {
        "outside": ctypes.cast(DOUBLE, ctypes.c_void_p).value,
        "address": 0x1234567890,
    }


@pytest.fixture(params=["own loader", "LLVM's loader"])
def code(request):
    compiled = code_generator.compile_text(IR, verify=True)
    if request.param == "own loader":
        return link.load(compiled, EXPORTS, imports())
    if platform.machine() == "aarch64":
        pytest.skip("LLVM may lay sections too far apart, which ends the process")
    return link._LLVMImage(compiled, EXPORTS, link._Imports(imports()))


def call(code, name, *args):
    kinds = [ctypes.c_int64] * len(args)
    return ctypes.CFUNCTYPE(ctypes.c_int64, *kinds)(code.address(name))(*args)


def test_code_runs(code):
    assert [call(code, "f", i) for i in range(3)] == [20, 40, 60]
    assert [call(code, "count") for _ in range(3)] == [6, 7, 8]
    assert call(code, "where") == 0x1234567890


def test_two_copies_have_data_of_their_own():
    compiled = code_generator.compile_text(IR)
    first, second = (link.load(compiled, EXPORTS, imports()) for _ in range(2))
    assert call(first, "count") == call(second, "count") == 6


@needs_elf
def test_pages_are_never_writeable_and_executable():
    code = link.load(code_generator.compile_text(IR), EXPORTS, imports())
    assert isinstance(code, elf.Image)
    place = code.address("f")
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            low, high = (int(x, 16) for x in line.split()[0].split("-"))
            if low <= place < high:
                assert line.split()[1][:3] == "r-x"


@needs_elf
def test_memory_is_freed_with_the_code():
    code = link.load(code_generator.compile_text(IR), EXPORTS, imports())
    memory = weakref.ref(code._memory)
    del code
    gc.collect()
    assert memory() is None


def test_a_missing_import_is_named():
    compiled = code_generator.compile_text(IR)
    with pytest.raises(LookupError, match="'outside', which was not imported"):
        link.load(compiled, EXPORTS, {"address": 0})


def test_an_unknown_name():
    code = link.load(code_generator.compile_text(IR), EXPORTS, imports())
    with pytest.raises(KeyError):
        code.address("nothing")


@needs_elf
@pytest.mark.parametrize("cut", [0, 10, 63, 64, 200, 700])
def test_damaged_objects_are_refused(cut):
    compiled = code_generator.compile_text(IR)
    with pytest.raises((UnsupportedObject, ValueError)):
        elf.Image(compiled[:cut], imports(), PROCESSORS[platform.machine()])


@needs_elf
def test_objects_for_others_are_refused():
    compiled = bytearray(code_generator.compile_text(IR))
    machine = platform.machine()
    compiled[18] = 183 if machine == "x86_64" else 62
    with pytest.raises(UnsupportedObject, match="for this processor"):
        elf.Image(bytes(compiled), imports(), PROCESSORS[machine])


def test_bad_ir_is_a_compile_error():
    with pytest.raises(binding.CompileError, match="error"):
        code_generator.compile_text("define i32 @f() { ret i64 1 }")
    with pytest.raises(binding.CompileError):
        code_generator.compile_text(
            "define i32 @f() {\n%x = add i32 %x, 1\nret i32 %x }", verify=True
        )


def test_threads_compile_at_once():
    results = {}

    def work(k):
        for i in range(5):
            ir = f"define i64 @f() {{\n  ret i64 {100 * k + i}\n}}\n"
            code = link.load(code_generator.compile_text(ir), ["f"])
            results[k, i] = call(code, "f")

    workers = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert results == {(k, i): 100 * k + i for k in range(4) for i in range(5)}


def test_llvmlites_python_functions_do_as_well():
    engine = binding.Public()
    compiled = engine.compile(IR, 0, assembly=False, verify=True)
    assert call(link.load(compiled, EXPORTS, imports()), "f", 1) == 40
    with pytest.raises(binding.CompileError):
        engine.compile("nonsense", 0, assembly=False, verify=True)


def test_what_llvm_itself_calls_is_there():
    """Without a vector instruction for it, fmod is a call of the C library."""
    module = Module.of(host())
    b = module.function("f", [F64, F64], F64)
    x, y = b.arguments
    b.ret(b.instruction(f"frem double {x}, {y}", F64))
    native = Native(module, "f")
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double, ctypes.c_double)
    assert kind(native.address)(7.5, 2.0) == 1.5


@pytest.mark.parametrize(
    ("features", "width"),
    [(["sse2"], 16), (["avx2", "fma"], 32), (["avx512f", "avx2", "fma"], 64)],
)
def test_targets(features, width):
    described = describe("x86_64", "some model", features)
    assert described.vector_bytes == width
    assert described.has_fma == ("fma" in features)
    assert described.lanes("f32") == width // 4
    assert described != describe("x86_64", "other model", features)
    assert describe("aarch64", "", []).vector_bytes == 16


def test_an_old_llvmlite_is_told_from_none(monkeypatch):
    for where, wanted in (None, "not installed"), (("/x", "0.47.0"), "0.47.0 is too"):
        monkeypatch.setattr(binding, "_location", lambda where=where: where)
        assert wanted in binding.trouble()
