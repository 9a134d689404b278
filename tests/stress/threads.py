"""Many threads that trace, compile, call, donate and drop arrays at once.

    python -m tests.stress.threads --seconds 60 --threads 64 --seed 7

Every thread takes random actions with known results, and keeps some of the arrays to
check them again later. Prints the number of each action; the exit status is 1 if a
result is wrong, which is printed with the seed of its thread. Kernels are compiled in a
new folder of this run.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import random
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import curta
import curta.numpy as jnp
from curta import lax

KEPT = 20  # arrays that a thread keeps
LARGE = 1 << 21  # elements of an array whose call is queued


@curta.jit
def shared(x: Any, y: Any) -> Any:
    """A function that all threads call."""
    return {"sum": x + y, "fold": (x * y).sum()}


@curta.jit
def counted(n: Any) -> Any:
    """A loop of unknown length."""
    return lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1] + 2), (0, 0))


@curta.jit
def large(x: Any) -> Any:
    """A call that is not waited for."""
    return x * 2 + 1


def replaced(x: Any) -> Any:
    """A function that may write where its argument lies."""
    return x + 1


in_place = curta.jit(replaced, donate_argnums=0)
# Arrays that all threads read and donate: the elements of each are equal.
common = [jnp.zeros(n) for n in (1, 10, 100, 1000, 20_000)]


class Worker:
    """One thread: its random numbers, and the arrays that it keeps."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.kept: list[tuple[Any, Any]] = []
        self.done: collections.Counter[str] = collections.Counter()

    def numbers(self, size: int | None = None) -> Any:
        """Small integers, with which float32 is exact."""
        count = size or self.random.choice([1, 3, 10, 100, 1000])
        start = self.random.randrange(1000)
        return (np.arange(start, start + count) % 97).astype(np.float32)

    def keep(self, array: Any, right: Any) -> None:
        """Look at an array now, or later, or never."""
        if self.random.random() < 0.5:
            check(array, right)
        if self.random.random() < 0.7:
            self.kept.append((array, right))
        while len(self.kept) > KEPT:
            check(*self.kept.pop(self.random.randrange(len(self.kept))))

    # ---- actions

    def call_shared(self) -> None:
        x, y = self.numbers(), self.random.randrange(9)
        found = shared(jnp.asarray(x), np.float32(y))
        self.keep(found["sum"], x + y)
        self.keep(found["fold"], (x * y).sum())

    def compile_new(self) -> None:
        c, x = self.random.randrange(1 << 20), self.numbers()
        f = curta.jit(lambda x: jnp.where(x > 50, x, c) - 1)
        self.keep(f(x), np.where(x > 50, x, np.float32(c)) - 1)
        self.keep(f(x), np.where(x > 50, x, np.float32(c)) - 1)

    def differentiate(self) -> None:
        c, x = self.random.randrange(100), self.numbers(5)
        self.keep(curta.grad(lambda x: (c * x * x).sum())(x), 2 * c * x)
        rows = curta.vmap(lambda row: row.sum() + c)(np.stack([x, x + 1]))
        self.keep(rows, np.stack([x, x + 1]).sum(1) + c)

    def loop(self) -> None:
        n = self.random.choice([0, 1, 10, 1000, 200_000])
        self.keep(counted(n)[1], 2 * n)

    def call_large(self) -> None:
        x = self.numbers(LARGE)
        y = large(large(jnp.asarray(x)))
        if self.random.random() < 0.8:  # else it goes before it is there
            check(y, 4 * x + 3)

    def donate(self) -> None:
        x = self.numbers()
        y = jnp.asarray(x) + 0
        view = np.asarray(y) if self.random.random() < 0.5 else None
        z = in_place(y)
        if not y.is_deleted():
            raise AssertionError("a donated array is there")
        self.keep(z, x + 1)
        if view is not None:
            check(view, x)

    def donate_common(self) -> None:
        """Donate, or read, what other threads donate and read at the same time."""
        place = self.random.randrange(len(common))
        x = common[place]
        try:
            if self.random.random() < 0.5:
                common[place] = in_place(x)
            view = np.asarray(common[place])
        except RuntimeError as error:
            if "deleted" not in str(error):
                raise
            common[place] = jnp.full(x.shape, float(self.random.randrange(100)))
            return
        check(view, np.full(x.shape, view[0], np.float32))
        self.kept.append((view, view.copy()))

    def eager(self) -> None:
        x = self.numbers()
        y = jnp.asarray(x)
        self.keep((y + 1) * 2 - y, x + 2)
        self.keep(jnp.sort(-y)[:1], np.sort(-x)[:1])

    def view(self) -> None:
        x = self.numbers()
        self.keep(np.asarray(jnp.asarray(x) + 3), x + 3)

    def wide(self) -> None:
        with curta.enable_x64(True):
            found = jnp.arange(3) + 0.5
            if found.dtype != np.float64:
                raise AssertionError(f"{found.dtype} under enable_x64")
        if (jnp.arange(3) + 0.5).dtype != np.float32:
            raise AssertionError("64 bits without enable_x64")

    def mesh(self) -> None:
        name = f"axis{time.monotonic_ns() >> 22}"
        one, other = (curta.sharding.AbstractMesh((2,), name) for _ in "12")
        if one is not other or curta.P(name) is not curta.P(name):
            raise AssertionError("equal meshes or specs are two objects")

    def forget(self) -> None:
        if self.random.random() < 0.05:
            curta.clear_caches()
        self.kept.clear()


