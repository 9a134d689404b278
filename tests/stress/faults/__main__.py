"""Let memory and the cache's folder fail: right results or a clear error, no crash.

    python -m tests.stress.faults [--seed 1] [--kills 1000] [--quick] [--only memory]
        [--programs sort,fft] [--allocators python]

Memory: for every program of `programs` and every n, the n-th allocation fails, alone
or with all after it, in three allocators (`allocation`). Folder: see `folder`. `make
test` runs `--quick`, some of each kind.
"""

from __future__ import annotations

import argparse
import collections
import random
import secrets
import sys
from collections.abc import Iterator

from tests.stress.faults import folder
from tests.stress.fuzz.workers import Crash, Worker

ALLOCATORS = ("pool", "numpy", "python")
PROGRAMS = (
    *("small", "arena", "loop", "branch", "parts", "python", "trained", "tree", "sort"),
    *("fft", "solve", "svd", "random", "batch", "chained", "donated", "eager"),
)


def memory(name: str, allocator: str, quick: bool) -> Iterator[str]:
    """Failing allocations in a program, in a process that may die."""
    from tests.stress.faults import allocation

    if quick and allocator == "python" and name != "small":
        return
    if not allocation.available(allocator):
        yield f"{allocator}: not run, as only on CPython 3.11 with _testcapi"
        return
    worker = Worker(seconds=20 * 60)
    for cold in [False] if quick or allocator != "pool" else [False, True]:
        for only in (True, False):
            try:
                counts = worker(allocation.fail, name, allocator, only, cold)
            except (allocation.Wrong, Crash) as error:
                worker.stop()
                what = f"{name}, {allocator}, only={only}, cold={cold}"
                raise folder.Wrong(f"{what}: {error}") from error
            for outcome, count in counts.items():
                yield from [f"{allocator}: {outcome}"] * count
    worker.stop()


def cases(options: argparse.Namespace, seed: int) -> dict[str, Iterator[str]]:
    """All that is tried, by name."""
    rng, quick, kills = random.Random(seed), options.quick, options.kills
    few = 3 if quick else 40
    return {
        "damaged": folder.damaged(rng, few),
        "read": folder.read_at_every_byte(997 if quick else 13),
        "full": folder.full(few),
        "full disk": folder.full_disk(),
        "unwritable": folder.unwritable(),
        "deleted": folder.deleted(2 if quick else 20),
        "at once": folder.at_once(1 if quick else 10),
        "killed": folder.killed(rng, kills),
        "limited memory": folder.limited_memory(200 if quick else 4),
    } | {
        f"memory: {program}, {allocator}": memory(program, allocator, quick)
        for program in options.programs or PROGRAMS[: 3 if quick else None]
        for allocator in options.allocators or ALLOCATORS
    }


def names(text: str) -> list[str]:
    """The parts between commas."""
    return text.split(",")


def main() -> int:
    """Try everything; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="tests.stress.faults")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--quick", action="store_true")
    for several in ("only", "programs", "allocators"):
        parser.add_argument(f"--{several}", type=names, default=[], help="with commas")
    options = parser.parse_args()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    folder.prepare()
    wrong = 0
    for name, case in cases(options, seed).items():
        if options.only and name.partition(":")[0] not in options.only:
            print(f"{name}: not run", flush=True)
            continue
        counts: collections.Counter[str] = collections.Counter()
        try:
            for outcome in case:
                counts[outcome] += 1
        except folder.Wrong as error:
            wrong += 1
            print(f"FOUND {error}", flush=True)
        print(f"{name}: {dict(counts)}", flush=True)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
