"""Ops that are loops over elements, written out for values in registers.

A reduction halves its rows until one is left, a cumulative one doubles the distance
over which it has added up, a product of matrices is a sum of elementwise products, an
update is a choice between new and old for every element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from curta.compiler.graph.by_class import by_class
from curta.compiler.graph.folds import FoldCode, fold_code, reduced_index, simple_fold
from curta.compiler.graph.matrix_loops import MatrixLoops
from curta.compiler.graph.register_blocks import RegisterBlocks
from curta.compiler.graph.small_matrices import decomposed
from curta.compiler.loops.build import CannotLowerOp
from curta.compiler.loops.element_types import INT32, computed_dtype
from curta.compiler.loops.index import as_index, row_major, unravel
from curta.compiler.loops.lower import Operand
from curta.config import config
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
    distance = 1
    while distance < extent:

        def summed(index: Index, x: Atom = x, by: int = distance) -> Any:
            here, along = lowering.elements.at(x, index), as_index(index[axis])
            before = (*index[:axis], along + (by if op.reverse else -by))
            there = (
                b.compare("lt", along, extent - by)
                if op.reverse
                else b.compare("ge", along, by)
            )
            return b.guarded(
                there,
                lambda: op.combine(
                    b, lowering.elements.at(x, (*before, *index[axis + 1 :])), here
                ),
                here,
            )

        x = lowering.computed(wide, [x], summed)
        distance *= 2
    if working != dtype:
        final = x
        x = lowering.computed(
            aval, [final], lambda at: b.convert(lowering.elements.at(final, at), dtype)
        )
    return x


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

    def term(row: Any, kept: Index) -> tuple[Any, ...]:
        along = unravel(as_index(row), summed)
        indices = factor_indices(op.dimension_numbers, ranks, kept, along)
        x, y = (
            b.convert(lowering.elements.at(v, index), working)
            for v, index in zip(args, indices, strict=True)
        )
        return (b.mul(x, y),)

    if rows > lowering.most_rows and (
        rows > config.tuning.unrolled_terms or aval.size <= 2
    ):
        code = simple_fold(b, working, out, b.add)
        return fold_rows(lowering, args, aval, rows, term, code)

    def total(index: Index) -> Any:
        value = b.const(0, working)
        for row in range(rows):
            value = b.add(value, term(as_index(row), index)[0])
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
    if len(iterations) > config.tuning.unrolled_terms:
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
