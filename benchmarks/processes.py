"""Cases that need fresh processes: imports, first calls, installed size."""

import importlib.metadata
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from benchmarks.harness import Timing

ROUNDS = 7

IMPORT = """
import time
start = time.perf_counter()
import {lib}, {lib}.numpy
print(time.perf_counter() - start)
"""

FIRST_CALL = """
import time
import numpy as np
import {lib} as lib, {lib}.numpy as jnp

def f(x):
    y = jnp.sin(x) * 2 + jnp.exp(-x * x)
    return jnp.tanh(y) / (1 + y * y) - x

x = jnp.asarray(np.linspace(-1, 1, 1000, dtype=np.float32))
start = time.perf_counter()
lib.jit(f)(x).block_until_ready()
print(time.perf_counter() - start)
"""


def run(program: str, lib: str, cache: str) -> float:
    """The seconds that the program prints."""
    environment = os.environ | {"CURTA_CACHE_DIR": cache}
    # Installed packages have their bytecode; let the sources in the tree have theirs.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [sys.executable, "-c", program.format(lib=lib)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return float(done.stdout.split()[-1])


def in_turns(program: str, cache: str | None) -> Timing:
    """Medians over fresh processes; without `cache`, each starts with an empty one.

    Programs that take long are run once.
    """
    times: dict[str, list[float]] = {"curta": [], "jax": []}
    with tempfile.TemporaryDirectory() as directory:
        # So that bytecode and files are there.
        longest = max(run(program, lib, directory) for lib in times)
    for _ in range(ROUNDS if longest < 10 else 1):
        for lib, samples in times.items():
            context = nullcontext(cache) if cache else tempfile.TemporaryDirectory()
            with context as directory:
                samples.append(run(program, lib, directory))
    return Timing(*(statistics.median(samples) for samples in times.values()))


def import_time() -> Timing:
    with tempfile.TemporaryDirectory() as cache:
        return in_turns(IMPORT, cache)


def first_call_cold() -> Timing:
    return in_turns(FIRST_CALL, None)


def first_call_warm() -> Timing:
    """JAX does not keep kernels between processes by default."""
    with tempfile.TemporaryDirectory() as cache:
        run(FIRST_CALL, "curta", cache)
        return in_turns(FIRST_CALL, cache)


def installed_size() -> Timing:
    """Bytes of each package with all it requires (given as if they were seconds)."""
    return Timing(float(closure_size("curta")), float(closure_size("jax")))


def closure_size(root: str) -> int:
    pending, seen, total = [root], set(), 0
    while pending:
        name = pending.pop()
        if name in seen:
            continue
        seen.add(name)
        total += distribution_size(name)
        pending.extend(requirements(name))
    return total


def requirements(name: str) -> Iterator[str]:
    """The requirements of a distribution on this machine, without extras."""
    for requirement in importlib.metadata.requires(name) or ():
        wanted, _, marker = requirement.partition(";")
        if "extra" in marker:
            continue
        required = canonical(re.match(r"[\w.-]+", wanted.strip()).group())
        if is_installed(required):
            yield required


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def distribution_size(name: str) -> int:
    if name == "curta":  # installed editable: count the sources
        package = Path(__file__).parents[1] / "src" / "curta"
        return sum(path.stat().st_size for path in package.rglob("*") if path.is_file())
    files = importlib.metadata.files(name) or ()
    paths = (Path(file.locate()) for file in files)
    return sum(path.stat().st_size for path in paths if path.is_file())


# name, how to measure it, the ratio aimed at
PROCESSES = [
    ("first jit call of ten ops, cold cache", first_call_cold, 0.35),
    ("first jit call of ten ops, warm cache", first_call_warm, 0.1),
    ("import time", import_time, 0.6),
    ("installed size with dependencies", installed_size, 0.6),
]
