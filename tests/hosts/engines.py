"""Collectives that every engine must get right, as one host calls them.

`check(engine)` runs on each host. Expected values are computed by each host from the
arrays of all, which it can make itself: they depend on the number of the host only.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from curta.hosts.folding import FOLDS, fold
from curta.hosts.group import HostGroup

NUMBERS = [np.dtype(c) for c in "bBhHiIlLefdFD"]
NARROW = [
    np.dtype(getattr(ml_dtypes, name))
    for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4")
]
WORDS = [np.dtype(bool), np.dtype("V12")]  # keys of three words are bytes


def array(host: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """The input of host `host`."""
    random = np.random.default_rng([host, *shape, dtype.num])
    if dtype.kind == "V" and dtype.num < 256:
        return random.integers(0, 256, (*shape, 12), np.uint8).view(dtype)[..., 0]
    values = np.asarray(random.integers(0, 7, shape))
    return values.astype(np.int8).astype(dtype)


def same(found: np.ndarray, wanted: np.ndarray) -> None:
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    assert found.flags.c_contiguous
    assert found.tobytes() == np.asarray(wanted, order="C").tobytes()


def groups(count: int) -> list[HostGroup]:
    """All hosts in an order of their own, and rows and columns where there are any."""
    found = [HostGroup(("x",), (count,), tuple(reversed(range(count))), ("x",))]
    if count % 2 == 0 and count > 2:
        both = HostGroup(("x", "y"), (2, count // 2), tuple(range(count)), ("x",))
        found += [both, both.along(("y",)), both.along(("y", "x"))]
    return found


def check(engine, dtypes=(*NUMBERS, *NARROW, *WORDS)) -> int:
    """Compare all collectives of an engine with what they mean; how many there were."""
    done = 0
    for group in groups(engine.count):
        for dtype in dtypes:
            check_moves(engine, group, dtype)
            done += 4
            if dtype in WORDS[1:]:
                continue
            for kind in FOLDS:
                if check_folds(engine, group, kind, dtype):
                    done += 2
    return done


def check_moves(engine, group: HostGroup, dtype: np.dtype) -> None:
    members = group.members(engine.index)
    n, place = group.size, group.index(engine.index)
    shape = (2 * n, 3, n)
    all_ = [array(m, shape, dtype) for m in members]
    mine = all_[place]
    for dim in range(3):
        same(engine.all_gather(group, mine, dim), np.concatenate(all_, dim))
    for split, join in ((0, 1), (2, 0), (0, 0), (2, 1)):
        parts = [np.split(x, n, split)[place] for x in all_]
        same(engine.all_to_all(group, mine, split, join), np.concatenate(parts, join))
    ring = tuple((i, (i + 1) % n) for i in range(n))
    same(engine.permute(group, ring, mine), all_[place - 1])
    numbers = [array(m, (), dtype) for m in members]
    same(engine.permute(group, ring, numbers[place]), numbers[place - 1])
    one = engine.permute(group, ((0, n - 1),), mine)
    same(one, all_[0] if place == n - 1 else np.zeros_like(mine))


def check_folds(engine, group: HostGroup, kind: str, dtype: np.dtype) -> bool:
    members = group.members(engine.index)
    n, place = group.size, group.index(engine.index)
    all_ = [array(m, (3, 2 * n), dtype) for m in members]
    try:
        wanted = fold(kind, all_)
    except TypeError:  # `and` of floats
        return False
    same(engine.all_reduce(group, kind, all_[place]), wanted)
    part = engine.reduce_scatter(group, kind, all_[place], 1)
    same(part, np.split(wanted, n, 1)[place])
    small = [array(m, (), dtype) for m in members]
    assert small[0].shape == () and isinstance(small[0], np.ndarray)
    same(engine.all_reduce(group, kind, small[place]), fold(kind, small))
    empty = np.zeros((0, n), dtype)
    same(engine.all_reduce(group, kind, empty), empty)
    return True
