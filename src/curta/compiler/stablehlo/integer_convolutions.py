"""Convolutions of integers as products of matrices.

The library that XLA takes on GPUs has convolutions of floats, and of bytes that
saturate. So the elements that a window meets are gathered, as dims of their own, and
contracted with the kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from curta.core.avals import ShapedArray
from curta.core.trace import typeof
from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.indexing import Gather, GatherDimensionNumbers
from curta.primitives.slicing import Pad
from curta.primitives.structure import Reshape, Transpose, full


def as_products(op: ConvGeneralDilated, lhs: Any, rhs: Any, dtype: Any) -> Any:
    """The convolution of arrays that are not empty, with elements of a dtype."""
    lhs_spec, rhs_spec, out_spec = op.dimension_numbers
    lhs = Transpose(lhs_spec)(convert_element_type(lhs, dtype))
    rhs = Transpose(rhs_spec)(convert_element_type(rhs, dtype))
    count = typeof(rhs).ndim - 2
    patches, windows = _patches(op, lhs, typeof(rhs).shape[2:])
    groups = op.group_count
    # (groups, N, C, out and window for each dim) and (groups, O, C, window)
    patches = _grouped(patches, 0 if op.batch_group_count > 1 else 1, groups)
    kernels = _grouped(rhs, 0, groups)
    contract = (2, *(4 + 2 * d for d in range(count))), (2, *range(3, 3 + count))
    product = DotGeneral((contract, ((0,), (0,))))(patches, kernels)
    # (groups, N, out..., O) to (N, groups * O, out...)
    last = 2 + count
    product = Transpose((1, 0, last, *range(2, last)))(product)
    n, g, o, *rest = typeof(product).shape
    out = Reshape((n, g * o, *rest))(product)
    assert [*rest] == windows
    return Transpose(tuple(np.argsort(out_spec).tolist()))(out)


def _patches(
    op: ConvGeneralDilated, lhs: Any, kernel: tuple[int, ...]
) -> tuple[Any, list[int]]:
    """(N, C, ...) with two dims for each spatial one: window, and offset in it.

    And how many windows there are along each.
    """
    edges = [
        (low, high, by - 1)
        for (low, high), by in zip(op.padding, op.lhs_dilation, strict=True)
    ]
    zero = full(ShapedArray((), typeof(lhs).dtype), 0)
    x = Pad(((0, 0, 0), (0, 0, 0), *edges))(lhs, zero)
    windows = []
    steps = zip(kernel, op.window_strides, op.rhs_dilation, strict=True)
    for d, (size, stride, by) in enumerate(steps):
        dim = 2 + 2 * d
        length = typeof(x).shape[dim]
        first = np.arange(0, length - (size - 1) * by, stride)
        x = _taken(x, dim, np.add.outer(first, by * np.arange(size)))
        windows.append(len(first))
    return x, windows


def _taken(x: Any, dim: int, index: Any) -> Any:
    """`x` with the dims of an array of indices in place of a dim."""
    shape = typeof(x).shape
    offsets = tuple(d for d in range(len(shape)) if d != dim)
    sizes = (*shape[:dim], 1, *shape[dim + 1 :])
    numbers = GatherDimensionNumbers(offsets, (dim,), (dim,))
    rows = Gather(numbers, sizes)(x, index.astype(np.int32).reshape(-1, 1))
    return Reshape((*shape[:dim], *index.shape, *shape[dim + 1 :]))(rows)


def _grouped(x: Any, dim: int, groups: int) -> Any:
    """`x` with a dim of groups in front, of which `dim` has one after the other."""
    shape = typeof(x).shape
    size = shape[dim] // groups
    split = Reshape((*shape[:dim], groups, size, *shape[dim + 1 :]))(x)
    others = [d for d in range(len(shape) + 1) if d != dim]
    return Transpose((dim, *others))(split)
