"""Errors of every elementwise function against mpmath, over many arguments.

    python -m tests.stress.accuracy                    # every function, 2,000 a grid
    python -m tests.stress.accuracy --count 200 sin tan
    python -m tests.stress.accuracy --table         # rows of docs/design/vector_math.md

Prints the largest error of each function and dtype, compiled and eager, and where it
is; those above the documented one are marked, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from tests.accuracy.functions import FUNCTIONS, Function, with_dtype
from tests.accuracy.measure import DTYPES, MODES, Worst, documented, measure


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="functions; all if none is named")
    parser.add_argument("--count", type=int, default=2000, help="arguments of a kind")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--table", action="store_true", help="rows for the page")
    options = parser.parse_args()
    seed = options.seed
    if seed is None:
        seed = int(np.random.SeedSequence().entropy % 2**32)
    print(f"{options.count} arguments of each kind, seed {seed}")
    promised = documented()
    over = 0
    for function in FUNCTIONS:
        if options.names and function.name not in options.names:
            continue
        found = {d: measure(function, d, options.count, seed)
                 for d in DTYPES.values() if with_dtype(function, d)}  # fmt: skip
        if options.table:
            print(_row(function, found), flush=True)
            continue
        for dtype, modes in found.items():
            for mode, worst in modes.items():
                bound = promised.get((function.name, mode, dtype), -1.0)
                mark = "ABOVE" if worst.error > bound else "     "
                over += worst.error > bound
                name = f"{function.name:24} {dtype:10} {mode:8}"
                print(f"{name} {mark} {bound:6.3g} | {worst}", flush=True)
    print(f"{over} above what is documented")
    return int(over > 0)


def _row(function: Function, found: dict[str, dict[str, Worst]]) -> str:
    """A row of the table: the errors seen and a tenth more."""
    cells = []
    for mode in MODES:
        for dtype in DTYPES.values():
            worst = found[dtype][mode].error if dtype in found else None
            cells.append("" if worst is None else _rounded(worst))
    return f"| {function.name} | " + " | ".join(cells) + " |"


def _rounded(error: float) -> str:
    return f"{math.ceil(error * 11) / 10:.1f}" if math.isfinite(error) else "inf"


if __name__ == "__main__":
    raise SystemExit(main())
