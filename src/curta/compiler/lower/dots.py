"""`dot_general` as work items: a matrix product by library code, or loops.

Matrices go to the product kernels of library/gemm.py as they lie in memory, upright
or transposed; another order of dims is copied first. Products with a vector are
limited by memory and are folds, which fuse with their neighbours. Integers are
multiplied in 32 or 64 bits, which wrap around to the same in fewer. Complex matrices of
some size are real ones by now (complex_products.py). Products that sum over nothing
are maps, which fuse with what reads them.
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from curta.compiler.library.gemm import Dot
from curta.compiler.loops.element_types import computed_dtype
from curta.compiler.loops.folds import columns_of, simple_fold
from curta.compiler.loops.lower import loop_dims, variables
from curta.compiler.loops.nodes import Buffer
from curta.compiler.lower.item_builder import ItemBuilder
from curta.compiler.lower.packed_dots import emit_product, packed_dot, packed_kind
from curta.compiler.targets import Target, Tuning
from curta.core.avals import ShapedArray
from curta.core.dim import typical
from curta.core.jaxpr import Atom, Eqn
from curta.primitives.dot import DotGeneral, factor_indices, others
from curta.primitives.precision import is_default

Dims = tuple[int, ...]
KINDS = {np.dtype("f4"): "f32", np.dtype("f8"): "f64", np.dtype("i4"): "i32",
         np.dtype("i8"): "i64"}  # fmt: skip
"""How the product kernels call the dtypes that they work in."""


def dot_items(lowering: ItemBuilder, eqn: Eqn, result: Buffer) -> None:
    """Add the items that compute a `dot_general` into `result`."""
    op, (left, right) = cast(DotGeneral, eqn.op), eqn.invars
    (left_sum, right_sum), (left_batch, right_batch) = op.dimension_numbers
    left_free = others(left.aval.ndim, left_batch, left_sum)
    right_free = others(right.aval.ndim, right_batch, right_sum)
    out = eqn.outvars[0].aval
    working = summing_dtype(out.dtype)
    shape = batch, m, n, k = _sizes(op, left.aval, right.aval)
    kind = _kind(working, typical(math.prod(shape)), lowering.tuning)
    if kind is None or not is_matrix_product(op, left.aval, right.aval, working):
        return _fold(lowering, eqn, result, working)
    to = result
    if out.dtype != working:
        wide = ShapedArray(out.shape, working)
        to = lowering.new_buffer(wide, f"{result.name}.wide")
    words = words_of(op, left.aval, right.aval, working, lowering.target)
    if words is not None:
        groups = (left_batch, left_free, left_sum), (right_batch, right_sum, right_free)
        packed_dot(lowering, [left, right], groups, shape, words, to)
    else:
        dims = left_batch, left_free, left_sum
        a, a_flipped = _matrix(lowering, left, dims, working)
        # Packing a panel for each of many small matrices takes longer than they do.
        small = batch > 1 and typical(n * k) <= lowering.tuning.upright_matrix
        dims = right_batch, right_sum, right_free
        b, b_flipped = _matrix(lowering, right, dims, working, upright=small)
        dot = Dot(batch, m, n, k, kind, a_flipped, b_flipped)
        emit_product(lowering, dot, (a, b), to)
    if to is not result:
        index = loop_dims(out.shape)
        value = lowering.builder.convert(lowering.load(to, index), out.dtype)
        lowering.emit_map(result, index, value, "convert")


def is_matrix_product(
    op: DotGeneral, left: ShapedArray, right: ShapedArray, working: Any
) -> bool:
    """Whether tiles add up the products of the dtype `working`, and no fold."""
    batch, m, n, k = _sizes(op, left, right)
    return working in KINDS and bool(batch) and all(d > 1 for d in (m, n, k))


def words_of(
    op: DotGeneral, left: ShapedArray, right: ShapedArray, working: Any, target: Target
) -> str | None:
    """The kind of the words of two or four elements that tiles multiply, if any."""
    shape = _sizes(op, left, right)
    words = packed_kind([left.dtype, right.dtype], working, shape, target)
    return None if words == "bf16x2" and not is_default(op.precision) else words


def _sizes(
    op: DotGeneral, left: ShapedArray, right: ShapedArray
) -> tuple[int, int, int, int]:
    """The extents of a product: batch, rows, columns and steps."""
    (left_sum, right_sum), (left_batch, right_batch) = op.dimension_numbers
    left_free = others(left.ndim, left_batch, left_sum)
    right_free = others(right.ndim, right_batch, right_sum)
    parts = (left, left_batch), (left, left_free), (right, right_free), (left, left_sum)
    batch, m, n, k = (math.prod(x.shape[d] for d in dims) for x, dims in parts)
    return batch, m, n, k


def summing_dtype(dtype: Any) -> Any:
    """The dtype in which products of a dtype are added up."""
    if dtype.kind in "iu":
        return np.dtype("i4" if dtype.itemsize <= 4 else "i8")
    return computed_dtype(dtype)


def _kind(dtype: Any, work: int, tuning: Tuning) -> str | None:
    """How the product kernels call a dtype; None where a fold does better."""
    if dtype.kind != "f" and work < tuning.called_dot_work:
        return None
    return KINDS.get(dtype)


def _matrix(
    lowering: ItemBuilder,
    x: Atom,
    groups: tuple[Dims, Dims, Dims],
    dtype: Any,
    upright: bool = False,
) -> tuple[Buffer, bool]:
    """A buffer with (batch, rows, columns) of `x`, and whether it lies transposed.

    It does not if it is to be `upright`.
    """
    batch, rows, columns = groups
    buffer = lowering.buffer_of(x)
    shape = x.aval.shape
    if buffer is not None and x.aval.dtype == dtype:
        for flipped, order in ((False, rows + columns), (True, columns + rows)):
            if flipped and upright:
                break
            long = [d for d in batch + order if shape[d] != 1]
            if long == sorted(long):
                return buffer, flipped
    order = batch + rows + columns
    known = lowering.copies.get((x, order, dtype))
    if known is not None:
        return known, False
    aval = ShapedArray(tuple(shape[d] for d in order), dtype)

    def element(index: tuple[Any, ...]) -> Any:
        source = tuple(index[order.index(d)] for d in range(len(order)))
        return lowering.builder.convert(lowering.elements.at(x, source), dtype)

    copy = lowering.stored(aval, f"copy{len(lowering.items)}", element, "copy")
    lowering.copies[x, order, dtype] = copy
    return copy, False


def _fold(lowering: ItemBuilder, eqn: Eqn, result: Buffer, working: Any) -> None:
    """The product as a sum over the contracted dims."""
    numbers, operands = cast(DotGeneral, eqn.op).dimension_numbers, eqn.invars
    b, out = lowering.builder, eqn.outvars[0].aval
    kept = loop_dims(out.shape)
    sizes = tuple(operands[0].aval.shape[d] for d in numbers[0][0])
    summed = loop_dims(sizes, len(variables(kept)))
    product = b.const(0, working)
    if all(v.aval.size for v in operands):
        indices = factor_indices(numbers, [v.aval.ndim for v in operands], kept, summed)
        x, y = map(lowering.elements.at, operands, indices)
        product = b.product(b.convert(x, working), b.convert(y, working))
    code = simple_fold(b, working, out.dtype, b.sum)
    large = max((0, 1), key=lambda side: operands[side].aval.size)
    columns = columns_of(operands[large].aval.shape, numbers[0][large])
    lowering.emit_fold(
        result, kept, summed, (product,), code, "dot_general", columns=columns
    )
