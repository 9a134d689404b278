"""The QR algorithm with implicit shifts, which makes Hessenberg form triangular.

Golub and Van Loan, "Matrix Computations" (2013), section 7.5: each sweep takes a
reflection made of the shifts down the last block that has not come apart yet. Complex
matrices have one shift a sweep; real ones have two, Francis' double shift, and end with
2x2 blocks on the diagonal. What is negligible is as LAPACK has it (`lahqr`; Ahues and
Tisseur, LAPACK working note 122, 1997).

Of a batch all matrices are at the same column at the same time, and those that have
nothing to do there have the reflection that changes nothing. So loops have the
conditions of the batch as a whole, and no matrix is copied in them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from curta.compiler.linalg.parts import where
from curta.compiler.stablehlo.linalg.householder import reflection
from curta.compiler.stablehlo.linalg.shifts import AT_END, first_column
from curta.compiler.stablehlo.linalg.tensors import (
    INT,
    MatrixTensor,
    column_numbers,
    eye,
    filled,
    greatest_of_batch,
    joined,
    repeat_while,
    row_numbers,
)
from curta.primitives.elementwise.arithmetic import sub
from curta.primitives.elementwise.magnitude import max_

_SWEEPS = 30  # for each eigenvalue, at most


class Iterated(NamedTuple):
    """What the algorithm leaves of a matrix, and whether it came to its end."""

    h: MatrixTensor
    z: MatrixTensor | None
    converged: MatrixTensor


class _Block(NamedTuple):
    """The numbers of the first and the last row of the block, and that of the sweep.

    Rows are 0 if there is no block. Sweeps are counted anew for each last row.
    """

    low: MatrixTensor
    high: MatrixTensor
    number: MatrixTensor


def iterated(h: MatrixTensor, z: MatrixTensor | None) -> Iterated:
    """(Quasi-)triangular h, and z times the product of the reflections."""
    n = h.shape[0]
    if n < 2:
        return Iterated(h, z, filled(1, 1, np.bool_, 1))
    size = 2 if h.is_complex else 3
    both = [h, filled(size - 2, n, h.dtype), *([] if z is None else [z])]
    matrix = joined(0, *both)  # a reflection of three rows ends beyond the last one
    matrix = joined(1, matrix, filled(matrix.shape[0], size - 2, h.dtype))

    def goes_on(iteration: MatrixTensor, *rest: MatrixTensor) -> MatrixTensor:
        busy = greatest_of_batch(_Block(*rest[1:]).high) > 0
        return busy & (iteration < _SWEEPS * max(10, n))

    def sweep(
        iteration: MatrixTensor, matrix: MatrixTensor, *rest: MatrixTensor
    ) -> Sequence[MatrixTensor]:
        block = _Block(*rest)
        matrix, block = _deflated(_swept(matrix, block, size), n, block)
        return [iteration + 1, matrix, *block]

    none = filled(1, 1, INT)
    matrix, block = _deflated(matrix, n, _Block(none, none, none))
    carry = [filled(1, 1, INT), matrix, *block]
    _, matrix, *ends = repeat_while(goes_on, sweep, carry)
    matrix = matrix.part(1, 0, n)
    z = None if z is None else matrix.part(0, n + size - 2, matrix.shape[0])
    return Iterated(matrix.part(0, 0, n), z, _Block(*ends).high.equals(0))


# ---------------------------------------------------------------- deflation


def _deflated(
    matrix: MatrixTensor, n: int, before: _Block
) -> tuple[MatrixTensor, _Block]:
    """The matrix with 0 for what is negligible, and the last block that is left."""
    below, gone = _negligible(matrix.part(0, 0, n).part(1, 0, n))
    width = matrix.shape[1]
    under = row_numbers(matrix.shape[0]).equals(column_numbers(width) + 1)
    rest = filled(1, width - n + 1, np.bool_)
    matrix = where(under & joined(1, gone, rest), 0, matrix)
    numbers = column_numbers(n - 1)
    connected = where(gone, 0, below).differs(0)
    unfinished = connected
    if not matrix.is_complex:  # two rows may stay together
        none = filled(1, 1, np.bool_)
        unfinished = connected & joined(1, none, connected.part(1, 0, n - 2))
    high = where(unfinished, numbers + 1, 0).max()
    low = where(connected, 0, where(numbers < high, numbers + 1, 0)).max()
    following = where(before.number.equals(AT_END), 1, before.number + 1)
    number = where(high.equals(before.high), following, 1)
    return matrix, _Block(low, high, number)


def _negligible(h: MatrixTensor) -> tuple[MatrixTensor, MatrixTensor]:
    """The elements below the diagonal, a row, and which of them are negligible."""
    n = h.shape[0]
    limits = np.finfo(h.dtype)
    eps, least = float(limits.eps), float(limits.tiny) * (n / float(limits.eps))
    middle = h.diagonal()
    below = h.part(0, 1, n).part(1, 0, n - 1).diagonal()
    lower = below.pivot_size()
    upper = h.part(0, 0, n - 1).part(1, 1, n).diagonal().pivot_size()
    first, second = middle.part(1, 0, n - 1), middle.part(1, 1, n)
    around = first.pivot_size() + second.pivot_size()
    none = filled(1, 1, lower.dtype)
    beside = joined(1, none, lower.part(1, 0, n - 2))
    beside = beside + joined(1, lower.part(1, 1, n - 1), none)
    around = where(around.equals(0), beside, around)
    greater, smaller = lower.maximum(upper), lower.minimum(upper)
    last, gap = second.pivot_size(), (first - second).pivot_size()
    wide, narrow = last.maximum(gap), last.minimum(gap)
    total = wide + greater
    total = where(total.equals(0), 1, total)
    bound = (narrow * (wide / total) * eps).maximum(least)
    small = (lower <= around * eps) & (smaller * (greater / total) <= bound)
    return below, small | (lower <= least)


# ------------------------------------------------------------------- sweeps


def _swept(matrix: MatrixTensor, block: _Block, size: int) -> MatrixTensor:
    """The matrix after a sweep down its block, by reflections of `size` rows."""
    low, high = (x.reshape().value for x in (block.low, block.high))
    start = first_column(matrix, low, high, block.number)
    busy = block.high > 0
    end = greatest_of_batch(block.high)
    begin = -greatest_of_batch(where(busy, -block.low, -matrix.shape[1]))

    def goes_on(
        k: MatrixTensor, end: MatrixTensor, *rest: MatrixTensor
    ) -> MatrixTensor:
        return k < end

    def step(
        k: MatrixTensor, end: MatrixTensor, *carry: MatrixTensor
    ) -> Sequence[MatrixTensor]:
        matrix, *fixed = carry
        start, low, high = fixed
        here = (k >= low) & (k < high)
        matrix = _reflected(matrix, k, start, here, here & k.differs(low), size)
        return [k + 1, end, matrix, *fixed]

    carry = [begin, end, matrix, start, block.low, block.high]
    return repeat_while(goes_on, step, carry)[2]


def _reflected(
    matrix: MatrixTensor,
    k: MatrixTensor,
    start: MatrixTensor,
    here: MatrixTensor,
    inside: MatrixTensor,
    size: int,
) -> MatrixTensor:
    """The reflection that makes the column before row k zero below it, or `start`."""
    row = k.reshape().value
    before = max_(sub(row, INT.type(1)), INT.type(0))
    column = matrix.block(row, before, size, 1)
    v, tau, _ = reflection(where(inside, column, start), INT.type(0))
    unit = eye(size, size, matrix.dtype)
    q = where(here, unit - tau * v * v.H, unit)
    rows = q.H @ matrix.block(row, INT.type(0), size, matrix.shape[1])
    made_zero = inside & column_numbers(matrix.shape[1]).equals(before)
    made_zero = made_zero & (row_numbers(size) > 0)
    matrix = matrix.with_row(row, where(made_zero, 0, rows))
    columns = matrix.block(INT.type(0), row, matrix.shape[0], size)
    return matrix.with_column(row, columns @ q)
