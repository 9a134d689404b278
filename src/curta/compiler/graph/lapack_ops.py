"""Calls of LAPACK, and routines for matrices of our own, as ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from curta.compiler.graph.routines import LibraryOp
from curta.compiler.library.lapack_calls import Argument, BatchedCall, Space
from curta.core.avals import ShapedArray
from curta.lazy_dataclass import dataclass

Shape = tuple[int, ...]
INT = np.dtype(np.int32)
LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
INFO = ((), INT)


@dataclass(frozen=True)
class Lapack(LibraryOp):
    """A routine of LAPACK called for each matrix of a batch.

    `outs` are the shapes and dtypes of the results for one matrix, `ranks` the ranks of
    one of each operand; `each` is roughly how many operations a call takes. The rest is
    as in `BatchedCall`.
    """

    name: ClassVar[str] = "lapack"
    multiple_results: ClassVar[bool] = True
    routine_name: str
    arguments: tuple[Argument, ...]
    outs: tuple[tuple[Shape, Any], ...]
    each: int
    copied: tuple[tuple[int, int], ...] = ((0, 0),)
    cleared: tuple[int, ...] = ()
    ranks: tuple[int, ...] = (2,)

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        batch = self._batch(avals)
        return [ShapedArray((*batch, *shape), dtype) for shape, dtype in self.outs]

    def eval(self, *args: Any) -> list[Any]:
        operands = [*map(np.ascontiguousarray, args)]
        avals = [ShapedArray(x.shape, x.dtype) for x in operands]
        results = [np.empty(a.shape, a.dtype) for a in self.aval(*avals)]
        self.routine(*avals).run(results, operands)
        return results

    def _batch(self, avals: Sequence[ShapedArray]) -> Shape:
        return avals[0].shape[: avals[0].ndim - self.ranks[0]]

    def routine(self, *avals: ShapedArray) -> BatchedCall:
        count = int(np.prod(self._batch(avals), dtype=int))
        return BatchedCall(
            LETTERS[avals[0].dtype.name] + self.routine_name,
            self.arguments,
            count,
            tuple(_bytes(a, count) for a in self.aval(*avals)),
            tuple(_bytes(a, count) for a in avals),
            self.copied,
            self.cleared,
            self.each,
        )


def _bytes(aval: ShapedArray, count: int) -> int:
    return aval.size // count * aval.dtype.itemsize


def real_space(dtype: Any, count: int) -> list[Space]:
    """Workspace of real numbers that routines of complex matrices want besides."""
    return [Space(count * dtype.itemsize // 2)] if dtype.kind == "c" else []
