"""The target of this process: the one place where the compiler asks the host.

The processor is the one at hand, or a level of the psABI that `CURTA_CPU` names. Its
properties are read from the operating system, so finding a kernel in the cache needs no
LLVM. Limits come from the setting `curta_tuning`.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import platform
import sys

from curta._base.once import once
from curta.compiler import llvm_binding as binding
from curta.compiler.targets import Services, Target, Tuning, describe
from curta.compiler.triples import LEVELS
from curta.config import config
from curta.hosts.transport import IN_PYTHON, Transport


def host() -> Target:
    """The processor that this process runs on, with the current tuning."""
    return _tuned(config.tuning)


def host_with(transport: Transport) -> Target:
    """The processor that this process runs on, and what reaches other hosts."""
    made = host()
    if transport == IN_PYTHON:
        return made
    return dataclasses.replace(made, transport=transport)


@once
def _tuned(tuning: Tuning) -> Target:
    return dataclasses.replace(_host(), tuning=tuning)


@once
def _host() -> Target:
    level = config.curta_cpu
    model, features = _processor()
    made = describe(platform.machine(), model, features, sys.platform)
    lapack = importlib.util.find_spec("scipy_openblas32") is not None
    made = dataclasses.replace(made, services=Services(lapack=lapack))
    if level == "host":
        return made
    return dataclasses.replace(made, cpu=level, environment=_environment())


def _environment() -> str:
    return {"linux": "gnu", "win32": "msvc"}.get(sys.platform, "")


def _processor() -> tuple[str, list[str]]:
    """The processor that code is made for: the one at hand, or a level it has."""
    model, features = _processor_at_hand()
    level = config.curta_cpu
    if level == "host":
        return model, features
    missing = LEVELS[level] - set(features)
    if missing or platform.machine().lower() not in ("x86_64", "amd64"):
        lacks = f" lacks {', '.join(sorted(missing))}" if missing else " is another"
        raise RuntimeError(
            f"CURTA_CPU={level}: the processor at hand ({model.strip()}){lacks}. Choose"
            " a lower level, or `host`."
        )
    return level, sorted(LEVELS[level])


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
