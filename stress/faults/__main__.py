"""Let memory and the cache's folder fail: right results or a clear error, no crash.

    python -m stress.faults [--seed 1] [--kills 1000] [--quick] [--only folder]

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

from stress.faults import folder
from stress.fuzz.workers import Crash, Worker

PROGRAMS = (
    *("small", "arena", "loop", "branch", "parts", "python", "trained", "tree", "sort"),
    *("fft", "solve", "svd", "random", "batch", "chained", "donated", "eager"),
)


def memory(quick: bool) -> Iterator[str]:
    """Failing allocations, each program and allocator in a process that may die."""
    from stress.faults import allocation  # noqa: PLC0415  it starts threads

    worker = Worker()
    for name in PROGRAMS[:3] if quick else PROGRAMS:
        for allocator in allocation.ALLOCATORS:
            if quick and allocator == "python" and name != "small":
                continue
            if not allocation.available(allocator):
                yield f"{allocator}: not run, this Python has no _testcapi"
                continue
            for cold in [False] if quick or allocator != "pool" else [False, True]:
                for only in (True, False):
                    what = f"{name}, {allocator}, only={only}, cold={cold}"
                    try:
                        counts = worker(allocation.fail, name, allocator, only, cold)
                    except (allocation.Wrong, Crash) as error:
                        raise folder.Wrong(f"{what}: {error}") from error
                    for outcome, count in counts.items():
                        yield from [f"{allocator}: {outcome}"] * count
    worker.stop()


def cases(rng: random.Random, kills: int, quick: bool) -> dict[str, Iterator[str]]:
    """All that is tried, by name."""
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
        "memory": memory(quick),
    }


def main() -> int:
    """Try everything; 1 if something was found."""
    parser = argparse.ArgumentParser(prog="stress.faults")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", help="cases by name, with commas between")
    options = parser.parse_args()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    folder.prepare()
    wrong = 0
    for name, case in cases(random.Random(seed), options.kills, options.quick).items():
        if options.only and name not in options.only.split(","):
            print(f"{name}: not run")
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
