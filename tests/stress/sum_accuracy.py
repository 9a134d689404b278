"""Relative errors of long float32 sums of positive numbers, against float64.

    python -m tests.stress.sum_accuracy                 # 1,000 to 1,000,000 numbers
    python -m tests.stress.sum_accuracy --most 100000000
    python -m tests.stress.sum_accuracy --table        # rows of docs/design/numerics.md

Fourteen ways to add and five kinds of numbers. Prints the largest error of each way and
size; the exit status is 1 if one is above 1e-6.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import curta
import curta.numpy as jnp

Array = np.ndarray[Any, Any]
BOUND = 1e-6

KINDS: dict[str, Callable[[Any, int], Any]] = {
    "100.1": lambda r, n: np.full(n, 100.1),
    "uniform": lambda r, n: r.random(n),
    "exponential": lambda r, n: r.exponential(size=n),
    "lognormal": lambda r, n: r.lognormal(size=n),
    "near 1000": lambda r, n: 1000 + r.random(n),
}


def _rows(x: Any) -> Any:
    """As a matrix of eight rows."""
    return x[: len(x) // 8 * 8].reshape(8, -1)


def _columns(x: Any) -> Any:
    """As a matrix of eight columns."""
    return x[: len(x) // 8 * 8].reshape(-1, 8)


def _wide(x: Any) -> Any:
    """As a matrix of a hundred columns."""
    return x[: len(x) // 100 * 100].reshape(-1, 100)


def _weights(x: Any) -> Any:
    """1, 2, 1, 2, ...: products with them are exact."""
    return (1 + np.arange(len(x)) % 2).astype(x.dtype)


def _places(x: Any, xp: Any) -> Any:
    index = np.arange(len(x)) % 5
    if xp is np:
        return np.bincount(index, x, 5)
    return jnp.zeros(5, x.dtype).at[index].add(x)


def _gradient(x: Any, xp: Any) -> Any:
    if xp is np:
        return x.sum()
    return curta.grad(lambda w: (w * x).sum())(jnp.float32(1))


WAYS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, xp: x.sum(),
    "mean": lambda x, xp: x.mean(),
    "sum of rows": lambda x, xp: _rows(x).sum(1),
    "sum of columns": lambda x, xp: _columns(x).sum(0),
    "sum of 100 columns": lambda x, xp: _wide(x).sum(0),
    "norm": lambda x, xp: xp.sqrt((x * x).sum()),
    "std": lambda x, xp: (x * _weights(x)).std(),
    "dot": lambda x, xp: xp.dot(x, x),
    "matrix @ vector": lambda x, xp: _rows(x) @ _rows(x)[0],
    "vector @ matrix": lambda x, xp: _wide(x)[:, 0] @ _wide(x),
    "matrix @ matrix": lambda x, xp: _rows(x) @ _rows(x).T,
    "cumsum": lambda x, xp: xp.cumsum(x),
    "scatter-add": _places,
    "gradient": _gradient,
}


def error(way: str, x: Array) -> float:
    """The largest relative error of a way to add float32 numbers."""
    function = WAYS[way]
    got = np.asarray(curta.jit(lambda x: function(x, jnp))(x)).astype(np.float64)
    want = np.asarray(function(x.astype(np.float64), np))
    return float(np.max(np.abs(got - want) / np.abs(want)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--table", action="store_true", help="rows for the page")
    parser.add_argument("ways", nargs="*", help="all if none is named")
    options = parser.parse_args()
    sizes = [s for s in (1000, 10**5, 10**6, 3 * 10**7, 10**8) if s <= options.most]
    ways, r = options.ways or [*WAYS], np.random.default_rng(1)
    found: dict[tuple[str, int], tuple[float, str]] = {}
    for n, (kind, make) in itertools.product(sizes, KINDS.items()):
        x = make(r, n).astype(np.float32)
        for way in ways:
            old = found.get((way, n), (-1.0, ""))
            found[way, n] = max(old, (error(way, x), kind))
    for way in ways:
        cells = [
            f"{worst:.1e}" if options.table else f"{worst:.1e} ({kind})"
            for worst, kind in (found[way, n] for n in sizes)
        ]
        separator = " | " if options.table else "  "
        row = f"{way:20}{separator}" + separator.join(cells)
        print(f"| {row} |" if options.table else row, flush=True)
    worst = max(x for x, _ in found.values())
    print(f"largest: {worst:.2g}")
    return int(worst > BOUND or math.isnan(worst))


if __name__ == "__main__":
    sys.exit(main())
