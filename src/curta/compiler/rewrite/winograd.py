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
from typing import Any

import numpy as np

from curta.compiler.rewrite.inline import Function
from curta.compiler.targets import Target, Tuning
from curta.control.cond import Cond
from curta.core.avals import ShapedArray
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.convolution.shapes import taken
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.arithmetic import add, mul, sub
from curta.primitives.elementwise.comparison import ne
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.joining import Concatenate
from curta.primitives.precision import Precision, is_default
from curta.primitives.slicing import Pad, Slice
from curta.primitives.structure import Reshape, Transpose, exact_scalar, reduce_sum

_DTYPES = (np.dtype("float32"), np.dtype("float64"))

Matrix = tuple[tuple[float, ...], ...]
Grid = Sequence[Sequence[Any]]
# B', G and A'.
_OF_INPUTS: Matrix = ((1, 0, -1, 0), (0, 1, 1, 0), (0, -1, 1, 0), (0, 1, 0, -1))
_OF_KERNEL: Matrix = ((1, 0, 0), (0.5, 0.5, 0.5), (0.5, -0.5, 0.5), (0, 0, 1))
_OF_PRODUCTS: Matrix = ((1, 1, 1, 0), (0, 1, -1, -1))


def by_winograd(
    op: ConvGeneralDilated, avals: Sequence[ShapedArray], target: Target
) -> Function | None:
    """conv x w -> sums of 16 products of sums of x and of w, if they are large."""
    if not _fits(op, avals[0], avals[1], target.tuning):
        return None
    lhs_spec, rhs_spec, out_spec = op.dimension_numbers
    out: ShapedArray = op.aval(*avals)
    size = taken(out.shape, out_spec)[2:]
    squares = [-(-n // 2) for n in size]
    product = DotGeneral((((3,), (0,)), ((), ())), op.precision)

    def run(lhs: Any, rhs: Any) -> list[Any]:
        batch, features, *spatial = lhs_spec
        x = _transposed(lhs, (batch, *spatial, features))
        outputs, inputs, *window = rhs_spec
        kernel = _transposed(rhs, (*window, inputs, outputs))
        x = _padded(x, op.padding, squares)
        of_inputs = _transformed(_OF_INPUTS, _inputs(x, squares))
        of_kernel = _transformed(_OF_KERNEL, _elements(kernel))
        products = [
            [product(*pair) for pair in zip(*rows, strict=True)]
            for rows in zip(of_inputs, of_kernel, strict=True)
        ]
        y = _joined(_transformed(_OF_PRODUCTS, products), size)
        batch, features, *spatial = out_spec
        standard = (batch, *spatial, features)
        y = _transposed(y, tuple(standard.index(d) for d in range(4)))
        return [_finite(y, op, lhs, rhs)]

    return run


def _finite(y: Any, op: ConvGeneralDilated, *operands: Any) -> Any:
    """`y` if all of it is finite, else what the direct sum gives."""
    dims = tuple(range(typeof(y).ndim))
    zero = exact_scalar(0, typeof(y).dtype)
    total = reduce_sum(mul(y, zero), dims)  # 0 or NaN
    chosen = convert_element_type(ne(total, zero), np.dtype(np.int32))
    direct = dataclasses.replace(op, precision=Precision.HIGHEST)
    avals = [*map(typeof, (*operands, y))]
    as_is = stage(lambda x, kernel, y: [y], avals)
    again = stage(lambda x, kernel, y: [direct(x, kernel)], avals)
    (result,) = Cond((as_is, again))(chosen, *operands, y)
    return result


def _fits(
    op: ConvGeneralDilated, lhs: ShapedArray, rhs: ShapedArray, tuning: Tuning
) -> bool:
    """Whether it is a large convolution of 3 by 3 without strides and groups."""
    ones = (*op.window_strides, *op.lhs_dilation, *op.rhs_dilation)
    if lhs.ndim != 4 or any(n != 1 for n in ones) or not is_default(op.precision):
        return False
    if op.feature_group_count != 1 or op.batch_group_count != 1:
        return False
    out = op.aval(lhs, rhs)
    if lhs.dtype not in _DTYPES or out.dtype != lhs.dtype:
        return False
    outputs, inputs, *window = taken(rhs.shape, op.dimension_numbers[1])
    if window != [3, 3] or min(inputs, outputs) < tuning.winograd_features:
        return False
    if 4 * (lhs.size + out.size) * lhs.dtype.itemsize > tuning.winograd_bytes:
        return False
    return 9 * inputs * out.size >= tuning.winograd_work


def _transposed(x: Any, order: tuple[int, ...]) -> Any:
    return x if order == (*range(len(order)),) else Transpose(order)(x)


def _padded(x: Any, padding: Sequence[tuple[int, int]], squares: list[int]) -> Any:
    """The images with two further inputs around all squares of outputs."""
    aval = typeof(x)
    around = [
        (low, 2 * count + 2 - extent - low, 0)
        for extent, (low, _), count in zip(
            aval.shape[1:3], padding, squares, strict=True
        )
    ]
    return Pad(((0, 0, 0), *around, (0, 0, 0)))(x, exact_scalar(0, aval.dtype))


def _inputs(x: Any, squares: list[int]) -> Grid:
    """The 4 by 4 inputs of squares, each for all squares."""
    images, _, _, features = typeof(x).shape
    (rows, columns) = squares

    def at(i: int, j: int) -> Any:
        end = (images, i + 2 * rows - 1, j + 2 * columns - 1, features)
        return Slice((0, i, j, 0), end, (1, 2, 2, 1))(x)

    return [[at(i, j) for j in range(4)] for i in range(4)]


def _elements(kernel: Any) -> Grid:
    """The 3 by 3 matrices of a kernel."""
    features = typeof(kernel).shape[2:]

    def at(i: int, j: int) -> Any:
        one = Slice((i, j, 0, 0), (i + 1, j + 1, *features), None)
        return Reshape(features)(one(kernel))

    return [[at(i, j) for j in range(3)] for i in range(3)]


def _transformed(matrix: Matrix, grid: Grid) -> Grid:
    """matrix @ grid @ matrix'."""
    columns = [_combined(matrix, column) for column in zip(*grid, strict=True)]
    return [_combined(matrix, row) for row in zip(*columns, strict=True)]


def _combined(matrix: Matrix, parts: Sequence[Any]) -> list[Any]:
    """matrix @ parts."""
    return [_sum(row, parts) for row in matrix]


def _sum(row: Sequence[float], parts: Sequence[Any]) -> Any:
    """The sum of parts, times the numbers of a row: equal ones, but for their signs."""
    pairs = [(c, x) for c, x in zip(row, parts, strict=True) if c]
    pairs.sort(key=lambda pair: pair[0] < 0)  # one to be added comes first
    (factor, total), *rest = pairs
    for c, x in rest:
        total = (add if c > 0 else sub)(total, x)
    return total if factor == 1 else mul(total, exact_scalar(factor, typeof(x).dtype))


def _joined(grid: Grid, size: Sequence[int]) -> Any:
    """Images of `size` from the 2 by 2 outputs of all squares."""
    images, rows, columns, features = typeof(grid[0][0]).shape
    apart = Reshape((images, rows, 1, columns, 1, features))
    lines = [Concatenate(4)(*map(apart, line)) for line in grid]
    whole = (images, 2 * rows, 2 * columns, features)
    y = Reshape(whole)(Concatenate(2)(*lines))
    if whole[1:3] == tuple(size):
        return y
    return Slice((0,) * 4, (images, *size, features), None)(y)
