"""`approx_top_k`: the greatest or least elements, which may be approximate."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.op import BatchDims, Batched
from curta.core.tangents import Zero, zero_tangent
from curta.core.trace import typeof
from curta.primitives.composed import Composed
from curta.primitives.elementwise import neg
from curta.primitives.sorting import TopK, take_along
from curta.primitives.structure import zero_like_output


@dataclass(frozen=True)
class ApproxTopK(Composed):
    """The `k` greatest (or least) elements along a dim, and their indices.

    Here they are always exact. Without `aggregate_to_topk` there are as many as an
    accelerator would leave, of which the first k are those asked for.
    """

    name: ClassVar[str] = "approx_top_k"
    multiple_results: ClassVar[bool] = True
    k: int
    reduction_dimension: int
    recall_target: float
    is_max_k: bool
    reduction_input_size_override: int
    aggregate_to_topk: bool

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        (x,) = avals
        if self.k <= 0:
            raise ValueError(f"k must be positive, got {self.k}")
        if not x.shape:
            raise TypeError(
                f"approx_top_k operand must have >= 1 dimension, got {x.shape}"
            )
        if not -x.ndim <= self.reduction_dimension < x.ndim:
            raise IndexError(
                f"reduction_dimension {self.reduction_dimension} is out of bounds for"
                f" an operand of shape {x.shape}"
            )
        shape = list(x.shape)
        size = shape[self.reduction_dimension]
        if size < self.k:
            raise ValueError(
                f"k must be smaller than the size of reduction_dim {size}, got {self.k}"
            )
        if not dtypes.issubdtype(x.dtype, np.floating):
            raise ValueError(
                f"operand must be a floating type, got {x.dtype.name}: convert it"
            )
        shape[self.reduction_dimension] = self._count(size, x.ndim)
        result = x.update(shape=tuple(shape))
        return [result, result.update(dtype=np.dtype(np.int32))]

    def _count(self, size: int, rank: int) -> int:
        """How many are found: F. Chern et al., "TPU-KNN", 2022, gives the formula."""
        tile = 1024 if rank == 1 else 128
        if self.aggregate_to_topk:
            return self.k
        if is_symbolic_dim(size) or is_symbolic_dim(self.k):
            raise NotImplementedError(
                "approx_top_k with aggregate_to_topk=False not yet implemented when"
                f" either the `k` ({self.k}) or the size of the reduction dimension"
                f" ({size}) are symbolic"
            )
        if size <= tile:
            return size
        if self.k == 1:
            return tile
        override = self.reduction_input_size_override
        whole = override if override >= 0 else size
        bins = int((1 - self.k) / math.log(self.recall_target))
        bins = min(max(bins, tile), size)
        halvings = (whole // bins).bit_length() - 1
        if halvings <= 0:
            return size
        tiles = -(-size // tile)
        halvings = min(halvings, (tiles - 1).bit_length())
        return -(-tiles // (1 << halvings)) * tile

    def compose(self, *args: Any) -> Any:
        (x,) = args
        aval = typeof(x)
        axis = self.reduction_dimension % aval.ndim
        count = self._count(aval.shape[axis], aval.ndim)
        values, indices = TopK(count, axis)(x if self.is_max_k else neg(x))
        return [values if self.is_max_k else neg(values), indices]

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        values, indices = self(*primals)
        none = zero_tangent(typeof(indices))
        if type(tangents[0]) is Zero:
            return [values, indices], [zero_like_output(values), none]
        axis = self.reduction_dimension % typeof(indices).ndim
        return [values, indices], [take_along(tangents[0], indices, axis), none]

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        (x,), (dim,) = args, dims
        assert dim is not None
        reduced = self.reduction_dimension % (typeof(x).ndim - 1)
        op = dataclasses.replace(self, reduction_dimension=reduced + (dim <= reduced))
        return op(x), [dim, dim]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        distinct = ("float", {"distinct": True})
        yield cls(2, -1, 0.95, True, -1, True), [((3, 5), *distinct)]
        yield cls(3, 0, 0.95, False, -1, True), [((4, 2), *distinct)]
        yield cls(1, -1, 0.95, False, -1, False), [((6,), *distinct)]
