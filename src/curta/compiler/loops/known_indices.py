"""Integers that are affine sums of loop variables: iotas, and arithmetic on them.

Integers computed from `arange` are such sums if they fit their dtype. They are kept as
sums, so that a load at them has a stride, and comparisons that bounds decide are
removed (the wrap-around of negative indices, clamps, guards).

Functions take the `ScalarBuilder` first, as those of complexes.py do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from curta.compiler.loops.element_types import BOOL
from curta.compiler.loops.index import (
    Affine,
    Bounds,
    IndexAtom,
    Quotient,
    Remainder,
    as_index,
    bounds_given,
)
from curta.compiler.loops.nodes import (
    Const,
    DataIndex,
    Expr,
    Instr,
    index_operands,
    is_within,
    known_index,
)
from curta.compiler.loops.value_bounds import INVERSE, cases, compared, is_select
from curta.core.dim import SymbolicDim, is_symbolic_dim

Scalar = Any


def known(x: Scalar) -> Affine | None:
    """The affine sum that an integer is, if it is known as one."""
    if isinstance(x, Expr):
        return known_index(x)
    return as_index(x) if isinstance(x, (int, SymbolicDim, Affine)) else None


def arithmetic(b: Any, name: str, x: Expr, y: Expr) -> Scalar:
    """The sum, difference, product, quotient or rest, if that is an affine sum."""
    if x.dtype.kind not in "iu":
        return None
    p, q = known(x), known(y)
    if p is None or q is None:
        return None
    if name in ("div", "rem"):
        if name == "rem" and not q.terms and _wraps_once(p, q.const):
            return b.select(b.compare("lt", x, y), x, b.sub(x, y))
        result = None if q.terms else _truncated(name, p, q.const)
        return None if result is None else _value(b, result, x.dtype)
    if name == "mul" and p.terms and q.terms:
        return None
    total = p + q if name == "add" else p - q if name == "sub" else p * q
    return _value(b, total, x.dtype)


def _wraps_once(p: Affine, by: int) -> bool:
    """Whether the rest is p or `p - by`, of a sum that is more than an index.

    The rest of an index itself goes with its quotient: both may be what a reshape does.
    """
    low, high = p.bounds
    if any(map(is_symbolic_dim, (low, high, by))):
        return False
    return 0 <= low < by <= high < 2 * by and (p.const != 0 or len(p.terms) > 1)


def _truncated(name: str, p: Affine, by: int) -> Affine | None:
    """The quotient that rounds to zero, or its rest, if p never changes its sign.

    It may change it where the quotient is 0.
    """
    low, high = p.bounds
    if by <= 0 or (low < 0 and any(map(is_symbolic_dim, (low, high, by)))):
        return None
    if low < 0 and -by < low and high < by:
        return as_index(0) if name == "div" else p
    if low < 0 < high:
        return None
    sign = 1 if low >= 0 else -1
    return (p * sign // by if name == "div" else p * sign % by) * sign


def _value(b: Any, index: Affine, dtype: Any) -> Scalar:
    return b.index_value(index, dtype) if is_within(index, dtype) else None


def order(direction: str, x: Scalar, y: Scalar) -> bool | None:
    """Whether `x direction y` (eq ne lt le gt ge), where the bounds decide it."""
    p, q = known(x), known(y)
    if p is not None and q is not None:
        return _decided(direction, (p - q).bounds)
    if not all(isinstance(v, Expr) and v.dtype.kind in "iub" for v in (x, y)):
        return None
    (a, b), (c, d) = x.bounds, y.bounds
    return _decided(direction, (a - d, b - c))


def _decided(direction: str, bounds: Bounds) -> bool | None:
    """Whether a difference with these bounds `direction` 0 holds, if they decide it."""
    low, high = bounds
    if direction in ("ge", "lt"):
        sure, never = low >= 0, high < 0
    elif direction in ("gt", "le"):
        sure, never = low > 0, high <= 0
    else:
        sure, never = low == high == 0, low > 0 or high < 0
    if not (sure or never):
        return None
    return sure if direction in ("ge", "gt", "eq") else never


def implied(given: Expr, condition: Expr) -> bool | None:
    """Whether a comparison holds where another one does, if that decides it."""
    known, other = compared(given), compared(condition)
    if known is None or other is None:
        return None
    (of, bounds), (index, _) = known, other

    def at_value(atom: IndexAtom) -> Affine | None:
        """A quotient or rest of what has one value."""
        if bounds[0] < bounds[1] or not isinstance(atom, (Quotient, Remainder)):
            return None
        rest = atom.of - of + bounds[0]
        is_quotient = isinstance(atom, Quotient)
        by = atom.by
        return (rest // by if is_quotient else rest % by) if rest.is_constant else None

    assert isinstance(condition, Instr)
    index = index.substitute(at_value)
    return _decided(_direction(condition), bounds_given(index, of, bounds))


def comparison(b: Any, direction: str, x: Scalar, y: Scalar) -> Scalar:
    """A comparison that bounds decide, also where x is one of two values; or None."""
    found = order(direction, x, y)
    if found is not None:
        return b.const(found, BOOL)
    p, q = known(x), known(y)
    if p is not None and q is not None and not q.terms:
        numbers = b.index_expression(p), b.index_value(q.const)
        return b.instruction(f"compare.{direction}", BOOL, *numbers)
    if not isinstance(x, Instr) or not isinstance(y, Const):
        return None
    if x.dtype == BOOL and direction in ("eq", "ne"):
        return x if (direction == "eq") == y.value else b.not_(x)
    if not is_select(x) or x.dtype.kind not in "iu":
        return None
    number = int(y.value)
    first, second = (
        _decided(direction, (low - number, high - number))
        for low, high in cases(x.args)
    )
    if first is None or second is None:
        return None
    return x.args[0] if first else b.not_(x.args[0])


def opposite(b: Any, x: Expr) -> Expr | None:
    """The comparison of integers that holds where this one does not."""
    if not isinstance(x, Instr) or compared(x) is None:
        return None
    return b.compare(INVERSE[_direction(x)], *x.args)


def _direction(comparison: Instr) -> str:
    return comparison.name.partition(".")[2]


def chosen(b: Any, offset: Affine, load: Callable[[Affine], Scalar]) -> Scalar:
    """The loads at an offset that is one of two sums; None if it is not."""
    for atom, k in offset.terms.items():
        select = atom.value if isinstance(atom, DataIndex) else None
        if not is_select(select):
            continue
        condition, *values = select.args
        found = compared(condition)
        if found is None or index_operands(found[0]):  # of what is read at such a place
            continue
        if not all(map(_is_chosen, values)):
            continue
        rest = offset - Affine({atom: k}, 0)
        first, second = (
            b.under(where, partial(load, rest + as_index(value) * k))
            for where, value in zip((condition, b.not_(condition)), values, strict=True)
        )
        return b.select(condition, first, second)
    return None


def _is_chosen(value: Expr) -> bool:
    """Whether a value is an affine sum, or one of several."""
    return known_index(value) is not None or is_select(value)
