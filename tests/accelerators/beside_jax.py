"""The cost of a call on a plugin, compared with JAX on the same plugin.

    python -m tests.accelerators.beside_jax           # all rows
    python -m tests.accelerators.beside_jax -k jit    # those with this word

The plugin is tier C's shim. Both call it in turns in one process, a round of calls
each; the times are those of the processor in all threads, medians of the rounds. Arrays
that go to the host are copied there, which JAX leaves out on CPUs.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.accelerators import shim

DEVICES = 8


def _plugin(folder: Path) -> Path:
    """The shim with a table of functions that JAX takes."""
    target = folder / "for_jax.so"
    include = f"-I{shim.tensorflow() / 'include'}"
    options = ["-std=c++17", "-O1", "-fPIC", "-shared", "-w", include]
    options.append(f'-DSHIM="{shim.build()}"')
    source = str(shim.SOURCE / "for_jax.cc")
    command = [shim.compiler(), *options, source, "-o", str(target), "-ldl"]
    subprocess.run(command, check=True)
    described = folder / "shim.json"
    said: dict[str, Any] = {"library_path": str(target)}
    said["create_options"] = {"cpu_device_count": DEVICES}
    described.write_text(json.dumps(said))
    return described


def rows(lib: Any) -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Functions and arguments, by name; `lib` is JAX or Curta."""
    jnp, lax = lib.numpy, lib.lax
    x, y = jnp.arange(10.0), jnp.ones(10)
    many = [jnp.full(10, float(i)) for i in range(100)]
    placed = lib.device_put(x, lib.devices()[0])
    result: dict[str, Any] = {
        "jit(x + 1)": (lib.jit(lambda x: x + 1), (x,)),
        "jit(x + 1), placed": (lib.jit(lambda x: x + 1), (placed,)),
        "jit(x + y)": (lib.jit(lambda x, y: x + y), (x, y)),
        "jit, 10 arguments": (lib.jit(lambda *xs: [x + 1 for x in xs]), many[:10]),
        "jit, 100 arguments": (lib.jit(lambda *xs: [x + 1 for x in xs]), many),
        "jit, 100 arguments, one result": (lib.jit(lambda *xs: sum(xs)), many),
        "jit, dict of 10": (
            lib.jit(lambda d: {k: v + 1 for k, v in d.items()}),
            ({f"k{i}": v for i, v in enumerate(many[:10])},),
        ),
        "x + y": (lambda x, y: x + y, (x, y)),
        "x + 1": (lambda x: x + 1, (x,)),
        "x + 1, placed": (lambda x: x + 1, (placed,)),
        "x * 2.0": (lambda x: x * 2.0, (x,)),
        "-x": (lambda x: -x, (x,)),
        "x > y": (lambda x, y: x > y, (x, y)),
        "lax.sin(x)": (lax.sin, (x,)),
        "lax.add(x, y)": (lax.add, (x, y)),
        "jnp.sin(x)": (jnp.sin, (x,)),
        "jnp.sum(x)": (jnp.sum, (x,)),
        "x.sum()": (lambda x: x.sum(), (x,)),
        "x.reshape(2, 5)": (lambda x: x.reshape(2, 5), (x,)),
        "jnp.reshape(x, (2, 5))": (lambda x: jnp.reshape(x, (2, 5)), (x,)),
        "x.astype(int32)": (lambda x: x.astype(jnp.int32), (x,)),
        "x[2:5]": (lambda x: x[2:5], (x,)),
        "x[3]": (lambda x: x[3], (x,)),
        "jnp.where(x > 3, x, y)": (lambda x, y: jnp.where(x > 3, x, y), (x, y)),
        "x.T": (lambda x: x.T, (x.reshape(2, 5),)),
        "x @ y": (lambda x, y: x @ y, (x, y)),
        "device_put(NumPy)": (lib.device_put, (np.arange(10, dtype=np.float32),)),
        "np.asarray(x + y)": (lambda x, y: np.asarray(x + y), (x, y)),
    }
    for count in 2, DEVICES:
        mesh = lib.make_mesh(
            (count,),
            ("x",),
            (lib.sharding.AxisType.Auto,),
            devices=lib.devices()[:count],
        )
        sharding = lib.NamedSharding(mesh, lib.P("x"))
        xs = lib.device_put(np.arange(16, dtype=np.float32), sharding)
        result[f"jit(x + 1), {count} devices"] = (lib.jit(lambda x: x + 1), (xs,))
        result[f"x + x, {count} devices"] = (lambda x: x + x, (xs,))
    return result


def _round(
    clock: Callable[[], float], calls: int, lib: Any, fun: Callable[..., Any], args: Any
) -> float:
    """Seconds of the processor for a call."""
    start = clock()
    for _ in range(calls):
        out = fun(*args)
    lib.block_until_ready(out)
    return (clock() - start) / calls


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-k", default="", help="rows with this word")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=50, help="in a round")
    parser.add_argument("--caller", action="store_true", help="its thread's time alone")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["PJRT_NAMES_AND_LIBRARY_PATHS"] = f"shim:{_plugin(folder)}"
        os.environ["JAX_PLATFORMS"] = "shim,cpu"
        os.environ["CURTA_CACHE_DIR"] = str(folder / "cache")
        _compare(args)


def _compare(args: argparse.Namespace) -> None:
    # Variables that they read when they are imported name the plugin.
    curta, jax = map(importlib.import_module, ("curta", "jax"))
    jax.numpy.ones(1)
    ours, theirs = rows(curta), rows(jax)
    clock = time.thread_time if args.caller else time.process_time
    how, slower = (clock, args.calls), []
    print(f"{'a call, µs of the processor':34} {'Curta':>8} {'JAX':>8} {'ratio':>6}")
    for name in ours:
        if args.k not in name:
            continue
        pair = [(curta, *ours[name]), (jax, *theirs[name])]
        for each in pair:
            _round(*how, *each)
        gc.collect()
        gc.disable()
        times = [[_round(*how, *each) for each in pair] for _ in range(args.rounds)]
        gc.enable()
        mine, other = (1e6 * statistics.median(t) for t in zip(*times))
        print(f"{name:34} {mine:8.2f} {other:8.2f} {mine / other:6.2f}", flush=True)
        if mine > other:
            slower.append(name)
    print(f"slower than JAX: {', '.join(slower) or 'none'}")


if __name__ == "__main__":
    main()
