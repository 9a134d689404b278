"""Targets by name, and code for machines other than the one at hand."""

import builtins
import dataclasses
import platform
import re
from pathlib import Path

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import compiler, lax
from curta.compiler import code_generator, host_target, llvm_binding
from curta.compiler.emit.emission import emit
from curta.compiler.llvm.builder import Module
from curta.compiler.llvm.types import F32, PTR, Type
from curta.compiler.machine_code import cache, link, linked
from curta.compiler.machine_code.linked import ModuleSource
from curta.compiler.pipeline import lower
from curta.compiler.targets import ALONE, Target
from curta.compiler.triples import TRIPLES, named

ARM = "aarch64-linux-gnu"
X = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)

PROPERTIES = {
    "x86_64-linux-gnu": ("x86_64-unknown-linux-gnu", "elf", "sysv", 8),
    "aarch64-linux-gnu": ("aarch64-unknown-linux-gnu", "elf", "aapcs64", 8),
    "riscv64-linux-gnu": ("riscv64-unknown-linux-gnu", "elf", "lp64d", 8),
    "armv7-linux-gnueabihf": ("armv7-unknown-linux-gnueabihf", "elf", "aapcs-vfp", 4),
    "arm64-apple-darwin": ("arm64-apple-macosx11.0.0", "macho", "aapcs64", 8),
    "x86_64-apple-darwin": ("x86_64-apple-macosx11.0.0", "macho", "sysv", 8),
    "x86_64-windows-msvc": ("x86_64-pc-windows-msvc", "coff", "win64", 8),
    "x86_64-windows-gnu": ("x86_64-pc-windows-gnu", "coff", "win64", 8),
    "aarch64-windows-msvc": ("aarch64-pc-windows-msvc", "coff", "aapcs64", 8),
    "wasm32": ("wasm32-unknown-unknown", "wasm", "wasm-basic-c", 4),
    "wasm64": ("wasm64-unknown-unknown", "wasm", "wasm-basic-c", 8),
}
# The first bytes of an object file of each target.
MAGIC = {"elf": b"\x7fELF", "macho": b"\xcf\xfa\xed\xfe", "wasm": b"\0asm"}
COFF = {"x86_64": b"\x64\x86", "aarch64": b"\x64\xaa"}


@pytest.mark.parametrize("name", TRIPLES)
def test_targets_by_name(name):
    target = named(name)
    found = target.triple, target.object_format, target.calling_convention
    assert (*found, target.pointer_bytes) == PROPERTIES[name]
    assert target.services == ALONE and not target.is_native


def test_a_processor_and_features_follow_the_triple():
    level = named("x86_64-linux-gnu:x86-64-v3")
    assert (level.vector_bytes, level.has_fma, level.has_f16) == (32, True, True)
    assert not level.words and level.llvm.cpu == "x86-64-v3"
    packed = named("x86_64-unknown-linux-gnu:x86-64-v4+avx512vnni+no-fma")
    assert packed.words == {"i8x4", "i16x2"} and not packed.has_fma
    assert packed.llvm.attributes == "+avx512vnni,-fma"
    assert named("x86_64-pc-windows-msvc:skylake-avx512").vector_bytes == 64
    assert named("armv7-linux-gnueabihf:cortex-a7").has_fma
    assert not named("armv7-linux-gnueabihf").has_fma
    assert named("arm64-apple-darwin23.1.0:apple-m1").cpu == "apple-m1"
    names = [*TRIPLES, "x86_64-linux-gnu:haswell", "x86_64-linux-gnu+avx2"]
    assert len({named(name).identity for name in names}) == len(names)


@pytest.mark.parametrize(
    "name",
    ["", "sparc-linux-gnu", "aarch64-linux-gnueabihf", "wasm32-linux-gnu",
     "aarch64-linux-gnu:haswell", "x86_64-linux-gnu+", "x86_64-linux-gnu:x86-64+AVX!"],
)  # fmt: skip
def test_names_that_are_not_targets(name):
    with pytest.raises(ValueError, match="target"):
        named(name)


@pytest.mark.parametrize("name", TRIPLES)
def test_llvm_makes_object_files_for_all_targets(name):
    target = named(name)
    module = Module.of(target)
    b = module.function("twice", [PTR])
    (pointer,) = b.arguments
    value = b.load(Type("f32", 4), pointer)
    b.store(value + value, pointer)
    b.ret()
    data = code_generator.compile_text(module.text(), target=target, verify=True)
    expected = MAGIC.get(target.object_format) or COFF[target.machine]
    assert data.startswith(expected) and F32.size == 4


def layers(x):
    hidden = jnp.tanh(x @ x + 1)
    looped = lax.fori_loop(0, 3, lambda i, c: jnp.sin(c @ x) + i, hidden)
    return curta.nn.softmax(looped), jnp.sort(looped, 0), jnp.cumsum(looped, 1)


def modules(code):
    yield code
    for callee in code.callees:
        yield from modules(callee)


def test_lowering_and_emission_ask_nothing_of_the_host(monkeypatch):
    closed = curta.make_jaxpr(layers)(X)

    def refuse(*_, **__):
        raise AssertionError("the host was asked")

    reading = builtins.open
    with monkeypatch.context() as patch:
        for module, name in (
            (host_target, "host"), (host_target, "_host"), (platform, "machine"),
            (llvm_binding, "llvm"), (link, "load"), (linked, "load"),
            (cache, "read"), (cache, "object_files"),
        ):  # fmt: skip
            patch.setattr(module, name, refuse)
        patch.setattr(
            builtins,
            "open",
            lambda path, *a, **k: (
                refuse() if str(path).startswith("/proc") else reading(path, *a, **k)
            ),
        )
        codes = emit(lower(closed, named(ARM)))
        sources: list[ModuleSource] = [
            found
            for code in codes
            for source in (code.entry, *code.library)
            for found in modules(source)
        ]
        texts = [(s.write(), s.level, s.target) for s in sources]
    assert all(target.machine == "aarch64" for *_, target in texts)
    for ir, level, target in texts:
        data = code_generator.compile_text(ir, level, True, target)
        assert data[:4] == b"\x7fELF" and data[18] == 183  # EM_AARCH64


def test_fields_of_a_target_have_no_part_in_its_identity_if_text_shows_them():
    target: Target = named(ARM)
    other = dataclasses.replace(target, tuning=dataclasses.replace(target.tuning))
    assert other != target and other.identity == target.identity


# What asks the system: the making of the target, and what loads code and runs it.
ASKING = {
    "dump.py", "host_target.py", "llvm_binding.py", "executable.py", "fingerprint.py",
    "library/blas.py", "library/blas_buffers.py", "machine_code/cache.py",
    "machine_code/elf.py", "machine_code/link.py", "support/arenas.py",
    "support/cancellation.py", "support/threads.py",
}  # fmt: skip
QUESTIONS = re.compile(
    r"^import (?:platform|mmap)\b|(?<!`)sys\.(?:platform|byteorder|maxsize)"
    r"|\bos\.(?:environ|cpu_count|sched_getaffinity)|/proc/|\bprocessors\(\)",
    re.MULTILINE,
)


def test_stages_do_not_ask_the_system():
    root = Path(compiler.__file__).parent
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if QUESTIONS.search(path.read_text(encoding="utf-8"))
    }
    assert found - {"code_generator.py"} <= ASKING  # which compiles by threads
