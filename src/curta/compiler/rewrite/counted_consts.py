"""Constant arrays of indices that count: they become iotas, whose strides are known.

`x[np.arange(n) - 1]` reads at a const, as NumPy has computed it. What elements are read
at is a sum of a multiple of the index along each dim, with a few jumps along one of
them where it was taken modulo n, say. Then it is written as that sum, of which the
compiler knows everything (loops/known_indices.py), and no memory is read.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from curta.compiler.rewrite.loop import renamed
from curta.compiler.rewrite.rewriting import Context
from curta.compiler.rewrite.values import parts_of_indices
from curta.compiler.targets import Target, Tuning
from curta.core.avals import ShapedArray
from curta.core.evaluate import const_as_numpy
from curta.core.jaxpr import Atom, ClosedJaxpr, Literal, Var
from curta.primitives.elementwise.arithmetic import Add, Mul
from curta.primitives.elementwise.comparison import Ge, Ne
from curta.primitives.elementwise.select import SelectN
from curta.primitives.shape import Iota
from curta.primitives.structure import BroadcastInDim


def with_iotas(closed: ClosedJaxpr, target: Target) -> ClosedJaxpr:
    """The program with iotas in place of consts that count, and are indices."""
    if not closed.consts:
        return closed
    indices = parts_of_indices(closed.eqns).union(
        *(e.invars for e in closed.eqns if e.op.regions)  # loops may read at them
    )
    context, names, left = (
        Context(target.tuning),
        dict[Var, Atom](),
        list[tuple[Var, Any]](),
    )
    for var, const in zip(closed.jaxpr.constvars, closed.consts, strict=True):
        made = None
        if var in indices and var.aval.size > 1 and _counts(var.aval.dtype):
            made = _counting(const_as_numpy(const, var.aval), context)
        if made is None:
            left.append((var, const))
        else:
            names[var] = made
    if not names:
        return closed
    eqns = (*context.eqns, *(renamed(e, names) for e in closed.eqns))
    outvars = tuple(names.get(v, v) for v in closed.jaxpr.outvars)
    constvars = tuple(v for v, _ in left)
    jaxpr = closed.jaxpr.replace(constvars=constvars, eqns=eqns, outvars=outvars)
    return ClosedJaxpr(jaxpr, [x for _, x in left])


def _counts(dtype: Any) -> bool:
    """Whether it is a dtype of NumPy's integers or booleans, not one of keys."""
    return isinstance(dtype, np.dtype) and dtype.kind in "iub"


class _CountingRow(NamedTuple):
    """Numbers `slope` apart, but for jumps: before an index, by so much more."""

    slope: int
    jumps: tuple[tuple[int, int], ...]


def _row(numbers: Any, tuning: Tuning) -> _CountingRow | None:
    steps = np.diff(numbers)
    slope = steps[len(steps) // 2] if len(steps) else 0
    (jumps,) = np.nonzero(steps != slope)
    if len(jumps) > tuning.index_jumps:
        return None
    found = tuple((int(i) + 1, int(steps[i] - slope)) for i in jumps)
    return _CountingRow(int(slope), found)


def _counting(array: Any, context: Context) -> Var | None:
    """The sum of iotas that an array is, if it is one."""
    if array.dtype.kind == "b":
        made = _counting(array.astype(np.int32), context)
        return made and context.apply(Ne(), made, _number(0, np.dtype(np.int32)))
    if array.dtype == np.uint64:
        return None
    first = (0,) * array.ndim
    lines = [
        array[(*first[:d], slice(None), *first[d + 1 :])].astype(np.int64)
        for d in range(array.ndim)
    ]
    rows = [_row(line, context.tuning) for line in lines]
    known = [row for row in rows if row is not None]
    if len(known) < len(rows) or sum(bool(r.jumps) for r in known) > 1:
        return None
    total = sum(np.ix_(*lines)) - (array.ndim - 1) * int(array[first])
    return _written(array, known, context) if np.array_equal(total, array) else None


def _number(value: Any, dtype: Any) -> Literal:
    return Literal(np.int64(value).astype(dtype), ShapedArray((), dtype))


def _written(array: Any, rows: list[_CountingRow], context: Context) -> Var:
    """Eqns for the sum of a multiple of each index, with the jumps of one dim."""
    number, jumping = partial(_number, dtype=array.dtype), None
    first = number(array.ravel()[0])
    total = context.apply(BroadcastInDim(array.shape, ()), first)
    for d, row in enumerate(rows):
        if row.slope or row.jumps:
            iota = context.apply(Iota(array.dtype, array.shape, d))
            term = context.apply(Mul(), iota, number(row.slope))
            total = context.apply(Add(), total, term)
            jumping = (iota, row.jumps) if row.jumps else jumping
    if jumping is None:
        return total
    iota, jumps = jumping
    heights = np.cumsum([jump for _, jump in jumps])
    pieces = [total, *(context.apply(Add(), total, number(h)) for h in heights)]
    result = pieces.pop()
    for (start, _), piece in zip(reversed(jumps), reversed(pieces), strict=True):
        later = context.apply(Ge(), iota, number(start))
        result = context.apply(SelectN(), later, piece, result)
    return result
