"""Between which values an integer lies, by the comparisons that select it.

Of `where(i < 0, i + n, i)` the first value is below n and the second one not negative,
so that it needs no clamp as an index.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeGuard

from curta.compiler.loops.index import Affine, Bounds, LoopVar, bounds_given
from curta.compiler.loops.nodes import Expr, Instr, known_index
from curta.core.dim import is_symbolic_dim

INVERSE: Final = dict(zip("lt ge gt le eq ne".split(), "ge lt le gt ne eq".split()))
"""What holds of integers where a comparison does not."""

Comparison = tuple[Affine, Bounds]
"""The difference of two indices that are compared, and its bounds if that holds."""


def limits(name: str, args: Sequence[Expr], dtype: Any) -> Bounds | None:
    """The bounds of an instruction, where they are not those of its dtype."""
    if dtype.kind not in "iu" or name not in ("max", "min", "select"):
        return None
    if name == "select":
        (a, b), (c, d) = cases(args)
        return min(a, c), max(b, d)
    pick = max if name == "max" else min
    (a, b), (c, d) = (x.bounds for x in args)
    return pick(a, c), pick(b, d)


def is_select(value: Expr | None) -> TypeGuard[Instr]:
    """Whether a value is one of two."""
    return isinstance(value, Instr) and value.name == "select"


def cases(select: Sequence[Expr], given: tuple[Comparison, ...] = ()) -> list[Bounds]:
    """The bounds of the two values that a condition selects, each where it is taken."""
    condition, *values = select
    result = []
    for value, holds in zip(values, (True, False), strict=True):
        known = compared(condition, holds)
        result.append(_bounds_where(value, (*given, known) if known else given))
    return result


def _bounds_where(value: Expr, given: tuple[Comparison, ...]) -> Bounds:
    index = known_index(value)
    if index is None or any(map(is_symbolic_dim, index.bounds)):
        if not is_select(value) or len(given) > 3:
            return value.bounds
        (a, b), (c, d) = cases(value.args, given)
        return min(a, c), max(b, d)
    low, high = index.bounds
    for of, bounds in given:
        least, most = bounds_given(index, of, bounds)
        low, high = max(low, least), min(high, most)
    return low, high


def compared(condition: Expr, holds: bool = True) -> Comparison | None:
    """The bounds of indices where a comparison of two holds, or does not."""
    if not isinstance(condition, Instr) or not condition.name.startswith("compare."):
        return None
    p, q = map(known_index, condition.args)
    if p is None or q is None:
        return None
    low, high = (p - q).bounds
    if is_symbolic_dim(low) or is_symbolic_dim(high):
        return None
    direction = condition.name.partition(".")[2]
    direction = direction if holds else INVERSE[direction]
    if direction in ("lt", "le", "eq"):
        high = min(high, -1 if direction == "lt" else 0)
    if direction in ("gt", "ge", "eq"):
        low = max(low, 1 if direction == "gt" else 0)
    if direction == "ne":
        low, high = low + (low == 0), high - (high == 0)
    return p - q, (low, high)


def decided_by(condition: Expr) -> tuple[LoopVar | None, set[int]]:
    """The loop variable that alone decides a comparison, and where that changes."""
    known = compared(condition)
    if known is None or len(known[0].terms) != 1:
        return None, set()
    of, (low, high) = known
    ((variable, k),) = of.terms.items()
    if not isinstance(variable, LoopVar):
        return None, set()
    least, most = of.bounds
    ends = [low] if low > least else []
    ends += [high + 1] if high < most else []
    if k > 0:  # the first index at which it is as large
        return variable, {-((of.const - end) // k) for end in ends}
    return variable, {(of.const - end) // -k + 1 for end in ends}
