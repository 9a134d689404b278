"""The machine that code is made for, as data.

A `Target` is made in one place, from the processor at hand or from a level of the psABI
that `CURTA_CPU` names, and handed down: no pass and no lowering asks the process which
machine it runs on. Its properties are read from the operating system, so finding a
kernel in the cache needs no LLVM.
"""

from __future__ import annotations

import dataclasses
import hashlib
import platform
import sys
from collections.abc import Iterable

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property, once
from curta._settings.tuning import DEFAULT, Tuning
from curta.compiler import llvm_binding as binding
from curta.config import config
from curta.hosts.transport import IN_PYTHON, Transport

CACHE_LINE = 64  # bytes


@dataclass(frozen=True)
class Target:
    """A machine that code is made for.

    Fields:
        machine: the instruction set, in lower case: `x86_64`, `aarch64`.
        system: the operating system, as `sys.platform` names it.
        model: the processor, or a level of the psABI.
        features: the names of the processor's features.
        vector_bytes: the width of a vector register.
        has_fma: True if it has fused multiply-add.
        has_f16: True if it converts half precision.
        words: kinds of packed numbers that its vectors multiply (tile_shape.py).
        transport: what carries arrays between hosts. Only programs with collectives
            depend on it.
        tuning: the limits by which code for it takes one path or another. They are no
            part of its identity: code that depends on them is found by its text.
    """

    machine: str
    system: str
    model: str
    features: frozenset[str]
    vector_bytes: int
    has_fma: bool
    has_f16: bool
    words: frozenset[str] = frozenset()
    transport: Transport = IN_PYTHON
    tuning: Tuning = DEFAULT

    @cached_property
    def identity(self) -> str:
        """A digest of the processor, for the keys of the kernel cache."""
        flags = self.vector_bytes, self.has_fma, self.has_f16, *sorted(self.words)
        names = self.machine, self.system, self.model, *sorted(self.features)
        text = " ".join(map(str, (*names, *flags)))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def assembles(self) -> bool:
        """Whether modules may contain assembly of x86-64 for the System V ABI."""
        return self.system == "linux" and self.machine in ("x86_64", "amd64")

    @property
    def call_bytes(self) -> int:
        """The width of operands of functions of vector math that are called."""
        return self.tuning.apart_registers * self.vector_bytes

    @property
    def picked_stride(self) -> int:
        """The largest stride of lanes that are picked out of whole vectors."""
        return self.tuning.few_apart

    def lanes(self, kind: str) -> int:
        """How many elements of a kind (`f32`, `i8`, ...) fill a vector register."""
        bits = int(kind.lstrip("bfi"))
        return self.vector_bytes // max(1, bits // 8)


def host() -> Target:
    """The processor that this process runs on, with the current tuning."""
    return _tuned(config.tuning)


@once
def _tuned(tuning: Tuning) -> Target:
    return dataclasses.replace(_host(), tuning=tuning)


@once
def _host() -> Target:
    return describe(platform.machine(), *_processor())


def host_with(transport: Transport) -> Target:
    """The processor that this process runs on, and what reaches other hosts."""
    made = host()
    if transport == IN_PYTHON:
        return made
    return dataclasses.replace(made, transport=transport)


def describe(
    machine: str, model: str, features: Iterable[str], system: str = sys.platform
) -> Target:
    """Return the target of a machine, a model and the names of its features."""
    names, machine = frozenset(features), machine.lower()
    if machine in ("aarch64", "arm64"):
        return Target("aarch64", system, model, names, 16, True, True)
    width = 64 if "avx512f" in names else 32 if "avx2" in names else 16
    words = _words({name.replace("_", "") for name in names})
    return Target(
        machine,
        system,
        model,
        names,
        width,
        has_fma="fma" in names,
        has_f16="f16c" in names,
        words=words if system == "linux" else frozenset(),
    )


def _words(features: set[str]) -> frozenset[str]:
    """Return the kinds of words that tiles in assembly multiply."""
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
