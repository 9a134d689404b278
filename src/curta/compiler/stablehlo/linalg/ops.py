"""Algorithms of `compiler/linalg` as ops on whole matrices, in loops of the program.

Parts of matrices are masks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta.compiler.linalg.algorithms import ALGORITHMS, MatrixSpec
from curta.compiler.linalg.parts import Index, Matrix, MatrixMachine, MatrixView, where
from curta.compiler.stablehlo.linalg.tensors import (
    INT,
    Iteration,
    MatrixTensor,
    TensorRange,
    both,
    column_numbers,
    filled,
    inside,
    repeat,
    row_numbers,
    scalar,
    spread,
)
from curta.primitives.elementwise.arithmetic import add, sub
from curta.primitives.linalg.family import not_a_number

Program = Callable[..., Sequence[MatrixTensor]]
"""From an op and matrices, vectors as columns, to matrices."""


class OpMatrix(Matrix):
    """A value that statements replace."""

    def __init__(self, value: MatrixTensor) -> None:
        m, n = value.shape
        self.shape: tuple[int, int] = (m, n)
        self.value = value

    def __getitem__(self, index: tuple[Any, Any]) -> Any:
        rows, columns = map(_selected, index)
        strip = self._strip(rows, columns)
        return MatrixTensor(
            strip.value, rows if isinstance(rows, TensorRange) else None
        )

    def _strip(self, rows: Any, columns: Any) -> MatrixTensor:
        """The row, or the column, if one is selected."""
        value = self.value
        if not isinstance(rows, TensorRange):
            value = value.row(scalar(rows))
        if not isinstance(columns, TensorRange):
            value = value.column(scalar(columns))
        return value

    def __setitem__(self, index: tuple[Any, Any], part: Any) -> None:
        rows, columns = map(_selected, index)
        dtype, strip, mask = self.value.dtype, self._strip(rows, columns), None
        new = part if isinstance(part, MatrixTensor) else filled(1, 1, dtype, part)
        new = new if new.dtype == dtype else new.astype(dtype)
        for axis, selected in enumerate((rows, columns)):
            if isinstance(selected, TensorRange):
                numbers = (column_numbers if axis else row_numbers)(self.shape[axis])
                mask = both(mask, inside(numbers, selected))
        new = spread(new, strip.shape) if mask is None else where(mask, new, strip)
        i, j = (scalar(0 if isinstance(x, TensorRange) else x) for x in (rows, columns))
        whole = new.shape == self.shape
        self.value = new if whole else self.value.with_part(i, j, new)

    def set_nan_where(self, condition: Any) -> None:
        dtype = self.value.dtype
        nan = filled(*self.shape, dtype, not_a_number(dtype))
        self.value = where(condition, nan, self.value)


def _selected(index: Any) -> Any:
    return TensorRange(index.start, index.stop) if isinstance(index, slice) else index


class OpMachine(MatrixMachine):
    """Records ops and loops of the program; `dtype` is that of the numbers."""

    def __init__(self, dtype: np.dtype[Any]) -> None:
        self.dtype = dtype
        self._matrices: list[OpMatrix] = []

    def matrix(self, value: MatrixTensor) -> OpMatrix:
        """A matrix that statements may change."""
        self._matrices.append(OpMatrix(value))
        return self._matrices[-1]

    @property
    def limits(self) -> Any:
        return np.finfo(self.dtype)

    def constant(self, value: float | bool) -> Any:
        dtype = np.dtype(bool) if isinstance(value, bool) else self.limits.dtype
        return filled(1, 1, dtype, value)

    def repeat(
        self,
        start: int,
        stop: int,
        body: Callable[..., Any],
        *carried: Any,
        reverse: bool = False,
    ) -> Sequence[Any]:
        if stop - start < 2:
            return (body(start, *carried) or ()) if start < stop else carried
        matrices, count = self._matrices, len(carried)
        given = [*carried, *(x.value for x in matrices)]

        def assign(values: Sequence[MatrixTensor]) -> None:
            for matrix, value in zip(matrices, values[count:], strict=True):
                matrix.value = value

        def step(i: Any, *values: MatrixTensor) -> list[MatrixTensor]:
            assign(values)
            number = sub(INT.type(stop - 1), i) if reverse else add(i, INT.type(start))
            following = body(Iteration(number), *values[:count]) or ()
            return [*following, *(x.value for x in matrices)]

        results = repeat(stop - start, step, given)
        assign(results)
        return results[:count]

    def set_rows(self, *rows: tuple[Matrix, Index, Any]) -> None:
        for matrix, i, part in rows:
            matrix[i, :] = part

    def by_columns(self, a: Matrix, start: Index, body: Callable[[Any], None]) -> None:
        body(slice(start, None))

    def number_rows(self, a: Matrix) -> None:
        assert isinstance(a, OpMatrix)
        a.value = row_numbers(a.shape[0])

    def exchange_rows(
        self, k: Index, other: Any, *matrices: Matrix, start: Index | None = None
    ) -> None:
        there = other.reshape().value
        for a in matrices:
            assert isinstance(a, OpMatrix)
            a.value = a.value.with_rows_swapped(scalar(k), there)


def algorithm(cls: type) -> Program:
    """The program of an op of a class."""
    describe = ALGORITHMS[cls]

    def run(op: Any, *args: MatrixTensor) -> Sequence[MatrixTensor]:
        found = describe(op, *(x.shape for x in args))
        p = OpMachine(args[0].dtype)
        given = dict(zip(found.operands, args, strict=True))
        matrices = [
            p.matrix(_seen(given[i], array))
            if i in given
            else p.matrix(filled(*array.shape, INT if array.integer else p.dtype))
            for i, array in enumerate(found.arrays)
        ]
        found.function(p, *matrices, *found.options)
        return [_seen(matrices[i].value, found.arrays[i]) for i in found.results]

    return run


def _seen(x: MatrixTensor, array: MatrixSpec) -> MatrixTensor:
    """An array as it is seen, or back."""
    assert array.view in (MatrixView(), MatrixView(True))
    return x.T if array.view.transposed else x
