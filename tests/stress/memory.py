"""Resident memory over many calls, and arrays of 2^31 and more elements.

    python -m tests.stress.memory [--scale 1.0] [--only calls,huge]

`calls`, `compilations` and `exceptions` repeat their work 1e6, 1e4 and 1e4 times
`scale` and say how the resident size grows after the first fifth. `huge` runs ops of
every family on arrays of 2^31 + 8 elements of one byte, one after the other, where
5 GiB are free: right results at the ends, around 2^31 and at random places, or an
error that says what is too large.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import logging
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import curta
import curta.numpy as jnp
from curta import lax
from curta.core import buffers

MIB = 1 << 20
MOST_GROWTH = 12 * MIB
HUGE = (1 << 31) + 8
NEEDED = 5 << 30


class Wrong(Exception):
    """Memory grows, or a result is not right."""


def resident() -> int:
    """The bytes of the process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def flat(name: str, times: int, work: Callable[[int], Any]) -> None:
    """Repeat some work; say how memory grows.

    Raises:
        Wrong: it grows by more than `MOST_GROWTH` after the first fifth.
    """
    start, sizes = time.monotonic(), []
    for i in range(times):
        work(i)
        if (i + 1) % max(times // 10, 1) == 0:
            gc.collect()
            sizes.append(resident())
    grown = sizes[-1] - sizes[min(1, len(sizes) - 1)]
    shown = " ".join(f"{s / MIB:.0f}" for s in sizes)
    seconds = time.monotonic() - start
    print(f"{name}: {times} in {seconds:.0f} s, MiB: {shown}", flush=True)
    if grown > MOST_GROWTH:
        raise Wrong(f"{name}: {grown / MIB:.1f} MiB more after {times} times")


def calls(scale: float) -> None:
    """Calls of what is compiled, and eager ops, of a few shapes."""
    add = curta.jit(lambda x: x + 1)
    tree = curta.jit(lambda d: {"a": d["a"] * 2, "b": (d["a"].sum(), d["b"][0])})
    arena = curta.jit(lambda x: jnp.flip(jnp.cumsum(x)).at[::2].add(1.0).sum())
    small, middle = jnp.ones(10), jnp.ones(3000)
    given = {"a": small, "b": [middle]}
    work = [
        lambda: add(small),
        lambda: tree(given),
        lambda: arena(middle),
        lambda: small + small,
        lambda: middle[5:10],
        lambda: float(small[0]),
        lambda: np.asarray(add(middle)),
        lambda: add(np.ones(10, np.float32)),
    ]
    flat("calls", int(1e6 * scale), lambda i: work[i % len(work)]())


def compilations(scale: float) -> None:
    """Programs that are all different, each traced, compiled and dropped."""

    def work(i: int) -> None:
        x = np.ones(i % 50 + 2, np.float32)
        curta.jit(lambda x: jnp.sin(x) * np.float32(i) + jnp.flip(x).sum())(x)

    enabled = curta.config.jax_enable_compilation_cache
    curta.config.update("jax_enable_compilation_cache", False)  # all are compiled
    try:
        flat("compilations", int(1e4 * scale), work)
    finally:
        curta.config.update("jax_enable_compilation_cache", enabled)


def exceptions(scale: float) -> None:
    """Errors of users: while tracing, in calls, in callbacks, for want of memory."""
    three, four = jnp.ones(3), jnp.ones(4)
    logging.disable()  # of what callbacks raise

    def fails(x: Any) -> Any:
        raise ValueError("as it is meant")

    kind = curta.ShapeDtypeStruct((3,), np.float32)
    called = curta.jit(lambda x: curta.pure_callback(fails, kind, x))
    work: list[Callable[[], Any]] = [
        lambda: curta.jit(lambda x, y: x + y)(three, four),
        lambda: curta.jit(lambda x: 1 if x[0] > 0 else 2)(three),
        lambda: three + four,
        lambda: curta.grad(lambda x: x)(three),
        lambda: called(three),
        lambda: lax.scan(lambda c, x: (c[1:], x), three, four),
        lambda: jnp.zeros((1 << 40,)),
        lambda: jnp.reshape(three, (2, 2)),
    ]

    def raising(i: int) -> None:
        try:
            work[i % len(work)]()
        except (TypeError, ValueError, RuntimeError, MemoryError):
            return
        raise Wrong(f"no error from number {i % len(work)}")

    flat("exceptions", int(1e4 * scale), raising)


# ---- large arrays


def _numbers() -> Any:
    """Elements i mod 101, computed without a wider array."""
    numbers = np.empty(HUGE, np.int8)
    numbers[:101] = range(101)
    done = 101
    while done < HUGE:
        more = min(done, HUGE - done)
        numbers[done : done + more] = numbers[:more]
        done += more
    return jnp.asarray(numbers)


def _at(i: Any) -> Any:
    return i % 101


Expected = Callable[[np.ndarray[Any, Any]], Any]


def families() -> Iterator[tuple[str, Callable[[Any], Any], Expected | int]]:
    """Name, function, and the elements at indices of the result (or the scalar)."""
    n, total = HUGE, sum(range(101)) * (HUGE // 101) + sum(range(HUGE % 101))
    yield "elementwise", lambda x: x * 2 - x + 1, lambda i: _at(i) + 1
    yield "comparison", lambda x: x > 50, lambda i: _at(i) > 50
    yield "select", lambda x: jnp.where(x > 50, x, -x), lambda i: np.where(
        _at(i) > 50, _at(i), -_at(i))  # fmt: skip
    yield "reverse", lambda x: x[::-1], lambda i: _at(n - 1 - i)
    yield "slice", lambda x: x[3:], lambda i: _at(i + 3)
    yield "strided slice", lambda x: x[1::2], lambda i: _at(2 * i + 1)
    yield "pad", lambda x: jnp.pad(x[:-9], (9, 0)), lambda i: np.where(
        i < 9, 0, _at(i - 9))  # fmt: skip
    yield "concatenate", lambda x: jnp.concatenate([x[5:], x[:5]]), lambda i: _at(
        (i + 5) % n)  # fmt: skip
    yield "transpose", lambda x: x.reshape(-1, 8).T.reshape(-1), lambda i: _at(
        i % (n // 8) * 8 + i // (n // 8))  # fmt: skip
    yield "broadcast", lambda x: jnp.broadcast_to(x[7], (n,)), lambda i: 0 * i + 7
    yield "iota", lambda x: lax.iota(np.uint8, n), lambda i: i % 256
    yield "sum", lambda x: jnp.sum(x, dtype=jnp.uint32), total % 2**32
    yield "max", jnp.max, 100
    yield "any", lambda x: jnp.any(x == 101), 0
    yield "row sums", lambda x: x.reshape(-1, 8).sum(1, dtype=np.int8)[:10], lambda i: (
        sum(_at(8 * i + k) for k in range(8)) + 128) % 256 - 128  # fmt: skip
    yield "cumulative", lambda x: lax.cummax(x), lambda i: np.minimum(i, 100)
    yield "update", lambda x: x.at[n - 3 :].set(55), lambda i: np.where(
        i >= n - 3, 55, _at(i))  # fmt: skip
    yield "dynamic slice", lambda x: lax.dynamic_slice(x, (9,), (n - 9,)), lambda i: (
        _at(i + 9))  # fmt: skip
    yield "gather", lambda x: x[jnp.array([0, 2**31 - 1, n - 1 - 2**31])], None
    yield "argmax", lambda x: jnp.argmax(x), 100
    yield "loop", lambda x: lax.fori_loop(0, 3, lambda i, x: x + 1, x), lambda i: (
        _at(i) + 3)  # fmt: skip
    yield "window", lambda x: lax.reduce_window(
        x, np.int8(-128), lax.max, (2,), (1,), "VALID"), lambda i: (
        np.maximum(_at(i), _at(i + 1)))  # fmt: skip
    yield "dot", lambda x: x.reshape(8, -1)[:, :9] @ x.reshape(8, -1)[0, :9], None
    yield "bits", lambda x: lax.bitcast_convert_type(
        x.reshape(-1, 4), np.int32)[:5], None  # fmt: skip
    yield "random", lambda x: curta.random.bits(
        curta.random.key(0), (n,), np.uint8)[-5:], None  # fmt: skip


def huge(scale: float) -> None:
    """Ops of every family on more elements than 31 bits count."""
    with open("/proc/meminfo") as file:
        lines = dict(line.split(":") for line in file)
    if int(lines["MemAvailable"].split()[0]) * 1024 < NEEDED + (1 << 30):
        print("huge: not run, too little memory is free")
        return
    rng, wrong = random.Random(1), []
    picked = [0, 1, 2**31 - 2, 2**31 - 1, 2**31, 2**31 + 1, HUGE - 1]
    picked += [rng.randrange(HUGE) for _ in range(50)]
    x = _numbers()
    for name, fun, expected in itertools.islice(families(), int(1000 * scale) or 1):
        start = time.monotonic()
        try:
            out = np.asarray(curta.jit(fun)(x))
            outcome = "right"
            if callable(expected):
                i = np.array([k for k in picked if k < out.size])
                if (out[i].astype(np.int64) != expected(i).astype(np.int64)).any():
                    outcome = "WRONG"
            elif expected is not None and int(out) != expected:
                outcome = f"WRONG: {int(out)}, not {expected}"
        except (ValueError, TypeError, OverflowError, NotImplementedError,
                MemoryError) as error:  # fmt: skip
            outcome = f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"
        out = None
        buffers.trim()
        print(f"huge, {name}: {outcome}, {time.monotonic() - start:.1f} s", flush=True)
        wrong += [name] * outcome.startswith("WRONG")
    if wrong:
        raise Wrong(f"huge: {wrong}")


CASES = {f.__name__: f for f in (calls, compilations, exceptions, huge)}


def main() -> int:
    """Run everything; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="tests.stress.memory")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", default="", help="cases by name, with commas between")
    options = parser.parse_args()
    found = 0
    for name, case in CASES.items():
        if options.only and name not in options.only.split(","):
            print(f"{name}: not run")
            continue
        try:
            case(options.scale)
        except Wrong as error:
            found += 1
            print(f"FOUND {error}", flush=True)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
