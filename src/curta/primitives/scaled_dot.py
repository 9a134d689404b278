"""`scaled_dot`: products of matrices of small floats with scales for blocks of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.core.avals import ShapedArray
from curta.core.op import BatchDims, Batched
from curta.core.trace import typeof
from curta.primitives.composed import Composed
from curta.primitives.dot import DotDims, DotGeneral, others
from curta.primitives.elementwise import mul
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.structure import BroadcastInDim, batch_dim_at, reshape

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


@dataclass(frozen=True)
class ScaledDot(Composed):
    """`dot_general` of operands times their scales, which are rounded to bfloat16.

    Operands: lhs, rhs and their scales, which are smaller along contracting dims.
    """

    name: ClassVar[str] = "scaled_dot"
    dimension_numbers: DotDims
    preferred_element_type: Any = None

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        lhs, rhs, lhs_scale, rhs_scale = avals
        ranks = [a.ndim for a in avals]
        if len(set(ranks)) > 1:
            raise TypeError(
                "All input tensors must have the same rank. Got lhs rank:"
                f" {ranks[0]} rhs rank: {ranks[1]} lhs_scale rank: {ranks[2]} rhs_scale"
                f" rank: {ranks[3]}."
            )
        contract, batch = self.dimension_numbers
        for dims, what in (batch, "batch"), (contract, "contracting"):
            if len(dims[0]) != len(dims[1]):
                raise TypeError(
                    f"LHS and RHS must have the same number of {what} dimensions, got"
                    f" {len(dims[0])} and {len(dims[1])}."
                )
        for i, j in zip(*batch, strict=True):
            sizes = [lhs.shape[i], lhs_scale.shape[i], rhs.shape[j], rhs_scale.shape[j]]
            if len(set(sizes)) > 1:
                raise TypeError(
                    "All input tensors must have the same batch dimension size for"
                    f" batch dims ({i}, {j}), got {sizes}."
                )
        for i, j in zip(*contract, strict=True):
            if lhs.shape[i] != rhs.shape[j]:
                raise TypeError(
                    f"LHS contracting dim {i} of size {lhs.shape[i]} does not match RHS"
                    f" contracting dim {j} of size {rhs.shape[j]}."
                )
        _check_scale("LHS", lhs.shape, lhs_scale.shape, contract[0])
        _check_scale("RHS", rhs.shape, rhs_scale.shape, contract[1])
        shape = (
            *(lhs.shape[d] for d in batch[0]),
            *(lhs.shape[d] for d in others(lhs.ndim, contract[0], batch[0])),
            *(rhs.shape[d] for d in others(rhs.ndim, contract[1], batch[1])),
        )
        return ShapedArray(shape, np.dtype(self.preferred_element_type or BFLOAT16))

    def compose(self, *args: Any) -> Any:
        lhs, rhs, lhs_scale, rhs_scale = args
        wanted = self.preferred_element_type
        dot = DotGeneral(self.dimension_numbers, None, wanted)
        return dot(_scaled(lhs, lhs_scale), _scaled(rhs, rhs_scale))

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        fronted = [
            batch_dim_at(x, d, axis.size, 0) for x, d in zip(args, dims, strict=True)
        ]
        contract, batch = (
            [tuple(d + 1 for d in side) for side in pair]
            for pair in self.dimension_numbers
        )
        numbers: Any = tuple(contract), ((0, *batch[0]), (0, *batch[1]))
        op = dataclasses.replace(self, dimension_numbers=numbers)
        return op(*fronted), 0

    @classmethod
    def samples(cls) -> Iterator[Any]:
        numbers = ((2,), (1,)), ((0,), (0,))
        arrays = [((2, 3, 4), "bfloat16"), ((2, 4, 2), "bfloat16")]
        scales = [((2, 3, 2), "bfloat16"), ((2, 1, 2), "bfloat16")]
        domain = {"constant": True}
        yield cls(numbers), [(s, BFLOAT16, domain) for s, _ in arrays + scales]
        yield (
            cls(numbers, np.dtype("float32")),
            [(s, BFLOAT16, domain) for s, _ in arrays + scales],
        )


def _check_scale(
    side: str, shape: Sequence[int], scale: Sequence[int], contract: Sequence[int]
) -> None:
    for i, (size, blocks) in enumerate(zip(shape, scale, strict=True)):
        if i not in contract:
            if size != blocks:
                raise TypeError(
                    f"{side} dim {i} of size {size} does not match scale dim size"
                    f" {blocks}."
                )
        elif size % blocks:
            raise TypeError(
                f"{side} contracting dim {i} of size {size} must be divisible by its"
                f" scale's dim size {blocks}."
            )
        elif size // blocks < 2:
            raise TypeError(
                f"The ratio of {side} contracting dim {i} to its scale's dim size"
                f" ({size // blocks}) must be at least 2."
            )


def _scaled(x: Any, scale: Any) -> Any:
    """`x` times its scale, each of whose elements stands for a block."""
    shape, blocks = typeof(x).shape, typeof(scale).shape
    split: list[int] = []
    kept: list[int] = []
    for size, count in zip(shape, blocks, strict=True):
        kept.append(len(split))
        split += [count, size // count] if count != size else [count]
    scale = convert_element_type(scale, BFLOAT16)
    if tuple(split) != blocks:
        scale = reshape(BroadcastInDim(tuple(split), tuple(kept))(scale), shape)
    return mul(convert_element_type(x, BFLOAT16), scale)
