"""Decompositions of small matrices, written out as other ops.

Inside of a loop, a matrix of few elements is factored by straight code: a column
after the other, each step over the whole matrix, with masks that are known. The values
are those of the ops' `eval` rules up to rounding; so is what happens to NaN and to
singular matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.memo import kept_by_settings
from curta.core.op import Op
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.dtypes import working_dtype
from curta.primitives.elementwise.arithmetic import add, div, mul, sub
from curta.primitives.elementwise.bitwise import and_, not_
from curta.primitives.elementwise.comparison import eq, gt, ne
from curta.primitives.elementwise.complex import imag, real
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.elementwise.magnitude import abs_
from curta.primitives.elementwise.powers import sqrt
from curta.primitives.elementwise.select import select
from curta.primitives.joining import Concatenate
from curta.primitives.linalg.cholesky import Cholesky
from curta.primitives.linalg.family import MatrixOp, not_a_number
from curta.primitives.linalg.lu import LU, LUPivotsToPermutation
from curta.primitives.linalg.matrices import (
    columns,
    conjugate,
    rows,
    rows_and_columns,
    swapped,
)
from curta.primitives.linalg.triangular import TriangularSolve
from curta.primitives.reduction import ArgMax
from curta.primitives.shape import Iota, Rev
from curta.primitives.structure import BroadcastInDim, Reshape, zeros

_INT = np.dtype(np.int32)


def expanded(op: Op, avals: Sequence[ShapedArray]) -> ClosedJaxpr | None:
    """The jaxpr that such an op stands for; None for any other op."""
    if type(op) not in _RULES or not isinstance(op, MatrixOp):
        return None
    if any(
        not 0 < d <= config.tuning.small_matrix for d in avals[0].shape[-op.ranks[0] :]
    ):
        return None
    return _expanded(op, tuple(avals))


@kept_by_settings(maxsize=256)
def _expanded(op: Op, avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    return staged_in_single(_RULES[type(op)], op, avals)


def staged_in_single(
    rule: Callable[..., Sequence[Any]], op: Op, avals: Sequence[ShapedArray]
) -> ClosedJaxpr:
    """The program of `rule(op, *args)`, which works on halves in single precision."""
    outs = op.aval(*avals)
    given = outs if op.multiple_results else [outs]

    def run(*args: Any) -> Sequence[Any]:
        single = (convert_element_type(x, working_dtype(typeof(x).dtype)) for x in args)
        return [
            convert_element_type(x, a.dtype)
            for x, a in zip(rule(op, *single), given, strict=True)
        ]

    return stage(run, avals)


# ------------------------------------------------------------------------- LU


def _lu(op: Any, a: Any) -> list[Any]:
    *batch, m, n = typeof(a).shape
    order = _spread(Reshape((m, 1))(Iota(_INT, (m,), 0)()), (*batch, m, 1))
    pivots = []
    for k in range(min(m, n)):
        column = rows(columns(a, k, k + 1), k, m)
        size = _magnitude(Reshape((*batch, m - k))(column))
        pivot = add(ArgMax((len(batch),), _INT)(size), np.int32(k))
        pivots.append(Reshape((*batch, 1))(pivot))
        a, order = (_exchanged(x, k, pivot) for x in (a, order))
        a = _eliminated(a, k)
    joined = Concatenate(len(batch))(*pivots)
    return [a, joined, Reshape((*batch, m))(order)]


def _magnitude(x: Any) -> Any:
    if typeof(x).dtype.kind != "c":
        return abs_(x)
    return add(abs_(real(x)), abs_(imag(x)))


def _exchanged(x: Any, k: int, other: Any) -> Any:
    """Row `k` of each matrix exchanged with the row `other`, which does not precede."""
    shape = typeof(x).shape
    *batch, m, n = shape
    first = wanted = rows(x, k, k + 1)
    place = Reshape((*batch, 1, 1))(other)
    here = _spread(place, (*batch, 1, n))
    for r in range(k + 1, m):
        wanted = select(eq(here, _full(here, r)), rows(x, r, r + 1), wanted)
    row = _numbers(shape)[0]
    x = select(eq(row, _spread(place, shape)), _spread(first, shape), x)
    return select(eq(row, _full(row, k)), _spread(wanted, shape), x)


def _eliminated(x: Any, k: int) -> Any:
    """Column `k` divided by its pivot, times row `k` off the rows below."""
    shape = typeof(x).shape
    row, column = _numbers(shape)
    line, factor = rows(x, k, k + 1), columns(x, k, k + 1)
    pivot = _spread(columns(line, k, k + 1), typeof(factor).shape)
    quotient = div(factor, pivot)
    factor = select(ne(pivot, zeros(typeof(pivot))), quotient, factor)
    factor = _spread(factor, shape)
    below, right = gt(row, _full(row, k)), gt(column, _full(row, k))
    beneath = and_(below, eq(column, _full(row, k)))
    changed = sub(x, mul(factor, _spread(line, shape)))
    x = select(beneath, factor, x)
    return select(and_(below, right), changed, x)


def _permutation(op: Any, pivots: Any) -> list[Any]:
    *batch, count = typeof(pivots).shape
    m = op.permutation_size
    order = _spread(Reshape((m, 1))(Iota(_INT, (m,), 0)()), (*batch, m, 1))
    places = Reshape((*batch, count, 1))(pivots)
    for k in range(count):
        order = _exchanged(order, k, Reshape(tuple(batch))(rows(places, k, k + 1)))
    return [Reshape((*batch, m))(order)]


# ------------------------------------------------------------------ triangular


def _triangular(op: Any, a: Any, b: Any) -> list[Any]:
    a = conjugate(a) if op.conjugate_a else a
    lower = op.lower_triangle != op.transpose_a
    if op.transpose_a:
        a = swapped(a)
    if not op.left_side:  # x a = b is a^T x^T = b^T
        a, b, lower = swapped(a), swapped(b), not lower
    rank = typeof(a).ndim
    if not lower:  # in reverse order the upper triangle is a lower one
        a, b = Rev((rank - 2, rank - 1))(a), Rev((rank - 2,))(b)
    x = _forward(a, b, op.unit_diagonal)
    x = x if lower else Rev((rank - 2,))(x)
    return [x if op.left_side else swapped(x)]


def _forward(a: Any, b: Any, unit_diagonal: bool) -> Any:
    """x of a x = b, where all that a row needs has been subtracted before its turn."""
    *_, size, width = typeof(b).shape
    solved = []
    for i in range(size):
        x = rows(b, 0, 1)
        column = rows(columns(a, i, i + 1), i, size)
        if not unit_diagonal:
            x = div(x, _spread(rows(column, 0, 1), typeof(x).shape))
        solved.append(x)
        if i + 1 < size:
            rest = rows(b, 1, size - i)
            shape = typeof(rest).shape
            factor = _spread(rows(column, 1, size - i), shape)
            b = sub(rest, mul(factor, _spread(x, shape)))
    return Concatenate(typeof(b).ndim - 2)(*solved)


# -------------------------------------------------------------------- Cholesky


def _cholesky(op: Any, a: Any) -> list[Any]:
    shape = typeof(a).shape
    *_, size, _ = shape
    row, column = _numbers(shape)
    result = zeros(typeof(a))
    good = None
    for k in range(size):
        square = columns(rows(a, k, k + 1), k, k + 1)
        square = real(square) if typeof(a).dtype.kind == "c" else square
        positive = gt(square, zeros(typeof(square)))
        good = positive if good is None else and_(good, positive)
        root = convert_element_type(sqrt(square), typeof(a).dtype)
        line = columns(a, k, k + 1)
        line = div(line, _spread(root, typeof(line).shape))
        line = _spread(line, shape)
        here = and_(eq(column, _full(row, k)), gt(row, _full(row, k)))
        result = select(here, line, result)
        corner = and_(eq(column, _full(row, k)), eq(row, _full(row, k)))
        result = select(corner, _spread(root, shape), result)
        a = sub(a, mul(line, conjugate(swapped(line))))
    nan = not_a_number(typeof(result).dtype)
    bad = not_(_spread(good, shape))
    return [select(bad, BroadcastInDim(shape, ())(nan), result)]


# --------------------------------------------------------------------- helpers


def _numbers(shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The row and the column number of every element."""
    row, column = rows_and_columns(shape)
    return _spread(row, shape), _spread(column, shape)


def _full(like: Any, number: int) -> Any:
    return BroadcastInDim(typeof(like).shape, ())(np.int32(number))


def _spread(x: Any, shape: Sequence[int]) -> Any:
    """`x` with its dims of size 1 repeated, and dims in front."""
    own = typeof(x).shape
    if own == tuple(shape):
        return x
    kept = [
        i for i, d in enumerate(own) if d != 1 or shape[len(shape) - len(own) + i] == 1
    ]
    first = len(shape) - len(own)
    squeezed = Reshape(tuple(own[i] for i in kept))(x)
    return BroadcastInDim(tuple(shape), tuple(first + i for i in kept))(squeezed)


_RULES: dict[type[Op], Callable[..., list[Any]]] = {
    LU: _lu,
    LUPivotsToPermutation: _permutation,
    TriangularSolve: _triangular,
    Cholesky: _cholesky,
}
