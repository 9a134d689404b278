"""`curta info`: versions, the processor, threads, devices and the kernel cache."""

from __future__ import annotations

import argparse
import platform
import sys
from typing import Any

import numpy as np

from curta._settings import api_version
from curta.api.readable import sized
from curta.command_line.machine import Machine
from curta.compiler import llvm_binding as binding
from curta.compiler.host_target import host
from curta.compiler.machine_code import cache
from curta.compiler.support.threads import num_threads
from curta.runtime.devices import devices
from curta.version import __version__


def add_to(commands: Any) -> None:
    """Add the command to a parser."""
    parser = commands.add_parser(
        "info", help="versions, processor, threads, devices, kernel cache"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what a report of a bug should tell."""
    for name, text in facts(Machine()).items():
        print(f"{name:<10}{text}")
    return 0


def facts(machine: Machine) -> dict[str, str]:
    """What is known, by a word for each."""
    made_for = host()
    known = {"fma": made_for.has_fma, "f16c": made_for.has_f16}
    has = [name for name, there in known.items() if there]
    vectors = f"vectors of {8 * made_for.vector_bytes} bits"
    libraries = f"numpy {np.__version__}, llvmlite {binding.version()}"
    return {
        "version": f"{__version__}, interface of JAX {api_version.release()}",
        "python": f"{platform.python_version()} at {sys.executable}",
        "libraries": libraries,
        "platform": platform.platform(),
        "processor": f"{machine.processor()} ({made_for.machine})",
        "features": ", ".join([vectors, *has]),
        "threads": str(num_threads()),
        "devices": _devices(),
        "cache": _cache(),
    }


def _devices() -> str:
    try:
        return ", ".join(map(str, devices()))
    except RuntimeError as error:  # a platform that was asked for and is not there
        return f"none: {error}"


def _cache() -> str:
    folder = cache.usable_folder()
    if folder is None:
        return "off, or its folder cannot be used (curta doctor)"
    kept = list(cache.entries(folder))
    return f"{folder}: {len(kept)} files, {sized(sum(e.size for e in kept))}"
