"""Large convolutions of 3 by 3 with fewer products: Winograd's minimal filtering.

A square of 2 by 2 outputs comes from 4 by 4 inputs with 16 products instead of 36, by
F(2x2, 3x3) of Lavin and Gray, Fast Algorithms for Convolutional Neural Networks (2016):

    y = A' [(G g G') * (B' d B)] A

for the inputs d and the kernel g. Over all squares and features, the products are 16
matrix products. The sums around them are by additions, and halves of kernels, so that
rounding errors stay those of the direct sum.

Where the direct sum has an infinity this one can have a NaN, and a sum of inputs can
overflow where no product does. Neither ever becomes finite again: if all results are
finite, nothing of the kind has happened. If not, the direct sum is taken instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final, cast

import numpy as np

from curta.compiler.graph.rewriting import Context, Results, Rewriting, rewrites
from curta.config import config
from curta.control.cond import Cond
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, Eqn, Literal, Var
from curta.core.stage import stage
from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.convolution.shapes import taken
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.arithmetic import add, mul, sub
from curta.primitives.elementwise.comparison import ne
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.joining import Concatenate
from curta.primitives.precision import Precision, is_default
from curta.primitives.slicing import Pad, Slice
from curta.primitives.structure import BroadcastInDim, ReduceSum, Reshape, Transpose

_DTYPES = (np.dtype("float32"), np.dtype("float64"))

Matrix = tuple[tuple[float, ...], ...]
Grid = Sequence[Sequence[Atom]]
# B', G and A'.
_OF_INPUTS: Matrix = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
_OF_KERNEL: Matrix = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))
_OF_PRODUCTS: Matrix = ((1, 1, 1, 0), (0, 1, -1, -1))


@rewrites(ConvGeneralDilated)
def conv_by_winograd(eqn: Eqn, context: Context) -> Results | None:
    """conv x w -> sums of 16 products of sums of x and of w."""
    op = cast(ConvGeneralDilated, eqn.op)
    if not _fits(op, eqn):
        return None
    x, kernel = eqn.invars
    lhs_spec, rhs_spec, out_spec = op.dimension_numbers
    batch, features, *spatial = lhs_spec
    x = _transposed(x, (batch, *spatial, features), context)
    outputs, inputs, *window = rhs_spec
    kernel = _transposed(kernel, (*window, inputs, outputs), context)
    size = taken(eqn.outvars[0].aval.shape, out_spec)[2:]
    squares = [-(-n // 2) for n in size]
    x = _padded(x, op.padding, squares, context)
    of_inputs = _transformed(_OF_INPUTS, _inputs(x, squares, context), context)
    of_kernel = _transformed(_OF_KERNEL, _elements(kernel, context), context)
    product = DotGeneral((((3,), (0,)), ((), ())), op.precision)
    products = [
        [context.apply(product, *pair) for pair in zip(*rows, strict=True)]
        for rows in zip(of_inputs, of_kernel, strict=True)
    ]
    y = _joined(_transformed(_OF_PRODUCTS, products, context), size, context)
    batch, features, *spatial = out_spec
    standard = (batch, *spatial, features)
    y = _transposed(y, tuple(standard.index(d) for d in range(4)), context)
    return [_finite(y, eqn, context)]


def _finite(y: Atom, eqn: Eqn, context: Context) -> Var:
    """`y` if all of it is finite, else what the direct sum gives."""
    dims = tuple(range(y.aval.ndim))
    total = context.apply(ReduceSum(dims), _scaled(y, 0, context))  # 0 or NaN
    differs = context.apply(ne, total, _number(0, y.aval.dtype))
    chosen = context.apply(ConvertElementType(np.dtype(np.int32)), differs)
    direct = dataclasses.replace(eqn.op, precision=Precision.HIGHEST)  # type: ignore[type-var]
    avals = [v.aval for v in (*eqn.invars, y)]
    as_is = stage(lambda x, kernel, y: [y], avals)
    again = stage(lambda x, kernel, y: [direct(x, kernel)], avals)
    out = Var(y.aval)
    context.add(Eqn(Cond((as_is, again)), (chosen, *eqn.invars, y), (out,)))
    return out


def _fits(op: ConvGeneralDilated, eqn: Eqn) -> bool:
    """Whether it is a large convolution of 3 by 3 without strides and groups."""
    lhs, rhs = (v.aval for v in eqn.invars)
    out = eqn.outvars[0].aval
    ones = (*op.window_strides, *op.lhs_dilation, *op.rhs_dilation)
    if lhs.ndim != 4 or any(n != 1 for n in ones) or not is_default(op.precision):
        return False
    if op.feature_group_count != 1 or op.batch_group_count != 1:
        return False
    if lhs.dtype not in _DTYPES or out.dtype != lhs.dtype:
        return False
    outputs, inputs, *window = taken(rhs.shape, op.dimension_numbers[1])
    if window != [3, 3] or min(inputs, outputs) < config.tuning.winograd_features:
        return False
    if 4 * (lhs.size + out.size) * lhs.dtype.itemsize > config.tuning.winograd_bytes:
        return False
    return 9 * inputs * out.size >= config.tuning.winograd_work


def _transposed(x: Atom, order: tuple[int, ...], context: Context) -> Atom:
    plain = order == tuple(range(len(order)))
    return x if plain else context.apply(Transpose(order), x)


def _padded(
    x: Atom, padding: Sequence[tuple[int, int]], squares: list[int], context: Context
) -> Atom:
    """The images with two further inputs around all squares of outputs."""
    around = [
        (low, 2 * count + 2 - extent - low, 0)
        for extent, (low, _), count in zip(
            x.aval.shape[1:3], padding, squares, strict=True
        )
    ]
    pad = Pad(((0, 0, 0), *around, (0, 0, 0)))
    return context.apply(pad, x, _number(0, x.aval.dtype))


def _inputs(x: Atom, squares: list[int], context: Context) -> Grid:
    """The 4 by 4 inputs of squares, each for all squares."""
    images, _, _, features = x.aval.shape
    (rows, columns) = squares

    def at(i: int, j: int) -> Atom:
        end = (images, i + 2 * rows - 1, j + 2 * columns - 1, features)
        return context.apply(Slice((0, i, j, 0), end, (1, 2, 2, 1)), x)

    return [[at(i, j) for j in range(4)] for i in range(4)]


def _elements(kernel: Atom, context: Context) -> Grid:
    """The 3 by 3 matrices of a kernel."""
    features = kernel.aval.shape[2:]

    def at(i: int, j: int) -> Atom:
        one = Slice((i, j, 0, 0), (i + 1, j + 1, *features), None)
        return context.apply(Reshape(features), context.apply(one, kernel))

    return [[at(i, j) for j in range(3)] for i in range(3)]


def _transformed(matrix: Matrix, grid: Grid, context: Context) -> Grid:
    """matrix @ grid @ matrix'."""
    columns = [_combined(matrix, column, context) for column in zip(*grid, strict=True)]
    return [_combined(matrix, row, context) for row in zip(*columns, strict=True)]


