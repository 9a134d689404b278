"""Load damaged and crafted files: an exception, never a crash, never foreign code.

    python -m tests.stress.files --minutes 5 [--seed 1]

Exported functions are changed byte by byte and, since a checksum of the format would
stop most such changes early, in their JSON: numbers made extreme, nodes exchanged for
others of the same file, removed, repeated, nested deeply. Files that still load are
called. Everything runs in a process with limited memory. An audit hook ends it if a
loaded function starts a process or opens a connection.

Not loaded here: entries of the kernel cache (`make stress-faults`), and what
`experimental.serialize_executable` makes, which is a pickle and says so.
"""

from __future__ import annotations

import argparse
import collections
import copy
import functools
import json
import random
import resource
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tests.stress.fuzz.workers import Crash, Worker

import curta
import curta.numpy as jnp
from curta import export, lax
from curta.export.serialization import HEADER

BATCH = 50
MOST_ELEMENTS = 1 << 20  # of the arguments that a changed function is called with
MEMORY = 6 << 30
EXTREMES = (
    *(0, -1, 1, 2, 1 << 31, -(1 << 31), 1 << 63, -(1 << 63), 1 << 70, 1e308, 0.5),
    *("", "float32", "int8", "leaf", None, True, [], {}, [[]], "\udcff", "b + 1"),
)
# What loading and calling may raise; anything else is a finding.
EXPECTED = (ValueError, TypeError, NotImplementedError, MemoryError, RuntimeError)


def programs() -> dict[str, Callable[[], bytes]]:
    """Exported functions of many kinds, by what is in them."""

    def exported(fun: Callable[..., Any], *args: Any, order: int = 0) -> bytes:
        return export.export(curta.jit(fun))(*args).serialize(vjp_order=order)

    x = jnp.arange(6.0).reshape(2, 3)
    i = jnp.array([1, 0])

    def loops(x: Any) -> Any:
        def body(c: Any, r: Any) -> Any:
            return jnp.sin(c) + r, c * r

        c, ys = lax.scan(body, x[0], x)
        n = lax.while_loop(lambda n: n < 5, lambda n: n + 2, jnp.int32(0))
        return lax.cond(n > 3, lambda c: c, lambda c: -c, c), ys

    def indexing(x: Any, i: Any) -> Any:
        y = x.at[i, 1].add(2.0)[i]
        z = lax.dynamic_slice(y, (i[0], i[1]), (1, 2))
        return jnp.pad(y, 1), jnp.sort(y), z, jnp.concatenate([x, y]).T

    def several(x: Any) -> Any:
        key = curta.random.key(3)
        table = jnp.asarray(np.arange(50.0, dtype=np.float32))
        return {"d": (x @ x.T, curta.random.normal(key, (2,))), "t": table[:3] + x[0]}

    def algebra(x: Any) -> Any:
        a = x @ x.T + 3 * jnp.eye(2)
        return jnp.linalg.inv(a), jnp.fft.fft(x), jnp.linalg.svd(a)[1], jnp.cumsum(x)

    sizes = curta.ShapeDtypeStruct(export.symbolic_shape("b, 2*k"), jnp.float32)
    return {
        "loops": lambda: exported(loops, x, order=1),
        "indexing": lambda: exported(indexing, x, i),
        "several": lambda: exported(several, x),
        "algebra": lambda: exported(algebra, x),
        "symbolic": lambda: exported(lambda v: v.sum(0) + v.shape[0], sizes),
    }


