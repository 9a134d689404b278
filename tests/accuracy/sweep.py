"""A sweep of special functions and distributions against mpmath, region by region.

An error counts relative to the value; where the value is ill-conditioned in an argument
(which changes it by more when it is rounded), four units in the last place of the
arguments are allowed, and errors are scaled down by that. So one bound, `GOAL`, is for
all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath as mp
import numpy as np

DIGITS = 35
GOAL = {"float64": 1e-13, "float32": 1e-6}
ULPS = 4


@dataclass(frozen=True)
class Swept:
    """A function, by its path below `scipy`, and its regions.

    `regions` have a list of numbers for each argument; all combinations are tried.
    """

    path: str
    exact: Callable[..., Any]
    regions: dict[str, tuple[Sequence[float], ...]]
    inexact_from: int = 0  # arguments before are whole numbers, and not rounded
    output: int | None = None  # which of several results is meant
    module: str = "scipy"

    def on(self, root: Any) -> Callable[..., Any]:
        """The function of a package like `curta` or `jax`, or of SciPy itself."""
        parts = self.path.split(".")
        if root.__name__ == "scipy" and not self.module:
            return getattr(np, parts[-1])  # type: ignore[no-any-return]
        if root.__name__ != "scipy" and self.module:
            parts = [self.module, *parts]
        for part in parts:
            root = getattr(root, part)
        return root  # type: ignore[no-any-return]


@dataclass
class Point:
    """Arguments, the exact value, and how much of it a rounding of these changes."""

    args: tuple[float, ...]
    exact: Any
    slack: Any  # of the arguments, by one unit in the last place each


def rounded(x: float, dtype: Any) -> float:
    with np.errstate(all="ignore"):
        return float(np.asarray(x).astype(dtype))


def points(
    function: Swept, region: str, dtype: str, most_points: int
) -> Iterator[Point]:
    """The exact values at a region's combinations of arguments, or some of many."""
    eps = float(np.finfo(dtype).eps)
    tiny, most = float(np.finfo(dtype).tiny), float(np.finfo(dtype).max)
    seen = set()
    combinations = [*itertools.product(*function.regions[region])]
    step = max(1, len(combinations) // most_points)
    for raw in combinations[::step]:
        args = tuple(rounded(x, dtype) for x in raw)
        fits = all(tiny / 1e8 <= abs(x) <= most for x in args if x)
        lost = any(x and not y for x, y in zip(raw, args, strict=True))
        if args in seen or lost or not fits:
            continue
        seen.add(args)
        with mp.workdps(DIGITS):
            value = _value(function, [mp.mpf(x) for x in args])
            if value is None:
                continue
            slack = mp.mpf(0)
            for i in range(function.inexact_from, len(args)):
                moved = [mp.mpf(x) for x in args]
                moved[i] *= 1 + mp.mpf(eps) / 1024
                other = _value(function, moved)
                if other is None:
                    moved[i] = mp.mpf(args[i]) * (1 - mp.mpf(eps) / 1024)
                    other = _value(function, moved)
                if other is not None and mp.isfinite(other) and mp.isfinite(value):
                    slack += 1024 * abs(other - value)
            yield Point(args, value, slack)


def _value(function: Swept, args: Sequence[Any]) -> Any:
    try:
        value = function.exact(*args)
    except (ValueError, ZeroDivisionError, OverflowError, mp.libmp.NoConvergence):
        return None
    if isinstance(value, mp.mpc):
        return None
    return mp.mpf(value)


def error(got: float, point: Point, dtype: str) -> float:
    """The relative error, scaled down where the arguments' rounding counts."""
    info = np.finfo(dtype)
    exact, most = point.exact, mp.mpf(float(info.max))
    if mp.isnan(exact) or np.isnan(got):
        return 0.0 if mp.isnan(exact) and np.isnan(got) else float("inf")
    if mp.isinf(exact) or np.isinf(got):
        slack = ULPS * point.slack + abs(exact) * GOAL[dtype]
        over = mp.isinf(exact) or abs(exact) + slack >= most
        return 0.0 if over and (got > 0) == (exact > 0) else float("inf")
    miss = abs(mp.mpf(float(got)) - exact)
    if miss <= 2 * mp.mpf(float(info.smallest_subnormal)):
        return 0.0
    if abs(exact) > most:
        return 0.0 if abs(got) > 0.999 * float(info.max) else float("inf")
    floor = max(abs(exact), mp.mpf(float(info.tiny)))
    relative = miss / floor
    allowed = ULPS * point.slack / floor / GOAL[dtype]
    return float(relative / max(1, allowed))