def _combined(matrix: Matrix, parts: Sequence[Atom], context: Context) -> list[Atom]:
    """matrix @ parts."""
    return [_sum(row, parts, context) for row in matrix]


def _sum(row: Sequence[float], parts: Sequence[Atom], context: Context) -> Atom:
    """The sum of parts, times the numbers of a row: equal ones, but for their signs."""
    pairs = [(c, x) for c, x in zip(row, parts, strict=True) if c]
    pairs.sort(key=lambda pair: pair[0] < 0)  # one to be added comes first
    (factor, total), *rest = pairs
    for c, x in rest:
        total = context.apply(add if c > 0 else sub, total, x)
    return total if factor == 1 else _scaled(total, factor, context)


def _scaled(x: Atom, factor: float, context: Context) -> Atom:
    """`x * factor`."""
    number = _number(factor, x.aval.dtype)
    return context.apply(
        mul, x, context.apply(BroadcastInDim(x.aval.shape, ()), number)
    )


def _number(value: float, dtype: np.dtype) -> Literal:
    return Literal(np.asarray(value, dtype)[()], ShapedArray((), dtype))


def _joined(grid: Grid, size: Sequence[int], context: Context) -> Atom:
    """Images of `size` from the 2 by 2 outputs of all squares."""
    images, rows, columns, features = grid[0][0].aval.shape
    apart = Reshape((images, rows, 1, columns, 1, features))
    lines = [
        context.apply(Concatenate(4), *(context.apply(apart, x) for x in line))
        for line in grid
    ]
    whole = (images, 2 * rows, 2 * columns, features)
    y: Atom = context.apply(Reshape(whole), context.apply(Concatenate(2), *lines))
    if whole[1:3] == tuple(size):
        return y
    return context.apply(Slice((0,) * 4, (images, *size, features), None), y)


by_winograd: Final = Rewriting(conv_by_winograd)
