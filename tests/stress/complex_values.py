"""Errors of complex functions against mpmath, over the whole plane.

    python -m tests.stress.complex_values             # every function
    python -m tests.stress.complex_values sqrt power  # those with such names

Arguments have parts from 5e-324 to 1.7e308. Each function runs eagerly and compiled.
Prints the functions with an error above the goal, 1e-13 in complex128 and 1e-6 in
complex64 relative to the size of the number (`tests/accuracy/complex_table.py`); the
exit status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

import numpy as np
from tests.accuracy.complex_table import (
    FUNCTIONS,
    Complex,
    error,
    exact_and_slack,
    grid,
)
from tests.accuracy.sweep import GOAL

import curta
import curta.lax
import curta.numpy

DTYPES = {"complex128": "float64", "complex64": "float32"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of functions' names")
    parser.add_argument("--most", type=int, default=200, help="arguments of each")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    above = 0
    for function in FUNCTIONS:
        if options.names and not any(n in function.path for n in options.names):
            continue
        for dtype, part in DTYPES.items():
            args = arguments(function, dtype, options.most, options.seed)
            for mode, (worst, where) in measure(function, args, dtype).items():
                mark = "ABOVE" if worst > GOAL[part] else ""
                above += worst > GOAL[part]
                print(f"{function.path:18} {dtype:10} {mode:5} {worst:8.2g} {mark:5}"
                      f" {where if mark else ''}", flush=True)  # fmt: skip
    print(f"{above} above the goal")
    return int(above > 0)


def arguments(function: Complex, dtype: str, most: int, seed: int) -> list[Any]:
    """So many arguments, or pairs of them, drawn from the grid."""
    plane = grid(np.dtype(dtype))
    rng = np.random.default_rng(seed)
    count = min(most, len(plane)) if function.arity == 1 else most
    if function.arity == 1:
        return [rng.choice(plane, count, replace=False)]
    return [rng.choice(plane, count) for _ in range(function.arity)]


def measure(
    function: Complex, args: list[Any], dtype: str
) -> dict[str, tuple[float, str]]:
    """The largest error in each mode, and where it is."""
    modes = {"eager": evaluate(function, args, False)}
    modes["jit"] = evaluate(function, args, True)
    found = dict.fromkeys(modes, (0.0, ""))
    for i, given in enumerate(zip(*args, strict=True)):
        known = exact_and_slack(function, given, np.dtype(dtype))
        if known is None:
            continue
        for mode, values in modes.items():
            miss = error(values[i], *known, np.dtype(dtype))
            if miss > found[mode][0]:
                where = f"{given}: {values[i]}, exact {complex(known[0])}"
                found[mode] = miss, where
    return found


def evaluate(function: Complex, args: list[Any], compiled: bool) -> Any:
    """The values of Curta's function, of arguments in columns."""
    path, _, power = function.path.partition(":")
    call = Complex(path, function.exact).on(curta)
    if power:
        call = lambda z, f=call: f(z, int(power))  # noqa: E731
    with curta.enable_x64(True):
        given = map(curta.numpy.asarray, args)
        return np.asarray((curta.jit(call) if compiled else call)(*given))


if __name__ == "__main__":
    sys.exit(main())
