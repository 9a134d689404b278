"""Ops that are loops over elements, written out for values in registers.

A reduction halves its rows until one is left, a cumulative one doubles the distance
over which it has added up, a product of matrices is a sum of elementwise products, an
update is a choice between new and old for every element.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from curta.compiler.loops.build import CannotLowerOp
from curta.compiler.loops.element_types import INT32, computed_dtype, wide_dtype
from curta.compiler.loops.folds import (
    FoldCode,
    columns_of,
    cumulative_fold,
    fold_code,
    reduced_index,
    simple_fold,
)
from curta.compiler.loops.index import as_index, row_major, unravel
from curta.compiler.loops.lower import Operand
from curta.compiler.loops.summation import sum_kind, sum_order
from curta.compiler.lower.dots import is_matrix_product, words_of
from curta.compiler.lower.register_blocks import RegisterBlocks
from curta.compiler.lower.small_matrices import decomposed
from curta.compiler.rewrite.by_class import by_class
from curta.compiler.rewrite.matrix_loops import MatrixLoops
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom
from curta.core.op import Op
from curta.dtypes import physical_dtype
from curta.primitives.cumulative import Cumulative
from curta.primitives.dot import DotGeneral, factor_indices
from curta.primitives.families import Reduction
from curta.primitives.indexing.windows import WindowUpdate, clamp_start
from curta.primitives.reduction import ArgReduction

Index = tuple[Any, ...]
Scalars = tuple[Any, ...]


def unroll(
    lowering: RegisterBlocks,
    op: Any,
    args: Sequence[Atom],
    avals: Sequence[ShapedArray],
) -> list[Atom] | None:
    """The results of such an op, computed; None for any other."""
    rule = by_class(_RULES, op)
    return None if rule is None else rule(lowering, op, args, avals)


def _of_one(rule: Callable[..., Atom]) -> Callable[..., list[Atom]]:
    """A rule for ops with one result, as one for several."""
    return lambda lowering, op, args, avals: [rule(lowering, op, args, avals[0])]


# ------------------------------------------------------------------ reductions


def _reduction(
    lowering: RegisterBlocks, op: Any, args: Sequence[Atom], aval: ShapedArray
) -> Atom:
    (operand,) = args
    shape, axes = operand.aval.shape, sorted(op.params()["axes"])
    code = fold_code(op, lowering.builder, physical_dtype(operand.aval.dtype))
    reduced = tuple(shape[a] for a in axes)

    def element(row: Any, kept: Index) -> tuple[Any, ...]:
        along = unravel(as_index(row), reduced)
        index = reduced_index(axes, along, kept)
        position = along[0] if axes else 0
        return code.inputs(lowering.elements.at(operand, index), position)

    rows = math.prod(reduced)
    if code.order != "any":
        columns = columns_of(shape, axes)
        return sum_rows(lowering, args, aval, rows, element, code, columns)
    return fold_rows(lowering, args, aval, rows, element, code)


Element = Callable[[Any, Index], tuple[Any, ...]]
"""The accumulators of a row, at an index of the result."""


def fold_rows(
    lowering: RegisterBlocks,
    args: Sequence[Atom],
    aval: ShapedArray,
    rows: int,
    element: Element,
    code: FoldCode,
) -> Atom:
    """`element(row, index)` folded over the rows, for each index of the result."""
    while rows > lowering.most_rows:
        args, element = _halved(lowering, args, aval, rows, element, code)
        rows = -(-rows // 2)

    def folded(kept: Index) -> Any:
        # A sum begins with 0, which matters if all terms are -0.0.
        terms = [code.initial, *(element(as_index(r), kept) for r in range(rows))]
        while len(terms) > 1:
            pairs = zip(terms[::2], terms[1::2], strict=False)
            last = terms[-1:] if len(terms) % 2 else []
            terms = [code.combine(x, y) for x, y in pairs] + last
        return code.result(terms[0])

    return lowering.computed(aval, args, folded)


def _halved(
    lowering: RegisterBlocks,
    args: Sequence[Atom],
    aval: ShapedArray,
    rows: int,
    element: Element,
    code: FoldCode,
) -> tuple[Sequence[Atom], Element]:
    """Each row of the first half combined with its partner in the second, if any."""
    b, half = lowering.builder, -(-rows // 2)

    def combined(index: Index, i: int) -> Any:
        row, *kept = index
        first = element(row, tuple(kept))

        def both() -> Any:
            return code.combine(first, element(row + half, tuple(kept)))[i]

        if rows % 2 == 0:
            return both()
        return b.guarded(b.compare("lt", row, rows - half), both, first[i])

    result = [
        lowering.computed(
            ShapedArray((half, *aval.shape), start.dtype),
            args,
            lambda index, i=i: combined(index, i),
        )
        for i, start in enumerate(code.initial)
    ]
    return result, lambda row, kept: tuple(
        lowering.elements.at(a, (row, *kept)) for a in result
    )


def sum_rows(
    lowering: RegisterBlocks,
    args: Sequence[Atom],
    aval: ShapedArray,
    rows: int,
    element: Element,
    code: FoldCode,
    columns: int,
    most: int | None = None,
) -> Atom:
    """`element(row, index)` added up over the rows, in the order of sums.

    `most` rows are taken in by one expression. See loops/summation.py.
    """
    most = lowering.most_rows if most is None else most
    order = sum_order(lowering.target, sum_kind(columns, lowering.tuning))
    if not order.is_one_group(rows):
        raise CannotLowerOp(f"a sum of {rows} rows")
    if rows <= most or order.lanes == 1:

        def folded(kept: Index) -> Any:
            terms = [element(as_index(r), kept) for r in range(rows)]
            return code.result(order.total(terms, code.initial, code.combine))

        return lowering.computed(aval, args, folded)
    step = partial(_rows_combined, lowering, aval, code)
    count = order.accumulators(rows)
    if rows > count:
        args, element = step(args, element, rows, count, count, 1)
        rows = count
    while count > order.register:
        count //= 2
        if rows > count:
            args, element = step(args, element, rows, count, count, 1)
            rows = count
    while rows > most:
        args, element = step(args, element, rows, -(-rows // 2), 1, 2)
        rows = -(-rows // 2)
    pairs = dataclasses.replace(order, lanes=order.register)

    def ended(kept: Index) -> Any:
        terms = [element(as_index(r), kept) for r in range(rows)]
        return code.result(pairs.total(terms, code.initial, code.combine))

    return lowering.computed(aval, args, ended)


def _more(code: FoldCode, total: Scalars, element: Callable[[], Scalars]) -> Scalars:
    """Accumulators that have taken in one more element."""
    return code.combine(total, element())


def _where(b: Any, there: Any, more: Callable[[], Scalars], total: Scalars) -> Scalars:
    """Accumulators with one more element, where it is there."""

    def part(i: int) -> Any:
        return b.guarded(there, lambda: more()[i], total[i])

    return tuple(map(part, range(len(total))))


def _rows_combined(
    lowering: RegisterBlocks,
    aval: ShapedArray,
    code: FoldCode,
    args: Sequence[Atom],
    element: Element,
    rows: int,
    left: int,
    apart: int,
    stride: int,
) -> tuple[Sequence[Atom], Element]:
    """`left` rows: each begins at `stride` times its number, and takes in all `apart`.

    With a stride of 2 it takes in one neighbour.
    """
    b = lowering.builder
    times = 2 if stride == 2 else -(-rows // apart)

    def combined(index: Index, i: int) -> Any:
        row, *kept = index
        first = as_index(row) * stride
        total = element(first, tuple(kept))
        for k in range(1, times):
            other, known = first + k * apart, (left - 1) * stride + k * apart < rows
            there = None if known else b.compare("lt", other, rows)
            more = partial(_more, code, total, partial(element, other, tuple(kept)))
            total = more() if there is None else _where(b, there, more, total)
        return total[i]

    result = [
        lowering.computed(
            ShapedArray((left, *aval.shape), start.dtype),
            args,
            lambda index, i=i: combined(index, i),
        )
        for i, start in enumerate(code.initial)
    ]
    return result, lambda row, kept: tuple(
        lowering.elements.at(a, (row, *kept)) for a in result
    )


def _cumulative(
    lowering: RegisterBlocks, op: Cumulative, args: Sequence[Atom], aval: ShapedArray
) -> Atom:
    b, axis, extent = lowering.builder, op.axis, aval.shape[op.axis]
    dtype = physical_dtype(aval.dtype)
    working = computed_dtype(dtype)
    wide = ShapedArray(aval.shape, working)
    (x,) = args
    if working != dtype:
        x = lowering.computed(
            wide, args, lambda at: b.convert(lowering.elements.at(args[0], at), working)
        )
    code = cumulative_fold(op, b, working, dtype)
    if any(d != 1 for d in aval.shape[axis + 1 :]):
        return _row_by_row(lowering, op, x, aval, working)
    ordered = code.order != "any"
    most = sum_order(lowering.target).running
    group = min(extent, most) if ordered else extent
    distance = 1
    while distance < group:

        def summed(index: Index, x: Atom = x, by: int = distance) -> Any:
            here, along = lowering.elements.at(x, index), as_index(index[axis])
            before = (*index[:axis], along + (by if op.reverse else -by))
            place = (extent - 1 - along) if op.reverse else along
            inside = place % group if group < extent else place
            return b.guarded(
                b.compare("ge", inside, by),
                lambda: code.combine(
                    (lowering.elements.at(x, (*before, *index[axis + 1 :])),), (here,)
                )[0],
                here,
            )

        x = lowering.computed(wide, [x], summed)
        distance *= 2
    return _groups_joined(lowering, op, x, aval, code, group)


def _groups_joined(
    lowering: RegisterBlocks,
    op: Cumulative,
    x: Atom,
    aval: ShapedArray,
    code: FoldCode,
    group: int,
) -> Atom:
    """Running sums within groups of elements, and what the groups before come to."""
    b, axis, extent = lowering.builder, op.axis, aval.shape[op.axis]
    dtype = physical_dtype(aval.dtype)
    working = x.aval.dtype
    total = wide_dtype(working) if code.order == "blocks" else working
    joined = cumulative_fold(op, b, total, dtype)

    def result(index: Index) -> Any:
        along = as_index(index[axis])
        place = (extent - 1 - along) if op.reverse else along
        number, value = place // group, joined.initial

        def last(k: int) -> Any:
            at = (k + 1) * group - 1
            at = extent - 1 - at if op.reverse else at
            element = lowering.elements.at(x, (*index[:axis], at, *index[axis + 1 :]))
            return (b.convert(element, total),)

        for k in range(-(-extent // group) - 1):
            more = joined.combine(value, last(k))
            value = (b.select(b.compare("gt", number, k), more[0], value[0]),)
        own = lowering.elements.at(x, index)
        if code.order != "any":
            before = b.convert(value[0], working)
            own = code.combine((before,), (own,))[0]
        return b.convert(own, dtype)

    return lowering.computed(aval, [x], result)


def _row_by_row(
    lowering: RegisterBlocks,
    op: Cumulative,
    x: Atom,
    aval: ShapedArray,
    working: Any,
) -> Atom:
    """Rows one after the other, each with what those before it come to."""
    b, axis, extent = lowering.builder, op.axis, aval.shape[op.axis]
    dtype = physical_dtype(aval.dtype)
    code = cumulative_fold(op, b, working, dtype)
    if code.order == "blocks":
        working = wide_dtype(working)
        code = cumulative_fold(op, b, working, dtype)
    columns = ShapedArray(aval.shape[:axis] + aval.shape[axis + 1 :], working)
    rows: list[Atom] = []
    for k in range(extent):
        at = extent - 1 - k if op.reverse else k

        def total(column: Index, at: int = at) -> Any:
            index = (*column[:axis], at, *column[axis:])
            own = b.convert(lowering.elements.at(x, index), working)
            if not rows:
                return own
            return code.combine((lowering.elements.at(rows[-1], column),), (own,))[0]

        rows.append(lowering.computed(columns, [x, *rows[-1:]], total))

    def result(index: Index) -> Any:
        along, column = as_index(index[axis]), (*index[:axis], *index[axis + 1 :])
        place = (extent - 1 - along) if op.reverse else along
        value = lowering.elements.at(rows[0], column)
        for k, row in enumerate(rows[1:], 1):
            new = lowering.elements.at(row, column)
            value = b.select(b.compare("ge", place, k), new, value)
        return b.convert(value, dtype)

    return lowering.computed(aval, rows, result)


# -------------------------------------------------------------------- products


def _product(
    lowering: RegisterBlocks, op: DotGeneral, args: Sequence[Atom], aval: ShapedArray
) -> Atom:
    b, out = lowering.builder, physical_dtype(aval.dtype)
    working = computed_dtype(out)
    summed = tuple(args[0].aval.shape[d] for d in op.dimension_numbers[0][0])
    ranks = [v.aval.ndim for v in args]
    rows = math.prod(summed)
    if rows * lowering.elements_of(aval) > lowering.most_products:
        raise CannotLowerOp(f"{rows} products for each of {aval.size} elements")

    def factors(row: Any, kept: Index) -> tuple[Any, Any]:
        along = unravel(as_index(row), summed)
        indices = factor_indices(op.dimension_numbers, ranks, kept, along)
        x, y = (
            b.convert(lowering.elements.at(v, index), working)
            for v, index in zip(args, indices, strict=True)
        )
        return x, y

    def term(row: Any, kept: Index) -> tuple[Any, ...]:
        return (b.product(*factors(row, kept)),)

    left, right = (v.aval for v in args)
    if not is_matrix_product(op, left, right, working):
        code = simple_fold(b, working, out, b.sum)
        large = max((0, 1), key=lambda side: args[side].aval.size)
        shape, axes = args[large].aval.shape, op.dimension_numbers[0][large]
        columns, most = columns_of(shape, axes), lowering.most_rows
        if rows <= lowering.tuning.unrolled_terms and aval.size > 2:
            most = lowering.tuning.unrolled_terms
        return sum_rows(lowering, args, aval, rows, term, code, columns, most)
    if words_of(op, left, right, working, lowering.target):
        raise CannotLowerOp("products of words are added up two at a time")

    def total(index: Index) -> Any:
        # As the tiles of library/tile.py, one step after the other.
        value = b.const(0, working)
        for row in range(rows):
            value = b.muladd(*factors(as_index(row), index), value)
        return b.convert(value, out)

    return lowering.computed(aval, args, total)


# --------------------------------------------------------------------- updates


def _updates(
    lowering: RegisterBlocks,
    op: WindowUpdate,
    args: Sequence[Atom],
    aval: ShapedArray,
) -> Atom:
    """Updates of single elements, one after the other; windows with many at once."""
    if op.replaces_window and args[1].aval.size > lowering.most_rows:
        return _window(lowering, args, aval)
    b, elements = lowering.builder, lowering.elements
    iterations = lowering.indices(op.update_shape(*[a.aval for a in args]))
    if len(iterations) > lowering.tuning.unrolled_terms:
        raise CannotLowerOp(f"{len(iterations)} updates in order")
    current = args[0]
    for at in iterations:
        operands = [Operand(a.aval, a, elements) for a in args]
        element, inside, new = op.lower_update(b, at, *operands)

        def updated(
            index: Index, old: Atom = current, at: Index = at, element: Index = element,
            inside: Any = inside, new: Callable[[Any], Any] = new,
        ) -> Any:  # fmt: skip
            lowering.require_own(index, at, element)
            hit = _is_at(b, index, element, aval.shape)
            before = elements.at(old, index)
            hit = hit if inside is None else b.and_(hit, inside)
            return b.select(hit, new(before), before)

        current = lowering.computed(aval, [*args, current], updated)
    return current


def _is_at(b: Any, index: Index, element: Index, shape: tuple[int, ...]) -> Any:
    """Whether two indices are equal; dims in which they always agree do not count."""
    dims = [k for k, i in enumerate(index) if as_index(i) != as_index(element[k])]
    kept = tuple(shape[k] for k in dims)
    here, there = (row_major([x[k] for k in dims], kept) for x in (index, element))
    return b.compare("eq", b.index_value(here, INT32), b.index_value(there, INT32))


def _window(lowering: RegisterBlocks, args: Sequence[Atom], aval: ShapedArray) -> Atom:
    """`dynamic_update_slice`: each element is that of the window, if it is in it."""
    x, update, *starts = args
    b, elements, sizes = lowering.builder, lowering.elements, update.aval.shape
    bounded = []
    for start, extent, size in zip(starts, aval.shape, sizes, strict=True):
        clamped, _ = clamp_start(b, elements.at(start, ()), extent - size)
        bounded.append(clamped.as_index())

    def updated(index: Index) -> Any:
        old = elements.at(x, index)
        within = b.const(True, "bool")
        source = []
        for i, start, size in zip(index, bounded, sizes, strict=True):
            inner = as_index(i) - start
            source.append(inner if size > 1 else as_index(0))
            low, high = b.compare("ge", inner, 0), b.compare("lt", inner, size)
            within = b.and_(within, b.and_(low, high))
        return b.guarded(within, lambda: elements.at(update, tuple(source)), old)

    return lowering.computed(aval, args, updated)


_RULES: dict[type[Op], Callable[..., list[Atom]]] = {
    Reduction: _of_one(_reduction),
    ArgReduction: _of_one(_reduction),
    DotGeneral: _of_one(_product),
    Cumulative: _of_one(_cumulative),
    WindowUpdate: _of_one(_updates),
    MatrixLoops: decomposed,
}
