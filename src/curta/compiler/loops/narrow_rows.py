"""Kernels over the rows of narrow arrays: rows that follow each other become one.

The sum of the rows of an array of three columns would have three lanes, and begin anew
with every row; so would `x + b` with a number for each column. As rows of the array
seen with 64 times as many columns they fill vectors. Of the results of a fold, 64 for
each column, another kernel makes one (rfactor, as in split.py). What an element is
computed from must be elements at the same offset, or be the same for all rows: that is
repeated, before, as often as there are rows in one. Sums in blocks have one order, of
whole kernels: the schedule lets their vectors go along rows as one (flat_rows.py).

Costly values that are the same for all rows, such as a square root, are computed once
in wide arrays, too.

Rows of a few elements that are neither (with a number for each row, of a transposed
array, in an order read from data, with a fold of each) are written out: vectors go
along the rows, and what is stored of a row is stored side by side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.compiler.loops.build import ScalarBuilder
from curta.compiler.loops.costs import cost, kernel_cost, weight
from curta.compiler.loops.flat_rows import (
    adds_up_flat,
    are_kept,
    follow_each_other,
    repeated_values,
    shared_values,
)
from curta.compiler.loops.index import (
    Affine,
    IndexAtom,
    IndexLike,
    LoopVar,
    row_major,
)
from curta.compiler.loops.nodes import (
    Buffer,
    Expr,
    Fold,
    Kernel,
    LoopNest,
    Store,
)
from curta.compiler.loops.rewriter import Rewriter
from curta.compiler.loops.split import Parts
from curta.compiler.loops.summation import BLOCKED, SumOrder, sum_order
from curta.compiler.loops.walks import (
    in_blocks,
    is_running,
    prefers_columns,
)
from curta.compiler.targets import Target, Tuning
from curta.core.dim import is_symbolic_dim


def widen_rows(kernel: Kernel, builder: ScalarBuilder, target: Target) -> list[Kernel]:
    """The kernel itself, or kernels with wider rows."""
    order, tuning = sum_order(target), target.tuning
    parts = [Kernel(kernel.dims, (s,)) for s in kernel.nests]
    if len(parts) > 1 and not all(map(_stands_alone, kernel.nests)):
        return [_with_rows_written_out(kernel, builder, order, tuning)]
    candidates = [_rows(k, order, tuning) for k in parts]
    if len(parts) == 1 and candidates[0] is None:
        return [_with_rows_written_out(kernel, builder, order, tuning)]
    if len(parts) == 1 and candidates[0] is not None:
        return candidates[0].kernels(builder)
    if not any(rows is not None and rows.is_narrow for rows in candidates):
        return [_with_rows_written_out(kernel, builder, order, tuning)]
    result = []
    for part, rows in zip(parts, candidates, strict=True):
        if rows is not None:
            result += rows.kernels(builder)
        elif part.nests[0].folds:
            result.append(part)
        else:
            *outer, column = part.dims
            nest = LoopNest((column,), part.nests[0].stores, ())
            result.append(Kernel((*outer,), (nest,)))
    return result


def _stands_alone(nest: LoopNest) -> bool:
    """Whether it is a fold, or a map of the results of folds."""
    if nest.kept or nest.ordered or is_running(nest):
        return False
    return not nest.stores if nest.folds else not nest.dims


def _rows(kernel: Kernel, order: SumOrder, tuning: Tuning) -> Rows | None:
    """The rows of the one nest, if it gains by wider ones or by what they share."""
    (nest,) = kernel.nests
    if not kernel.dims or not nest.dims or nest.ordered or nest.selective:
        return None
    if nest.kept or is_running(nest) or (nest.folds and nest.stores):
        return None
    if nest.folds:
        if not prefers_columns(kernel):
            return None
        ends = kernel.dims[-1], nest.dims
    else:
        if len(nest.dims) > 1:
            return None
        ends = nest.dims[0], kernel.dims[-1:]
    if any(is_symbolic_dim(v.extent) for v in (*kernel.dims, *nest.dims)):
        return None
    if kernel_cost(kernel) < tuning.narrow_cost:
        return None
    rows = Rows(kernel, order, kernel.dims[:-1], *ends, tuning)
    return rows if rows.is_narrow or rows.is_costly else None


@dataclass(frozen=True, eq=False)
class _Rewritten:
    """The stores and folds of a nest for other columns and rows."""

    column: LoopVar
    row: LoopVar
    stores: tuple[Store, ...]
    folds: tuple[Fold, ...]


@dataclass(frozen=True, eq=False)
class Rows:
    """The one nest of a kernel as rows of columns, for all indices of `outer`.

    The last of the dims `along` counts the rows; a fold goes along all of them.
    """

    kernel: Kernel
    order: SumOrder
    outer: tuple[LoopVar, ...]
    column: LoopVar
    along: tuple[LoopVar, ...]
    tuning: Tuning

    @property
    def nest(self) -> LoopNest:
        return self.kernel.nests[0]

    @cached_property
    def shared(self) -> set[Expr]:
        """The values that vary with the columns, and are the same for all rows."""
        return shared_values(self.nest, self.column, self.along)

    @property
    def repeated(self) -> list[Expr]:
        """The shared values that other values read."""
        return repeated_values(self.nest, self.shared)

    @cached_property
    def is_narrow(self) -> bool:
        """Whether several rows can be one, and do not fill vectors by themselves."""
        tuning, shared = self.tuning, self.shared
        row, columns = self.along[-1], self.column.extent
        if columns >= tuning.narrow_row or row.extent < 2 * tuning.narrow_row:
            return False
        if columns > tuning.filled_row and not columns % tuning.filled_row:
            return False
        if in_blocks(self.nest):
            return adds_up_flat(self.nest, self.column, self.order, tuning)
        return follow_each_other(self.nest, self.column, row, shared)

    @property
    def is_costly(self) -> bool:
        """Whether what rows share, a quotient say, takes longer than to read it."""
        shared = self.shared
        long = math.prod(v.extent for v in self.along) >= self.tuning.narrow_row
        return long and are_kept(shared) and any(weight(e) > 1 for e in shared)

    def kernels(self, builder: ScalarBuilder) -> list[Kernel]:
        """The repeated values, then wider rows, then the remaining rows."""
        if self.is_narrow and in_blocks(self.nest):
            return [self.kernel]
        rows = self.tuning.narrow_row if self.is_narrow else 1
        row = self.along[-1]
        long, left = (LoopVar(row.name, n) for n in divmod(row.extent, rows))
        name = f"{row.name}{self.column.name}" if rows > 1 else self.column.name
        wide = LoopVar(name, rows * self.column.extent)
        part = LoopVar(f"{row.name}_part", rows)
        result, given = self._repeat(part, builder)
        substitution: dict[IndexAtom, IndexLike] = {row: Affine({long: rows}, 0)}
        substitution[self.column] = wide
        whole = Rewriter(builder, substitution.get, given(wide)).body(self.nest)
        parts = [_Rewritten(wide, long, *whole)]
        if left.extent:
            substitution = {row: Affine({left: 1}, row.extent - left.extent)}
            rest = Rewriter(builder, substitution.get).body(self.nest)
            parts.append(_Rewritten(self.column, left, *rest))
        if self.nest.folds and rows > 1:
            return [*result, *self._folds(parts, rows, builder)]
        *inner, _ = self.along
        for p in parts:
            if p.folds:
                nest = LoopNest((*inner, p.row), (), p.folds)
                result.append(Kernel((*self.outer, p.column), (nest,)))
            else:
                nest = LoopNest((p.column,), p.stores, ())
                result.append(Kernel((*self.outer, p.row), (nest,)))
        return result

    def _folds(
        self, rewritten: list[_Rewritten], rows: int, builder: ScalarBuilder
    ) -> list[Kernel]:
        """Folds into parts, and one of the parts; rows that are left make one more."""
        *inner, row = self.along
        part = LoopVar(f"{row.name}_part", rows + len(rewritten) - 1)
        parts = Parts(self.nest.folds, (*self.outer, part, self.column), builder)
        result = []
        # Part `rows` on are those of the rows that are left over.
        for first, r in zip((0, rows), rewritten, strict=False):
            stored = parts.stored(r.folds, (*self.outer, first, r.column))
            nest = LoopNest((*inner, r.row), (), stored)
            result.append(Kernel((*self.outer, r.column), (nest,)))
        read = tuple(
            replace(f, in_order=f.combined)  # rows of a part are not neighbours
            for f in parts.read((*self.outer, part, self.column))
        )
        return [*result, Kernel(self.kernel.dims, (LoopNest((part,), (), read),))]

    def _repeat(
        self, part: LoopVar, builder: ScalarBuilder
    ) -> tuple[list[Kernel], Callable[[IndexLike], dict[Expr, Expr]]]:
        """The kernel that broadcasts shared values, and loads of them in wide rows."""
        index = (*self.outer, part, self.column)
        shape = tuple(v.extent for v in index)
        buffers = {
            e: Buffer(f"repeated{builder.fresh()}", e.dtype, math.prod(shape))
            for e in self.repeated
        }

        def given(column: IndexLike) -> dict[Expr, Expr]:
            there = row_major((*self.outer, 0, column), shape)
            return {
                e: builder.load_where(buffer, there, None, e.dtype)
                for e, buffer in buffers.items()
            }

        if not buffers:
            return [], given
        at = row_major(index, shape)
        stores = tuple(Store(buffer, at, e) for e, buffer in buffers.items())
        nest = LoopNest((self.column,), stores, ())
        return [Kernel((*self.outer, part), (nest,))], given


def _with_rows_written_out(
    kernel: Kernel, builder: ScalarBuilder, order: SumOrder, tuning: Tuning
) -> Kernel:
    """The kernel, or one whose vectors go along rows, of which all is written out."""
    if any(is_symbolic_dim(v.extent) for v in _all_dims(kernel)):
        return kernel
    long = [v for v in kernel.dims if v.extent >= tuning.narrow_row]
    if not long or kernel_cost(kernel) < tuning.narrow_cost:
        return kernel
    at = kernel.dims.index(long[-1])
    row, inner = kernel.dims[at], kernel.dims[at + 1 :]
    rows = _WrittenOut(builder, order, row, inner, tuning)
    if not all(map(rows.is_short, kernel.nests)):
        return kernel
    if sum(map(rows.cost, kernel.nests)) > tuning.expression_cost:
        return kernel
    stores = [x for nest in kernel.nests for x in rows.stores(nest)]
    return Kernel(kernel.dims[:at], (LoopNest((rows.row,), tuple(stores), ()),))


def _all_dims(kernel: Kernel) -> Iterator[LoopVar]:
    yield from kernel.dims
    for nest in kernel.nests:
        yield from nest.dims


@dataclass(frozen=True, eq=False)
class _WrittenOut:
    """Nests without loops but one along the rows; `inner` are dims within a row."""

    builder: ScalarBuilder
    order: SumOrder
    row: LoopVar
    inner: tuple[LoopVar, ...]
    tuning: Tuning

    def is_short(self, nest: LoopNest) -> bool:
        """Whether a nest has a few elements of each row, and stores them in order."""
        if nest.kept or nest.ordered or len(nest.dims) > 1:
            return False
        for f in nest.folds:
            if f.order not in ("chain", "joined"):
                continue
            if not f.running or nest.dims[-1].extent > self.order.register:
                return False
        strips = any(f.order == "strips" for f in nest.folds)
        if strips and math.prod(v.extent for v in nest.dims) > self.order.steps:
            return False
        most, dims = self.tuning.side_by_side, (*self.inner, *nest.dims)
        if any(v.extent > most for v in dims) or len(dims) > 2:
            return False
        apart = [abs(x.offset.coefficient(self.row)) for x in nest.loads]
        if nest.folds and max(apart, default=0) > self.tuning.few_apart:
            return False
        return all(self._is_in_order(s, dims) for s in nest.stores) and all(
            self._is_in_order(s, dims if f.running else self.inner)
            for f in nest.folds
            for s in f.stores
        )

    def _is_in_order(self, store: Store, dims: tuple[LoopVar, ...]) -> bool:
        """Whether what is stored for a row is a piece of memory."""
        count = 1
        for v in reversed((self.row, *dims)):
            step = store.offset.coefficient(v)
            if (step if v == self.row else abs(step)) != count:
                return False
            count *= v.extent
        return store.where is None

    def cost(self, nest: LoopNest) -> int:
        """What a row costs."""
        once = cost(nest) + sum(weight(e) for f in nest.folds for e in f.in_order)
        return once * math.prod(v.extent for v in (*self.inner, *nest.dims))

    def stores(self, nest: LoopNest) -> list[Store]:
        """All that a nest stores for a row: of maps, then of folds."""
        dims = (*self.inner, *nest.dims)
        maps, folds = [], []
        for index in itertools.product(*(range(v.extent) for v in dims)):
            substitution: dict[IndexAtom, IndexLike] = dict(
                zip(dims, index, strict=True)
            )
            stored, folded = Rewriter(self.builder, substitution.get).body(nest)
            maps.append(stored)
            folds.append(folded)
        result = [s for same in zip(*maps, strict=True) for s in same]
        count = math.prod(v.extent for v in nest.dims)
        for parts in zip(*folds, strict=True):
            for first in range(0, len(parts), count):
                result += self._folded(parts[first : first + count])
        return result

    def _folded(self, parts: Sequence[Fold]) -> list[Store]:
        """The results of a fold over as many inputs as there are parts."""
        fold, stores = parts[0], list[Store]()
        total: tuple[Expr, ...] = fold.initial
        if fold.order in BLOCKED:
            order = self.order.strips if fold.order == "strips" else self.order
            terms = [part.inputs for part in parts]
            total = order.total(terms, total, partial(self._both, fold))
            results = self._with(fold.left, total)
            results.rebuilt(s.value for s in parts[-1].stores)
            return [*map(results.store, parts[-1].stores)]
        if fold.running and fold.order != "any":
            return self._scanned(parts)
        for part in parts:
            holes, values = (*fold.left, *fold.right), (*total, *part.inputs)
            total = self._with(holes, values).rebuilt(fold.in_order)
            if fold.running or part is parts[-1]:
                results = self._with(fold.left, total)
                results.rebuilt(s.value for s in part.stores)
                stores += map(results.store, part.stores)
        return sorted(stores, key=lambda s: s.offset.const)

    def _scanned(self, parts: Sequence[Fold]) -> list[Store]:
        """The results of a running fold within a register."""
        fold, values, distance = parts[0], [part.inputs for part in parts], 1
        while distance < len(values):
            taken = zip(values, values[distance:], strict=False)
            values[distance:] = [self._both(fold, x, y) for x, y in taken]
            distance *= 2
        stores = list[Store]()
        for part, value in zip(parts, values, strict=True):
            total = self._both(fold, fold.initial, value)
            results = self._with(fold.left, total)
            results.rebuilt(s.value for s in part.stores)
            stores += map(results.store, part.stores)
        return sorted(stores, key=lambda s: s.offset.const)

    def _both(
        self, fold: Fold, x: tuple[Expr, ...], y: tuple[Expr, ...]
    ) -> tuple[Expr, ...]:
        """Two accumulators as one."""
        return self._with((*fold.left, *fold.right), (*x, *y)).rebuilt(fold.in_order)

    def _with(self, holes: Sequence[Expr], values: Sequence[Expr]) -> Rewriter:
        """What puts values in place of holes."""
        given = dict(zip(holes, values, strict=True))
        return Rewriter(self.builder, lambda atom: None, given)
