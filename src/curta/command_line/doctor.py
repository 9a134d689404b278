"""`curta doctor`: whether an installation works, and what is slow about a machine."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._settings.tuning import DEFAULT
from curta.api.jit import jit
from curta.api.readable import sized
from curta.command_line.machine import Machine
from curta.compiler import llvm_binding as binding
from curta.compiler.host_target import host
from curta.compiler.machine_code import cache
from curta.compiler.support.threads import num_threads
from curta.config import config
from curta.lax import exp

_SMALL_DISK = 1 << 28  # bytes: a few hundred programs


@dataclass(frozen=True)
class Finding:
    """One line of the report: `ok`, `slow` or `fault`, and what can be done."""

    level: str
    text: str
    remedy: str = ""


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "doctor", help="check the installation, and what is slow about this machine"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what was found; 1 if something does not work."""
    result = list(findings(Machine()))
    for finding in result:
        print(f"{finding.level:<6}{finding.text}")
        if finding.remedy:
            print(f"      {finding.remedy}")
    counts = [sum(f.level == level for f in result) for level in ("fault", "slow")]
    print(f"{counts[0]} faults, {counts[1]} things that are slow")
    return 1 if counts[0] else 0


def findings(machine: Machine) -> Iterator[Finding]:
    """All findings, those about the installation first."""
    for check in _CHECKS:
        yield from check(machine)


# ---- the installation


def _compiler(machine: Machine) -> Iterator[Finding]:
    if not binding.available():
        yield Finding(
            "slow",
            f"{binding.trouble()}: functions run op by op, in NumPy",
            binding.REMEDY,
        )
    else:
        yield Finding("ok", f"llvmlite {binding.version()} makes machine code")


def _results(machine: Machine) -> Iterator[Finding]:
    """A program with vector math, a reduction and a product, against NumPy."""
    x = np.linspace(-1, 1, 96 * 96, dtype=np.float32).reshape(96, 96)
    wanted = (np.exp(x) @ x).sum(1)
    try:
        result = np.asarray(jit(_program)(x))
    except (OSError, RuntimeError, MemoryError) as error:
        kind = type(error).__name__
        yield Finding("fault", f"a compiled function fails: {kind}: {error}")
        return
    if np.allclose(result, wanted, rtol=1e-4, atol=1e-3):
        yield Finding("ok", "a compiled function gives what NumPy gives")
    else:
        yield Finding("fault", "a compiled function gives wrong numbers: report a bug")


def _program(x: Any) -> Any:
    return (exp(x) @ x).sum(1)


def _cache(machine: Machine) -> Iterator[Finding]:
    if not config.jax_enable_compilation_cache:
        yield Finding(
            "slow",
            "the kernel cache is off: each process compiles all again",
            "unset CURTA_CACHE",
        )
        return
    folder = cache.chosen_folder()
    if fault := cache.fault_of_folder(folder):
        yield Finding(
            "slow",
            f"no kernels can be kept in {folder} ({fault}): each process compiles all"
            " again",
            "CURTA_CACHE_DIR= a folder that is yours, and that nobody else may write",
        )
        return
    free = shutil.disk_usage(folder).free
    if not os.access(folder, os.W_OK) or free < _SMALL_DISK:
        yield Finding(
            "slow",
            f"the kernel cache {folder} cannot grow: {sized(free)} are free",
            "CURTA_CACHE_DIR= a folder with room",
        )
    else:
        yield Finding("ok", f"compiled kernels are kept in {folder}")


# ---- settings


def _settings(machine: Machine) -> Iterator[Finding]:
    slow = {
        "curta_backend": config.curta_backend == "numpy",
        "curta_tuning": config.curta_tuning is not DEFAULT,
        "curta_dump": bool(os.environ.get("CURTA_DUMP")),
        **{name: bool(getattr(config, name)) for name in _CHECKING},
    }
    for name in (name for name, there in slow.items() if there):
        yield Finding(
            "slow",
            f"the setting {name} makes programs slow, for tests and debugging",
            f"unset {name.upper()}, or take it out of the program",
        )
    if os.environ.get("CURTA_CHECK"):
        yield Finding("slow", "CURTA_CHECK checks every kernel", "unset CURTA_CHECK")
    if config.curta_cpu != "host":
        yield Finding(
            "slow",
            f"code is made for {config.curta_cpu}, not for this processor",
            "unset CURTA_CPU, unless machines share the cache",
        )


_CHECKING = (
    "jax_disable_jit",
    "jax_debug_nans",
    "jax_debug_infs",
    "jax_enable_checks",
    "curta_debug_index",
    "jax_disable_most_optimizations",
)


# ---- the machine


def _vectors(machine: Machine) -> Iterator[Finding]:
    made_for = host()
    bits = 8 * made_for.vector_bytes
    if made_for.machine in ("x86_64", "amd64") and bits < 256:
        yield Finding(
            "slow",
            f"no AVX2: vectors of {bits} bits instead of 256 or 512",
            "a virtual machine may hide it: choose the host's model of processor",
        )
    else:
        yield Finding("ok", f"{machine.processor()}: vectors of {bits} bits")


def _threads(machine: Machine) -> Iterator[Finding]:
    threads, present = num_threads(), os.cpu_count() or 1
    allowed = machine.cgroup_processors()
    if allowed is not None and allowed < threads:
        fit = max(1, int(allowed))
        yield Finding(
            "slow",
            f"{threads} threads share the time of {allowed:g} processors, which a"
            " control group (container) allows: all wait while it is used up",
            f"CURTA_NUM_THREADS={fit}, or allow the container more",
        )
    elif threads < present:
        yield Finding(
            "slow",
            f"{threads} threads on a machine of {present} processors",
            "CURTA_NUM_THREADS, taskset or the container's set of processors say so",
        )
    else:
        yield Finding("ok", f"{threads} threads, one for each processor")
    load = machine.load()
    if load is not None and load > present + 0.5:
        yield Finding(
            "slow",
            f"the machine is busy: {load:g} threads for {present} processors",
            "timings will vary: compare medians of interleaved runs",
        )


def _memory(machine: Machine) -> Iterator[Finding]:
    total, allowed = machine.memory(), machine.cgroup_memory()
    if total and allowed and allowed < total:
        yield Finding(
            "ok",
            f"{sized(allowed)} of memory, allowed by a control group: beyond it the"
            " process is killed",
        )
    elif total:
        yield Finding("ok", f"{sized(total)} of memory")
    if machine.huge_pages() == "never":
        yield Finding(
            "slow",
            "no huge pages: new memory for large arrays comes in pieces of 4 KiB",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        )


def _frequency(machine: Machine) -> Iterator[Finding]:
    # Drivers that know the processor's own states choose well under this name.
    if machine.governor() == "powersave" and "pstate" not in machine.driver():
        yield Finding(
            "slow",
            "the processor stays at its lowest frequency (`powersave`)",
            "cpupower frequency-set -g performance",
        )


_CHECKS: tuple[Callable[[Machine], Iterator[Finding]], ...] = (
    _compiler,
    _results,
    _cache,
    _settings,
    _vectors,
    _threads,
    _memory,
    _frequency,
)