def _nodes(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(tree, dict):
        for k in tree:
            yield from _nodes(tree[k], (*path, k))
    elif isinstance(tree, list):
        for k, x in enumerate(tree):
            yield from _nodes(x, (*path, k))


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for k in path:
        tree = tree[k]
    return tree


def change_json(rng: random.Random, blob: bytes) -> bytes:
    """The same file with some nodes of its JSON changed."""
    magic, version, length = HEADER.unpack(blob[: HEADER.size])
    body = blob[HEADER.size :]
    tables = json.loads(body[:length])
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        paths = [p for p in _nodes(tables) if p]
        path = rng.choice(paths)
        where, key = _at(tables, path[:-1]), path[-1]
        how = rng.randrange(6)
        if how == 0:
            where[key] = copy.deepcopy(rng.choice(EXTREMES))
        elif how == 1:
            where[key] = copy.deepcopy(_at(tables, rng.choice(paths)))
        elif how == 2:
            del where[key]
        elif how == 3 and isinstance(where, list):
            where.insert(key, copy.deepcopy(where[key]))
        elif how == 4 and isinstance(where[key], int):
            where[key] += rng.choice([-1, 1, 7])
        else:
            for _ in range(rng.choice([1, 3, 2000])):
                where[key] = [where[key]]
                if rng.random() < 0.01:
                    break
    try:
        text = json.dumps(tables).encode()
    except RecursionError:
        return blob
    return HEADER.pack(magic, version, len(text)) + text + body[length:]


def change_bytes(rng: random.Random, blob: bytes) -> bytes:
    """The same file with bytes changed, cut out, put in, or cut off."""
    data = bytearray(blob)
    for _ in range(rng.choice([1, 1, 3, 20])):
        at = rng.randrange(len(data)) if data else 0
        how = rng.randrange(4)
        if how == 0 and data:
            data[at] = rng.randrange(256)
        elif how == 1:
            del data[at : at + rng.choice([1, 4, 100])]
        elif how == 2:
            data[at:at] = rng.randbytes(rng.choice([1, 8, 64]))
        elif rng.random() < 0.2:
            del data[at:]
    return bytes(data)


_state: dict[str, Any] = {}
# Events of Python's audit hook that say that something foreign is being run.
_FORBIDDEN = ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.")


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if _state.get("watching") and event.startswith(_FORBIDDEN):
        sys.stderr.write(f"a loaded file caused {event}{args}\n")
        raise SystemExit(3)


@functools.cache
def blobs() -> dict[str, bytes]:
    """The files that are changed."""
    return {name: bytes(make()) for name, make in programs().items()}


@functools.cache
def prepare() -> None:
    """Limit the memory of this process, and look at what it does."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    blobs()
    sys.addaudithook(_watch)


def watching(now: bool) -> None:
    """Look at what the process does from now on, or no longer."""
    _state["watching"] = now


def run_batch(seed: int) -> dict[str, int]:
    """`load_batch` in a process of its own."""
    prepare()
    watching(True)
    try:
        return load_batch(seed, blobs())
    finally:
        watching(False)


def load_batch(seed: int, blobs: dict[str, bytes]) -> dict[str, int]:
    """Load, and call, `BATCH` changed files; how many went which way."""
    counts: collections.Counter[str] = collections.Counter()
    for number in range(seed * BATCH, (seed + 1) * BATCH):
        rng = random.Random(number)
        blob = blobs[rng.choice(sorted(blobs))]
        change = change_bytes if rng.random() < 0.2 else change_json
        try:
            counts[load_and_call(change(rng, blob))] += 1
        except Exception as error:
            raise AssertionError(f"file {number}: {error!r}") from error
    return dict(counts)


def load_and_call(blob: bytes) -> str:
    """The outcome of a file; raises unexpected errors."""
    try:
        found = export.deserialize(blob)
    except ValueError:
        return "refused"
    try:
        args = [_argument(a) for a in found.in_avals]
        results = found.call(*found.in_tree.unflatten(args)[0])
        for leaf in curta.tree.leaves(results):
            np.asarray(leaf)
    except EXPECTED:
        return "loaded; the call raises"
    return "loaded and called"


def _argument(aval: Any) -> Any:
    shape = tuple(n if isinstance(n, int) else 4 for n in aval.shape)
    if int(np.prod(shape, dtype=object)) > MOST_ELEMENTS:
        raise MemoryError
    return np.zeros(shape, aval.dtype)


def main() -> int:
    """Load files for the time that was given; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="tests.stress.files")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = secrets.randbits(24) if options.seed is None else options.seed
    print(f"seed {seed}, {options.minutes:g} minutes", flush=True)
    worker = Worker(CURTA_NUM_THREADS="2")
    counts: collections.Counter[str] = collections.Counter()
    found, start = 0, time.monotonic()
    while time.monotonic() - start < 60 * options.minutes:
        try:
            counts.update(worker(run_batch, seed))
        except (AssertionError, Crash) as error:
            found += 1
            print(f"FOUND in batch {seed}: {error}\n{error.__cause__}", flush=True)
        seed += 1
    worker.stop()
    print(f"{sum(counts.values())} files: {dict(counts)}; {found} findings")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
