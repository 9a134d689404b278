"""What loops with a progress bar tell it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.control.callback import DebugCallback
from curta.core.op import BatchDims, Batched
from curta.primitives.reduction import ReduceMax


@dataclass(frozen=True, eq=False)
class Progress(DebugCallback):
    """Call `callback` with how many iterations are done.

    A batch of loops is one loop, as far as its longest: there is one call for all.
    """

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        if axis.devices:  # which meet in collectives: one call for each
            return super().batch(axis, args, dims)
        furthest = [
            x if d is None else ReduceMax((d,))(x)
            for x, d in zip(args, dims, strict=True)
        ]
        self(*furthest)
        return [], []
