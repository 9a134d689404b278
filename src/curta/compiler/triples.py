"""Targets by name: a triple, a processor and its features.

    named("wasm32")
    named("aarch64-linux-gnu:neoverse-n1")
    named("x86_64-linux-gnu:x86-64-v3+avx512vnni")

A name has the form `TRIPLE[:CPU][+FEATURE][+no-FEATURE]...`, with LLVM's words. A
vendor in the triple is ignored (`x86_64-pc-windows-msvc`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from typing import NamedTuple

from curta.compiler.targets import ALONE, Target, Tuning, describe

# Features that the levels of the x86-64 psABI add, and the emitter asks for.
LEVELS: dict[str, frozenset[str]] = {
    "x86-64": frozenset(),
    "x86-64-v2": frozenset({"sse4_2"}),
    "x86-64-v3": frozenset({"sse4_2", "avx2", "fma", "f16c"}),
    "x86-64-v4": frozenset({"sse4_2", "avx2", "fma", "f16c", "avx512f"}),
}

_V2 = "nehalem westmere sandybridge silvermont"
_V3 = "haswell broadwell skylake alderlake znver1 znver2 znver3"
_V4 = "skylake-avx512 cascadelake icelake-server sapphirerapids znver4 znver5"


class _Machine(NamedTuple):
    """An instruction set.

    Fields:
        cpus: LLVM's processors, each with the features that count here.
        base: features that every processor of the set has here, as LLVM's words.
        systems: the systems and environments of its triples.
    """

    cpus: dict[str, frozenset[str]]
    base: tuple[str, ...]
    systems: tuple[str, ...]


def _plain(*names: str) -> dict[str, frozenset[str]]:
    return dict.fromkeys(("generic", *names), frozenset())


_X86 = {
    **LEVELS,
    **dict.fromkeys(_V2.split(), LEVELS["x86-64-v2"]),
    **dict.fromkeys(_V3.split(), LEVELS["x86-64-v3"]),
    **dict.fromkeys(_V4.split(), LEVELS["x86-64-v4"]),
}
_NEON = frozenset({"vfp4", "fp16"})  # fused multiply-add and half precision
_MACHINES = {
    "x86_64": _Machine(
        _X86, (), ("linux-gnu", "windows-msvc", "windows-gnu", "darwin")
    ),
    "aarch64": _Machine(
        _plain(
            *("cortex-a53", "cortex-a55", "cortex-a72", "cortex-a76", "cortex-a78"),
            *("neoverse-n1", "neoverse-n2", "neoverse-v1", "neoverse-v2"),
            *("apple-a14", "apple-m1", "apple-m2", "apple-m3", "apple-m4"),
        ),
        (),
        ("linux-gnu", "windows-msvc", "darwin"),
    ),
    "arm": _Machine(
        _plain("cortex-a8", "cortex-a9")
        | dict.fromkeys(("cortex-a7", "cortex-a15", "cortex-a53"), _NEON),
        ("neon",),
        ("linux-gnueabihf",),
    ),
    "riscv64": _Machine(
        {"generic-rv64": frozenset()}, ("m", "a", "f", "d", "c"), ("linux-gnu",)
    ),
    "wasm32": _Machine(_plain(), ("simd128",), ("none",)),
    "wasm64": _Machine(_plain(), ("simd128",), ("none",)),
}
_SPELLINGS = {"amd64": "x86_64", "arm64": "aarch64", "armv7": "arm", "armv7a": "arm"}
_VENDORS = {"unknown", "pc", "apple", "w64", "none"}
_SYSTEMS = {"windows": "win32", "macosx": "darwin", "macos": "darwin"}

# Names that `curta targets` lists: one triple of each kind.
TRIPLES = (
    "x86_64-linux-gnu", "aarch64-linux-gnu", "riscv64-linux-gnu",
    "armv7-linux-gnueabihf", "arm64-apple-darwin", "x86_64-apple-darwin",
    "x86_64-windows-msvc", "x86_64-windows-gnu", "aarch64-windows-msvc", "wasm32",
    "wasm64",
)  # fmt: skip


def named(name: str, tuning: Tuning | None = None) -> Target:
    """Return the target of a name; programs for it are alone (no services).

    Args:
        name: a triple, with a processor and features if wanted.
        tuning: its limits, which are the default ones otherwise.

    Raises:
        ValueError: the name is not understood; the message lists those that are.

    Example:
        >>> target = named("aarch64-linux-gnu:neoverse-n1")
        >>> target.triple, target.object_format, target.pointer_bytes
        ('aarch64-unknown-linux-gnu', 'elf', 8)
    """
    triple, cpu, signed = _parsed(name)
    machine, system, environment = _system(triple, name)
    known = _MACHINES[machine]
    cpu = cpu or next(iter(known.cpus))
    if cpu not in known.cpus:
        cpus = ", ".join(known.cpus)
        raise ValueError(f"target {name!r}: {cpu!r} is not one of {cpus}")
    base = [f"+{f}" for f in known.base]
    features = _features(known.cpus[cpu], (*base, *signed))
    made = _described(machine, system, cpu, features)
    return dataclasses.replace(
        made, environment=environment, cpu=cpu, attributes=(*base, *signed),
        services=ALONE, tuning=tuning or made.tuning,
    )  # fmt: skip


def _parsed(name: str) -> tuple[str, str, tuple[str, ...]]:
    """Split a name into the triple, the processor and signed features."""
    head, *features = name.strip().split("+")
    triple, _, cpu = head.partition(":")
    signed = [f"-{f[3:]}" if f.startswith("no-") else f"+{f}" for f in features]
    if not all(re.fullmatch(r"[+-][a-z][\w.-]*", f) for f in signed):
        raise ValueError(f"target {name!r}: features are written +NAME or +no-NAME")
    return triple, cpu, tuple(signed)


def _system(triple: str, name: str) -> tuple[str, str, str]:
    """Return the machine, the system and the environment of a triple."""
    first, *rest = triple.lower().split("-")
    machine = _SPELLINGS.get(first, first)
    rest = [part for part in rest if part not in _VENDORS]
    system = re.sub(r"[\d.]+$", "", rest[0]) if rest else ""
    system = _SYSTEMS.get(system, system)
    environment = rest[1] if len(rest) > 1 else ""
    if machine.startswith("wasm"):
        system = system or "none"
    spelled = {"win32": "windows"}.get(system, system)
    known = _MACHINES.get(machine)
    wanted = "-".join(filter(None, (spelled, environment)))
    if known is None or wanted not in known.systems:
        raise ValueError(
            f"target {name!r} is not known. Triples are {', '.join(TRIPLES)};"
            " a processor and features follow as :CPU+FEATURE+no-FEATURE."
        )
    return machine, system, environment


def _features(base: Iterable[str], signed: Iterable[str]) -> frozenset[str]:
    """Return features, with signed ones added or removed."""
    result = set(base)
    for feature in signed:
        spelled = feature[1:].replace("sse4.2", "sse4_2")
        (result.add if feature[0] == "+" else result.discard)(spelled)
    return frozenset(result)


def _described(machine: str, system: str, cpu: str, features: frozenset[str]) -> Target:
    if machine in ("x86_64", "aarch64"):
        return describe(machine, cpu, features, system)
    fma = machine == "riscv64" or "vfp4" in features
    f16 = machine == "arm" and "fp16" in features
    return Target(machine, system, cpu, features, 16, fma, f16)
