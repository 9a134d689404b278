"""The limits of this machine: bytes and floating-point operations per second.

Measured by a few loops of vector code, written here so that the limits of the table
lean on no library that is being measured.
"""

import ctypes
import os
import platform
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache, partial

import llvmlite.binding as llvm
import numpy as np

LARGE = 256 << 20  # bytes, well beyond any cache
CHAINS = 12  # independent accumulators: latency 4, two units, and some


@dataclass(frozen=True)
class Machine:
    """Bandwidths by working set are looked up, and measured once each."""

    processor: str
    cores: int
    peak: float  # float32 operations per second, all cores
    loops: "Loops" = field(repr=False)

    def floor(self, read: int, written: int, flops: int) -> float:
        """Seconds below which the work cannot be done."""
        size = read + written
        seconds = flops / self.peak
        if size:
            seconds = max(seconds, size / self.bandwidth(size, bool(written)))
        return seconds

    def bandwidth(self, size: int, copying: bool) -> float:
        """Bytes per second over a working set of `size` bytes."""
        size = min(LARGE, 1 << max(size - 1, 1 << 14).bit_length())
        return self.loops.bandwidth(size, copying)


@cache
def this_machine() -> Machine:
    loops = Loops()
    cores = loops.cores
    return Machine(processor_name(), cores, loops.peak(), loops)


def processor_name() -> str:
    try:
        with open("/proc/cpuinfo") as lines:
            named = (line for line in lines if "model name" in line)
            return next(named).split(":")[1].strip()
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


class Loops:
    """The loops as machine code, run on all cores by Python threads."""

    def __init__(self):
        self.cores = len(os.sched_getaffinity(0))
        self.lanes = vector_lanes()
        self.engine = compile_text(loops_text(self.lanes))
        pointer, count = ctypes.c_void_p, ctypes.c_int64
        self.fma = self._function("fma_loop", count, ctypes.POINTER(ctypes.c_float))
        self.read = self._function("read_loop", pointer, count, pointer)
        self.copies = [
            self._function(name, pointer, pointer, count)
            for name in ("copy_loop", "stream_loop")
        ]
        self.pool = ThreadPoolExecutor(self.cores)

    def _function(self, name: str, *types: type) -> Callable[..., None]:
        address = self.engine.get_function_address(name)
        return ctypes.CFUNCTYPE(None, *types)(address)

    def peak(self) -> float:
        count = 800_000  # short, so that some rounds meet both cores free

        def work(_: int) -> None:
            self.fma(count, ctypes.byref(ctypes.c_float()))

        flops = 2 * CHAINS * self.lanes * count * self.cores
        return flops / self._best(work, rounds=2000)

    @cache  # noqa: B019 - one instance lives as long as the process
    def bandwidth(self, size: int, copying: bool) -> float:
        """Bytes per second; in a copy, those read and those written together."""
        share = size // self.cores // (2 if copying else 1)
        step = 4 * self.lanes * CHAINS
        share -= share % step
        repeat = max(1, LARGE // share)
        sources = [aligned(share) for _ in range(self.cores)]
        targets = [aligned(share) for _ in range(self.cores)]

        def reading(core: int) -> None:
            source, target = sources[core].ctypes.data, targets[core].ctypes.data
            for _ in range(repeat):
                self.read(source, share // step, target)

        def copying_by(copy: Callable[..., None], core: int) -> None:
            source, target = sources[core].ctypes.data, targets[core].ctypes.data
            for _ in range(repeat):
                copy(source, target, share // step)

        if copying:
            seconds = min(self._best(partial(copying_by, copy)) for copy in self.copies)
            return 2 * share * repeat * self.cores / seconds
        return share * repeat * self.cores / self._best(reading)

    def _best(self, work: Callable[[int], None], rounds: int = 12) -> float:
        """Seconds of the quickest run: what the machine can do when left alone."""
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            list(self.pool.map(work, range(self.cores)))
            times.append(time.perf_counter() - start)
        return min(times)


def aligned(size: int) -> np.ndarray:
    """A touched buffer that starts on a cache line."""
    raw = np.ones(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size]


def vector_lanes() -> int:
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        return 16
    return 8 if features.get("avx") else 4


def compile_text(text: str) -> llvm.ExecutionEngine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2,
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), target)
    engine.finalize_object()
    return engine


def loops_text(lanes: int) -> str:
    """LLVM IR of the loops: fused multiply-adds, a sum that reads, two copies.

    The second copy writes past the cache, which pays where the data is larger.
    """
    vec = f"<{lanes} x float>"
    chains = range(CHAINS)

    def body(lines: list[str]) -> str:
        return "\n".join("  " + line for line in lines)

    def offsets(pointer: str) -> list[str]:
        return [
            f"%{pointer}{c} = getelementptr {vec}, ptr %{pointer}, i64 %o{c}"
            for c in chains
        ]

    zero = "zeroinitializer"
    accumulators = body(
        [f"%a{c} = phi {vec} [{zero}, %entry], [%n{c}, %loop]" for c in chains]
    )
    index = body(
        [f"%base = mul i64 %i, {CHAINS}"]
        + [f"%o{c} = add i64 %base, {c}" for c in chains]
    )
    loads = body([f"%v{c} = load {vec}, ptr %src{c}, align 64" for c in chains])
    stores = [f"store {vec} %v{c}, ptr %dst{c}, align 64" for c in chains]
    total = [f"%s0 = fadd {vec} %n0, %n1"] + [
        f"%s{c - 1} = fadd {vec} %s{c - 2}, %n{c}" for c in range(2, CHAINS)
    ]
    count = body(
        ["%j = add i64 %i, 1", "%more = icmp slt i64 %j, %n"]
        + ["br i1 %more, label %loop, label %done"]
    )
    counter = "  %i = phi i64 [0, %entry], [%j, %loop]"
    fma = f"call {vec} @llvm.fma.v{lanes}f32"

    def copy_loop(name: str, hint: str) -> str:
        return f"""
define void @{name}(ptr %src, ptr %dst, i64 %n) {{
entry:
  br label %loop
loop:
{counter}
{index}
{body(offsets("src"))}
{body(offsets("dst"))}
{loads}
{body([store + hint for store in stores])}
{count}
done:
  ret void
}}"""

    multiply = body([f"%n{c} = {fma}({vec} %a{c}, {vec} %x, {vec} %x)" for c in chains])
    last = f"%s{CHAINS - 2}"
    return f"""
declare {vec} @llvm.fma.v{lanes}f32({vec}, {vec}, {vec})
!0 = !{{i32 1}}

define void @fma_loop(i64 %n, ptr %dst) {{
entry:
  %first = load float, ptr %dst
  %one = insertelement {vec} undef, float %first, i32 0
  %x = shufflevector {vec} %one, {vec} undef, <{lanes} x i32> zeroinitializer
  br label %loop
loop:
{counter}
{accumulators}
{multiply}
{count}
done:
{body(total)}
  %result = extractelement {vec} {last}, i32 0
  store float %result, ptr %dst
  ret void
}}

define void @read_loop(ptr %src, i64 %n, ptr %dst) {{
entry:
  br label %loop
loop:
{counter}
{accumulators}
{index}
{body(offsets("src"))}
{loads}
{body([f"%n{c} = fadd {vec} %a{c}, %v{c}" for c in chains])}
{count}
done:
{body(total)}
  store {vec} {last}, ptr %dst, align 64
  ret void
}}

{copy_loop("copy_loop", "")}
{copy_loop("stream_loop", ", !nontemporal !0")}
"""
