"""The machine that code is made for, and LLVM's code generator for it.

What the emitter must know (the width of a vector, whether there is fused
multiply-add) is read from the operating system, so that finding a kernel in the cache
needs no LLVM. The code generator itself asks LLVM for the processor.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from collections.abc import Iterable, Sequence

from curta.compiler.llvm import binding
from curta.compiler.llvm.builder import Module
from curta.config import config
from curta.lazy_dataclass import dataclass
from curta.once import once
from curta.signals import answering, at_once, processors

# LLVM's code generator: 0 selects instructions quickly (good for plain maps), 1 also
# schedules and allocates registers well (needed where a loop carries accumulators).
# SIMPLIFIED runs LLVM's simplest passes first, a fifth of the compile time: straight
# code of many ops has comparisons and divisions of which they leave half.
QUICK, GOOD, SIMPLIFIED = 0, 1, binding.SIMPLIFIED


@dataclass(frozen=True)
class Target:
    """A processor as the emitter sees it.

    `identity` names the processor and its features for the keys of the kernel cache.
    `words` are the kinds of several numbers that its vectors multiply (tile_shape.py).
    """

    machine: str
    vector_bytes: int
    has_fma: bool
    has_f16: bool
    identity: str
    words: frozenset[str] = frozenset()

    def lanes(self, kind: str) -> int:
        """How many elements of a kind (`f32`, `i8`, ...) fill a vector register."""
        bits = int(kind.lstrip("bfi"))
        return self.vector_bytes // max(1, bits // 8)

    def module(self) -> Module:
        """An empty module for this processor."""
        linux = sys.platform == "linux" and self.machine in ("x86_64", "amd64")
        return Module(self.has_fma, self.vector_bytes, self.has_f16, linux)


@once
def host() -> Target:
    """The processor that this process runs on."""
    return describe(platform.machine(), *_processor())


def describe(machine: str, model: str, features: Iterable[str]) -> Target:
    """The target with a machine name, a model name and the names of its features."""
    names = frozenset(features)
    text = " ".join([machine, sys.platform, model, *sorted(names)])
    identity = hashlib.sha256(text.encode()).hexdigest()[:16]
    if machine.lower() in ("aarch64", "arm64"):
        return Target("aarch64", 16, True, True, identity)
    width = 64 if "avx512f" in names else 32 if "avx2" in names else 16
    return Target(
        machine.lower(),
        width,
        has_fma="fma" in names,
        has_f16="f16c" in names,
        identity=identity,
        words=_words({name.replace("_", "") for name in names}),
    )


def _words(features: set[str]) -> frozenset[str]:
    """The kinds of words that tiles in assembly multiply."""
    if sys.platform != "linux":
        return frozenset()
    integers = {"i8x4", "i16x2"} if "avx512vnni" in features else set()
    return frozenset(integers | ({"bf16x2"} if "avx512bf16" in features else set()))


# The features that the levels of the x86-64 psABI add and the emitter asks for.
_LEVELS: dict[str, frozenset[str]] = {
    "x86-64": frozenset(),
    "x86-64-v2": frozenset({"sse4_2"}),
    "x86-64-v3": frozenset({"sse4_2", "avx2", "fma", "f16c"}),
    "x86-64-v4": frozenset({"sse4_2", "avx2", "fma", "f16c", "avx512f"}),
}


def _processor() -> tuple[str, list[str]]:
    """The processor that code is made for: the one at hand, or a level it has."""
    model, features = _processor_at_hand()
    level = config.curta_cpu
    if level == "host":
        return model, features
    missing = _LEVELS[level] - set(features)
    if missing or platform.machine().lower() not in ("x86_64", "amd64"):
        lacks = f" lacks {', '.join(sorted(missing))}" if missing else " is another"
        raise RuntimeError(
            f"CURTA_CPU={level}: the processor at hand ({model.strip()}){lacks}. Choose"
            " a lower level, or `host`."
        )
    return level, sorted(_LEVELS[level])


def _processor_at_hand() -> tuple[str, list[str]]:
    """The model and the features of the processor, by Linux or else by LLVM."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            return _read_cpuinfo(file.read(8192))
    except OSError:
        pass
    if not binding.available():
        return platform.processor(), []
    engine = binding.llvm()
    names = engine.host_features.decode().split(",")
    return engine.host_cpu.decode(), [f[1:] for f in names if f.startswith("+")]


def _read_cpuinfo(text: str) -> tuple[str, list[str]]:
    fields: dict[str, str] = {}
    for line in text.split("\n\n")[0].splitlines():
        name, _, value = line.partition(":")
        fields[name.strip()] = value.strip()
    keys = ("vendor_id", "cpu family", "model", "model name", "CPU part")
    model = " ".join(fields.get(key, "") for key in keys)
    return model, (fields.get("flags") or fields.get("Features") or "").split()


def available() -> bool:
    """Whether code can be compiled here at all."""
    return binding.available()


def compile_text(ir: str, level: int = GOOD, verify: bool = False) -> bytes:
    """Compile LLVM IR to an object file in memory.

    Any number of threads may call this at once. `verify` checks the IR first, which
    tests do.

    Raises:
        ImportError: llvmlite is not installed.
        CompileError: LLVM does not accept the IR.
    """
    compile_module = binding.llvm().compile
    if len(ir) < config.tuning.interruptible_ir:
        return compile_module(ir, level, False, verify)
    return answering(compile_module, ir, level, False, verify)


def compile_texts(texts: Sequence[tuple[str, int]]) -> list[bytes]:
    """The object files of modules with their levels; long ones at the same time.

    Raises:
        ImportError: llvmlite is not installed.
        CompileError: LLVM does not accept some IR.
    """
    total = sum(len(ir) for ir, _ in texts)
    if len(texts) < 2 or total < config.tuning.parallel_ir:
        return [compile_text(*text) for text in texts]
    chosen = config.curta_num_threads
    threads = chosen if chosen > 0 else processors()
    return at_once(lambda text: compile_text(*text), texts, threads)


def assembly(ir: str, level: int = GOOD) -> str:
    """The assembly that `compile_text` would make, to read."""
    return binding.llvm().compile(ir, level, assembly=True, verify=True).decode()
