"""Calls of LAPACK, and routines for matrices of our own, as ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.compiler.library.lapack_calls import Argument, BatchedCall, Space
from curta.compiler.rewrite.library_op import LibraryOp
from curta.compiler.targets import DEFAULT, Target, Tuning
from curta.core.avals import ShapedArray
from curta.core.op import Flags
from curta.core.trace import typeof
from curta.primitives.linalg.matrices import swapped
from curta.primitives.slicing import Pad

Shape = tuple[int, ...]
INT = np.dtype(np.int32)
LETTERS = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
INFO = ((), INT)


@dataclass(frozen=True)
class Lapack(LibraryOp):
    """A routine of LAPACK called for each matrix of a batch.

    `outs` are the shapes and dtypes of the results for one matrix, `ranks` the ranks of
    one of each operand; `each` is roughly how many operations a call takes. Where none
    of some results is wanted, an argument is the letter that says so: `unwanted` has
    these results, the position, and the letter. The rest is as in `BatchedCall`.
    """

    name: ClassVar[str] = "lapack"
    multiple_results: ClassVar[bool] = True
    always_pruned: ClassVar[bool] = True
    routine_name: str
    arguments: tuple[Argument, ...]
    outs: tuple[tuple[Shape, Any], ...]
    each: int
    copied: tuple[tuple[int, int], ...] = ((0, 0),)
    cleared: tuple[int, ...] = ()
    ranks: tuple[int, ...] = (2,)
    unwanted: tuple[tuple[tuple[int, ...], int, bytes], ...] = ()

    def pruned(self, used: Flags) -> tuple[Lapack, Flags, Flags]:
        arguments = list(self.arguments)
        for results, position, letter in self.unwanted:
            if not any(used[i] for i in results):
                arguments[position] = letter
        op = replace(self, arguments=tuple(arguments))
        return op, (True,) * len(self.ranks), (True,) * len(used)

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        batch = self._batch(avals)
        return [ShapedArray((*batch, *shape), dtype) for shape, dtype in self.outs]

    def eval(self, *args: Any) -> list[Any]:
        operands = [*map(np.ascontiguousarray, args)]
        avals = [ShapedArray(x.shape, x.dtype) for x in operands]
        results = [np.empty(a.shape, a.dtype) for a in self.aval(*avals)]
        # One matrix after the other, whatever the limits.
        self._call(DEFAULT, avals).run(results, operands)
        return results

    def _batch(self, avals: Sequence[ShapedArray]) -> Shape:
        return avals[0].shape[: avals[0].ndim - self.ranks[0]]

    def routine(self, target: Target, *avals: ShapedArray) -> BatchedCall:
        return self._call(target.tuning, avals)

    def _call(self, tuning: Tuning, avals: Sequence[ShapedArray]) -> BatchedCall:
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
            tuning=tuning,
        )


def _bytes(aval: ShapedArray, count: int) -> int:
    return aval.size // count * aval.dtype.itemsize


def real_space(dtype: Any, count: int) -> list[Space]:
    """Workspace of real numbers that routines of complex matrices want besides."""
    return [Space(count * dtype.itemsize // 2)] if dtype.kind == "c" else []


def by_columns(a: Any) -> tuple[Any, int]:
    """Matrices column after column, and how many elements a column is after the last.

    Columns that lie a multiple of 1 KiB apart would share few sets of the first cache.
    """
    aval = typeof(a)
    *batch, m, _ = aval.shape
    x, line = swapped(a), 64 // aval.dtype.itemsize
    if m * aval.dtype.itemsize % 1024:
        return x, m
    edges = (*[(0, 0, 0)] * (len(batch) + 1), (0, line, 0))
    return Pad(edges)(x, np.zeros((), aval.dtype)), m + line
