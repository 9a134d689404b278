"""Arrays that travel between hosts together, as one array.

The parts are written next to each other by whatever computes them, in native code.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from curta.compiler.rewrite.inline import Function
from curta.core.avals import ShapedArray
from curta.primitives.host_collectives import HostBucket
from curta.primitives.joining import Concatenate
from curta.primitives.slicing import Slice
from curta.primitives.structure import Reshape


def together(op: HostBucket, avals: Sequence[ShapedArray]) -> Function:
    """The function that a bucket stands for."""
    ends = list(accumulate(a.size for a in avals))

    def joined(*args: Any) -> list[Any]:
        flat = [Reshape((a.size,))(x) for x, a in zip(args, avals, strict=True)]
        total = op.each(Concatenate(0)(*flat))
        return [
            Reshape(a.shape)(Slice((end - a.size,), (end,))(total))
            for end, a in zip(ends, avals, strict=True)
        ]

    return joined