ACTIONS: dict[Callable[[Worker], None], int] = {
    Worker.call_shared: 20,
    Worker.compile_new: 2,
    Worker.differentiate: 2,
    Worker.loop: 5,
    Worker.call_large: 1,
    Worker.donate: 10,
    Worker.donate_common: 10,
    Worker.eager: 10,
    Worker.view: 10,
    Worker.wide: 3,
    Worker.mesh: 3,
    Worker.forget: 1,
}


def check(array: Any, right: Any) -> None:
    """Compare exactly."""
    found = np.asarray(array)
    if not np.array_equal(found, right):
        wrong = np.flatnonzero(np.ravel(found != right))[:5]
        raise AssertionError(f"{found!r} is not {right!r}, at {wrong} and so on")


def work(worker: Worker, until: float, wrong: list[str]) -> None:
    """Take actions until the time is over or something was wrong."""
    actions, weights = list(ACTIONS), list(ACTIONS.values())
    while time.monotonic() < until and not wrong:
        [action] = worker.random.choices(actions, weights)
        try:
            action(worker)
        except Exception:
            where = f"seed {worker.seed}, {action.__name__}"
            wrong.append(f"{where}:\n{traceback.format_exc()}")
        worker.done[action.__name__] += 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=64)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given = parser.parse_args()
    print(f"{given.threads} threads for {given.seconds:g} s, seed {given.seed}")
    workers = [Worker(given.seed * 1000 + i) for i in range(given.threads)]
    wrong: list[str] = []
    until = time.monotonic() + given.seconds
    threads = [
        threading.Thread(target=work, args=(w, until, wrong), daemon=True)
        for w in workers
    ]
    folder = tempfile.TemporaryDirectory(prefix="curta-stress-")
    curta.config.update("jax_compilation_cache_dir", folder.name)
    # Where threads wait for each other for ever, show where.
    faulthandler.dump_traceback_later(2 * given.seconds + 300, exit=True)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    faulthandler.cancel_dump_traceback_later()
    folder.cleanup()
    done = sum((w.done for w in workers), collections.Counter())
    print(", ".join(f"{n} {name}" for name, n in done.most_common()))
    print(*wrong, sep="\n")
    print(f"{done.total()} actions, {len(wrong)} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
