"""Derivatives at special points against differences, in float64.

    python -m tests.stress.derivatives [NAME ...]

Formulas are put together of maxima, absolute values and `where`, whose derivatives at
0, at ties and at the ends of a support may be none of the function's. So every
elementwise function that tests/functions knows is differentiated there, in both modes
and twice, and compared where differences from the left and from the right agree.
Names in `CONVENTIONS` differ as in JAX; any other that is printed is to be judged.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tests.functions.rows import Row
from tests.functions.tables import ROWS

import curta
import curta.numpy as jnp
from curta.config import enable_x64

POINTS = (0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -0.5)
STEP = 1e-4
SECOND = 3  # its place among value, jvp, vjp, second
CONVENTIONS = frozenset(
    # Steps and kinks, where the two sides agree by chance.
    "numpy.sign lax.sign numpy.heaviside numpy.maximum numpy.minimum lax.max lax.min"
    " numpy.clip lax.clamp scipy.stats.uniform.cdf nn.sparse_sigmoid lax.stop_gradient"
    " lax.bessel_i0e scipy.special.i0e"
    # Formulas of JAX: equal operands, counts, parameters out of their range.
    " numpy.hypot scipy.special.expn scipy.special.comb scipy.special.hyp1f1"
    " scipy.stats.binom.pmf scipy.stats.binom.logpmf".split()
)


def functions() -> Iterator[tuple[str, Callable[..., Any], int]]:
    """Name, function and number of operands of what works element by element."""
    found = set()
    for row in ROWS:
        if row.path in found or "float64" not in row.dtypes or row.of is not None:
            continue
        count = _operands(row) if row.takes((3,)) else 0
        if count:
            found.add(row.path)
            yield row.path, row.function(curta), count


def _operands(row: Row) -> int:
    """How many vectors the function takes; 0 if it is not elementwise."""
    for call in row.calls_at("float64", (3,)):
        vectors = all(isinstance(x, np.ndarray) and x.shape == (3,) for x in call.args)
        if call.kwargs or not vectors or len(call.args) > 3:
            continue
        try:
            whole = row.function(curta)(*call.args)
            part = row.function(curta)(*(x[1:2] for x in call.args))
            alike = whole.shape == (3,) and whole.dtype == np.float64
            if alike and np.allclose(whole[1:2], part, equal_nan=True):
                return len(call.args)
        except (TypeError, ValueError, AttributeError):
            continue
    return 0


def derivatives(f: Callable[..., Any], points: list[Any], place: int) -> Any:
    """The function, its derivatives in both modes and the second, from a shift on."""

    def along(t: Any) -> Any:
        return f(*(x + t if i == place else x for i, x in enumerate(points)))

    one = jnp.ones_like(points[0])

    def first(t: Any) -> Any:
        return curta.jvp(along, (t,), (one,))[1]

    def all_of(t: Any) -> tuple[Any, ...]:
        second = curta.jvp(first, (t,), (one,))[1]
        return along(t), first(t), curta.vjp(along, t)[1](one)[0], second

    run = curta.jit(all_of)
    return [np.stack(run(k * STEP * one)) for k in (-2, -1, 0, 1, 2)]


def differing(values: Any, kind: int) -> Any:
    """Where a derivative is not what differences say, and what these are."""
    a, b, c, d, e = (x[int(kind == SECOND)] for x in values)
    slope = (8 * (d - b) - (e - a)) / (12 * STEP)
    left, right = (3 * c - 4 * b + a) / (2 * STEP), (4 * d - 3 * c - e) / (2 * STEP)
    scale = 1 + np.abs(slope)
    smooth = (np.abs(right - left) < 1e-3 * scale) & (scale < 1e6)
    own = values[2][kind]
    return smooth & np.isfinite(own) & (np.abs(own - slope) > 2e-3 * scale), slope


def main(names: list[str]) -> int:
    """Print differences; return the number of functions that differ."""
    found = set()
    for name, f, count in functions():
        if names and name not in names:
            continue
        grid = np.array([*itertools.product(POINTS[: 9 - 2 * count], repeat=count)]).T
        for place in range(count):
            try:
                values = derivatives(f, [*map(jnp.asarray, grid)], place)
            except (TypeError, ValueError, NotImplementedError):
                continue  # it has no such derivative
            for kind, what in enumerate(("jvp", "vjp", "second"), 1):
                wrong, slope = differing(values, kind)
                if wrong.any() and name not in CONVENTIONS:
                    i = int(np.argmax(wrong))
                    at, got = grid[:, i].tolist(), values[2][kind][i]
                    print(f"{name}: {what} by {place} at {at}: {got}, not {slope[i]}")
                    found.add(name)
    print(f"{len(found)} functions differ")
    return len(found)


if __name__ == "__main__":
    with enable_x64(True), np.errstate(all="ignore"):
        sys.exit(bool(main(sys.argv[1:])))
