"""Code for 64-bit ARM, made and assembled on another machine; nothing of it runs.

    python -m tests.stress.aarch64 [--only Sin,DotGeneral] [--random 60]

Each op of the conformance tests is compiled with all of its samples for a generic
processor of that kind, then random programs, and the native code of the runtime. The IR
is verified, and what LLVM gives must be an object file for that processor that calls
nothing but functions that the loader knows. `make test-aarch64` runs some of it all on
an emulated processor.
"""

from __future__ import annotations

import argparse
import collections
import ctypes
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tests.compiler.programs import RandomProgram, staged
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import Case, cases

from curta.compiler import code_generator, llvm_binding as binding
from curta.compiler.library import blas, blas_buffers, blas_buffers_code
from curta.compiler.machine_code import cache, link, linked
from curta.compiler.machine_code.elf import Image, ObjectFile
from curta.compiler.machine_code.relocations import PROCESSORS
from curta.compiler.pipeline import compile_jaxpr
from curta.compiler.support import (
    arena_code,
    atomics,
    call_code,
    cancellation_code,
    entry_code,
    invoke_code,
    queue_code,
    thread_code,
)
from curta.compiler.support.loader import native_text
from curta.compiler.triples import named
from curta.config import backend, enable_x64
from curta.core.jaxpr import ClosedJaxpr
from curta.core.stage import stage
from curta.runtime import native_call

MACHINE = "aarch64"
TARGET = named(f"{MACHINE}-linux-gnu")


class Wrong(Exception):
    """The output of LLVM is not code that can run there."""


class CrossCompiler(binding.Public):
    """LLVM, which verifies all IR and makes code for the other processor."""

    def __init__(self) -> None:
        super().__init__()
        self.files = self.bytes = 0

    def compile(
        self,
        ir: str,
        level: int,
        assembly: bool,
        verify: bool,
        made_for: binding.LLVMMachine = binding.NATIVE,
    ) -> bytes:
        code = super().compile(ir, level, assembly, True, TARGET.llvm)
        self.files += 1
        self.bytes += len(code)
        return code


class Assembled:
    """Stands for code in memory: every function of the object file has an address."""

    def __init__(self, data: bytes, exports: Sequence[str], known: Mapping[str, int]):
        parsed = ObjectFile(data, PROCESSORS[MACHINE])
        inside = {name for name, section, _ in parsed.symbols if name and section}
        outside = {name for name, section, _ in parsed.symbols if name and not section}
        if missing := set(exports) - inside:
            raise Wrong(f"no code of {missing}")
        if unknown := outside - set(known) - link.RUNTIME_NAMES:
            raise Wrong(f"it calls {unknown}, which is not imported")
        # Mapped and relocated as it would be there; nothing of it is run.
        Image(data, dict.fromkeys(outside, 1 << 44), PROCESSORS[MACHINE])

    def address(self, name: str) -> int:
        return 64


def cross_compile() -> CrossCompiler:
    """Make all further code of this process for the other processor, and run none."""
    blas.available()  # it is this processor that asks LAPACK for lengths of workspace
    compiler = CrossCompiler()
    patches: list[tuple[Any, str, Callable[..., Any]]] = [
        (binding, "llvm", lambda: compiler),
        (cache, "usable_folder", lambda: None),
        (linked, "load", Assembled),
        (blas_buffers, "call", call_here),
    ]
    for module, name, instead in patches:
        setattr(module, name, instead)
    return compiler


def call_here(_: blas_buffers.Buffers, routine: int, words: Sequence[int]) -> None:
    """Call a routine of LAPACK without code of ours."""
    ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * len(words))(routine)(*words)


def of_op(cls: type) -> ClosedJaxpr:
    """A program of all samples of an op."""
    found: list[Case] = cases(cls)

    def program(*flat: Any) -> list[Any]:
        rest = iter(flat)
        outs: list[Any] = []
        for case in found:
            out = case.op(*[next(rest) for _ in case.avals])
            outs += list(out) if case.op.multiple_results else [out]
        return outs

    return stage(program, [a for case in found for a in case.avals])


def of_runtime() -> Iterator[tuple[str, str]]:
    """Name and IR of the native code of the runtime."""
    written = [arena_code, blas_buffers_code, cancellation_code, queue_code]
    for code in (*written, thread_code, entry_code):
        yield code.__name__, native_text(code.EXPORTS, TARGET)
    layout = native_call.known_layout()
    if layout is not None:
        yield call_code.__name__, native_text(call_code.EXPORTS, TARGET, layout)


def programs(
    only: Sequence[str], count: int
) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The compiled programs, by name."""
    for cls in sampled_ops():
        if not only or cls.__name__ in only:
            yield cls.__name__, lambda cls=cls: compile_jaxpr(of_op(cls), TARGET)
    if only:
        return
    known = dict.fromkeys(_of_python(), 0)
    for name, ir in of_runtime():
        yield name, lambda ir=ir: Assembled(code_generator.compile_text(ir), (), known)
    for seed in range(count):
        program = RandomProgram(seed)
        yield (
            f"random program {seed}",
            lambda program=program: compile_jaxpr(
                staged(program, *program.arguments()), TARGET
            ),
        )


def _of_python() -> Iterator[str]:
    """What the runtime looks up by itself: functions of Python and of the system."""
    yield from link.SYSTEM_NAMES
    yield from (f.name for f in cancellation_code.EXPORTS)
    yield from (cancellation_code.STATE, blas_buffers_code.STATE, atomics.STATE)
    yield from (arena_code.PARKED, arena_code.TAKE, arena_code.GIVE)
    yield from (*native_call.OBJECTS, entry_code.ARRAY_TYPE, *invoke_code.ARENAS)


def main() -> int:
    """Compile everything; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="tests.stress.aarch64")
    parser.add_argument("--only", default="", help="classes of ops, with commas")
    parser.add_argument("--random", type=int, default=60, help="random programs")
    options = parser.parse_args()
    compiler, start = cross_compile(), time.monotonic()
    counts: collections.Counter[str] = collections.Counter()
    only = [name for name in options.only.split(",") if name]
    with enable_x64(True), backend("numpy"):
        for name, make in programs(only, options.random):
            try:
                make()
                counts["assembled"] += 1
            except (Wrong, binding.CompileError, LookupError, ValueError) as error:
                counts["found"] += 1
                print(f"FOUND {name}: {type(error).__name__}: {error}", flush=True)
    print(
        f"{counts['assembled']} programs, {compiler.files} object files of"
        f" {compiler.bytes} bytes in {time.monotonic() - start:.0f} s;"
        f" {counts['found']} findings"
    )
    return bool(counts["found"])


if __name__ == "__main__":
    sys.exit(main())
