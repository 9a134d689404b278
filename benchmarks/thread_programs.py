"""Times programs in this process: `python thread_programs.py LIBRARY CORES CALLERS`.

Prints, by program, the seconds of a call (of the callers together) and sums of what
it answers.
"""

import importlib
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

SAMPLES = 5
SAMPLE_SECONDS = 0.03


def programs(lib: Any) -> dict[str, tuple[Callable[..., Any], ...]]:
    """By name: a function of `lib`, and its arguments."""
    jnp, nn = lib.numpy, lib.nn
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> Any:
        return jnp.asarray(rng.normal(size=shape).astype(np.float32))

    def loss(weights: list[Any], x: Any) -> Any:
        for w in weights:
            x = jnp.tanh(x @ w)
        return (x**2).mean()

    def step(weights: list[Any], x: Any) -> list[Any]:
        gradients = lib.grad(loss)(weights, x)
        return [w - 0.1 * g for w, g in zip(weights, gradients)]

    million, square = normal(10**6), normal(512, 512)
    places = jnp.asarray(rng.integers(0, 1000, 10**6))
    weights = [normal(256, 256) / 16 for _ in range(4)]
    return {
        "map": (lambda x: jnp.tanh(x) * x + 1, million),
        "sum": (lambda x: x.sum(1), normal(2000, 1000)),
        "softmax": (nn.softmax, normal(1000, 1000)),
        "product, 512": (jnp.matmul, square, square),
        "sort": (jnp.sort, million),
        "scatter": (lambda x, at: jnp.zeros(1000).at[at].add(x), million, places),
        "training step": (step, weights, normal(512, 256)),
    }


def seconds(call: Callable[[], None], callers: int, count: int) -> float:
    """Of a call, where each of `callers` threads calls `count` times."""

    def calls() -> None:
        for _ in range(count):
            call()

    threads = [threading.Thread(target=calls) for _ in range(callers)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.perf_counter() - start) / count / callers


def main(name: str, cores: int, callers: int) -> None:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    for submodule in ("numpy", "nn"):
        importlib.import_module(f"{name}.{submodule}")
    lib = sys.modules[name]
    found = {}
    for title, (f, *args) in programs(lib).items():
        f = lib.jit(f)
        sums = [float(abs(x).sum()) for x in lib.tree.leaves(f(*args))]

        def call(f: Callable[..., Any] = f, args: list[Any] = args) -> None:
            lib.block_until_ready(f(*args))

        count = 1 + int(SAMPLE_SECONDS / seconds(call, callers, 2))
        samples = [seconds(call, callers, count) for _ in range(SAMPLES)]
        found[title] = statistics.median(samples), sums
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
