"""Tensors of unsigned integers that read as NumPy's arrays do.

The hashes of the random generators are written in NumPy (`primitives/random_bits`);
on these values the same code makes their programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder
from curta.compiler.stablehlo.shape import broadcast_in_dim, full, reshape, slice_of
from curta.compiler.stablehlo.types import tensor_type
from curta.core.avals import ShapedArray

UINT32, UINT64 = np.dtype("uint32"), np.dtype("uint64")

_OPERATIONS = {
    "add": "add",
    "multiply": "multiply",
    "bitwise_and": "and",
    "bitwise_or": "or",
    "bitwise_xor": "xor",
    "left_shift": "shift_left",
    "right_shift": "shift_right_logical",
}


class Words(np.lib.mixins.NDArrayOperatorsMixin):
    """A tensor of uint32 or uint64; operands of rank 0 are repeated."""

    def __init__(self, b: BlockBuilder, value: HloValue, aval: ShapedArray) -> None:
        self.b = b
        self.value = value
        self.aval = aval

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        return self.aval.dtype

    def _new(self, value: HloValue, shape: Sequence[int], dtype: Any = None) -> Words:
        return Words(self.b, value, ShapedArray(tuple(shape), dtype or self.dtype))

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, dtype: Any = None
    ) -> Words:
        known = [x for x in inputs if isinstance(x, Words)]
        shape = max((x.shape for x in known), key=len)
        dtype = np.dtype(dtype or known[0].dtype)
        aval = ShapedArray(shape, dtype)
        operands = [
            x.astype(dtype).spread(shape).value
            if isinstance(x, Words)
            else full(self.b, aval, np.uint64(x))
            for x in inputs
        ]
        name = _OPERATIONS[ufunc.__name__]
        return self._new(self.b.op(name, operands, tensor_type(aval)), shape, dtype)

    def astype(self, dtype: Any) -> Words:
        """The same numbers as another dtype, modulo its size."""
        aval = ShapedArray(self.shape, np.dtype(dtype))
        if aval.dtype == self.dtype:
            return self
        value = self.b.op("convert", [self.value], tensor_type(aval))
        return Words(self.b, value, aval)

    def spread(self, shape: Sequence[int], dims: Sequence[int] | None = None) -> Words:
        """Repeated to a shape; its own dims are the first ones, or `dims`."""
        aval = ShapedArray(tuple(shape), self.dtype)
        if aval.shape == self.shape:
            return self
        own = range(len(self.shape)) if dims is None else dims
        return Words(self.b, broadcast_in_dim(self.b, self.value, aval, own), aval)

    def reshape(self, *shape: int) -> Words:
        """In another shape."""
        aval = ShapedArray(shape, self.dtype)
        if shape == self.shape:
            return self
        return Words(self.b, reshape(self.b, self.value, aval), aval)

    def part(self, start: int, limit: int, dim: int = -1) -> Words:
        """The elements from `start` to `limit` along a dim."""
        bounds = [(0, d) for d in self.shape]
        bounds[dim] = start, limit
        shape = [limit - start for start, limit in bounds]
        return self._new(slice_of(self.b, self.value, self.aval, bounds), shape)

    def unstacked(self) -> list[Words]:
        """The words along the last dim, each without it."""
        *shape, count = self.shape
        return [self.part(i, i + 1).reshape(*shape) for i in range(count)]


def joined(parts: Sequence[Words], dim: int) -> Words:
    """Concatenated along an existing dim."""
    first = parts[0]
    shape = list(first.shape)
    shape[dim] = sum(p.shape[dim] for p in parts)
    aval = ShapedArray(tuple(shape), first.dtype)
    value = first.b.op(
        "concatenate",
        [p.value for p in parts],
        tensor_type(aval),
        dimension=dim % len(shape),
    )
    return Words(first.b, value, aval)


def stacked(parts: Sequence[Words]) -> Words:
    """Along a new last dim."""
    return joined([p.spread((*p.shape, 1)) for p in parts], -1)


def iota(b: BlockBuilder, size: int, dtype: Any, start: int = 0) -> Words:
    """start, start + 1, ..."""
    aval = ShapedArray((size,), np.dtype(dtype))
    counted = Words(b, b.op("iota", [], tensor_type(aval), iota_dimension=0), aval)
    return counted + start if start else counted


def zeros(b: BlockBuilder, shape: Sequence[int], dtype: Any = UINT32) -> Words:
    """Zeros."""
    aval = ShapedArray(tuple(shape), np.dtype(dtype))
    return Words(b, full(b, aval, 0), aval)
