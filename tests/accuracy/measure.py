"""The largest errors of a function, and those that the documentation promises."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
from tests.accuracy import functions as table, oracle
from tests.accuracy.functions import Function

import curta

PAGE = Path(__file__).parents[2] / "docs" / "design" / "vector_math.md"
DTYPES = {"f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128"}
MODES = ("compiled", "eager")


@dataclass(frozen=True)
class Worst:
    """The largest error in ULP, and where it is."""

    error: float
    at: tuple[Any, ...] = ()
    got: Any = None
    exact: Any = None

    def __str__(self) -> str:
        where = ", ".join(map(str, self.at))
        return f"{self.error:.3g} ULP at ({where}): {self.got}, {mp.nstr(self.exact)}"


def documented() -> dict[tuple[str, str, str], float]:
    """The table "Largest error": (function, mode, dtype) -> ULP."""
    found = {}
    rows = iter(PAGE.read_text().splitlines())
    header: list[str] = []
    for row in rows:
        cells = [c.strip() for c in row.strip("|").split("|")]
        if cells[0] == "function" and "eager f32" in cells:
            header = cells
            next(rows)
        elif header and row.startswith("|"):
            for column, cell in zip(header[1:], cells[1:], strict=True):
                mode, dtype = ("compiled " + column).split()[-2:]
                if cell:
                    found[cells[0], mode, DTYPES[dtype]] = float(cell)
        else:
            header = []
    return found


def evaluate(function: Function, mode: str, columns: tuple[np.ndarray, ...]) -> Any:
    """The function's values, one after another in a compiled loop or in NumPy."""
    call = function.on(curta)
    if mode == "compiled":
        call = curta.jit(call)
    with np.errstate(all="ignore"):
        return np.asarray(call(*[curta.numpy.asarray(c) for c in columns]))


def measure(function: Function, dtype: str, count: int, seed: int) -> dict[str, Worst]:
    """The worst element of a sample, for each mode."""
    rng = np.random.default_rng(seed)
    with curta.enable_x64(True), mp.workprec(oracle.PRECISION):
        columns = table.arguments(function, dtype, count, rng)
        exact = table.exact_values(function, columns)
        found = {}
        for mode in MODES:
            worst = Worst(-1.0)
            got = evaluate(function, mode, columns)
            for value, want, *at in zip(got, exact, *columns, strict=True):
                if want is None:
                    continue
                error = table.error(function, value, want, dtype)
                if error > worst.error:
                    worst = Worst(error, tuple(at), value, want)
            found[mode] = worst
    return found
