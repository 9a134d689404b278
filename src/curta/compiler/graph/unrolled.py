"""Ops that are loops over elements, written out for values in registers.

A reduction halves its rows until one is left, a cumulative one doubles the distance
over which it has added up, a product of matrices is a sum of elementwise products, an
update is a choice between new and old for every element.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from curta.compiler.graph.folds import FoldCode, fold_code, is_fold
from curta.compiler.loops.build import FLOAT32, INT32, NoLowering, is_half
from curta.compiler.loops.index import as_index, row_major, unravel
from curta.compiler.loops.lower import Operand
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, Var
from curta.dtypes import physical_dtype
from curta.primitives.cumulative import Cumulative
from curta.primitives.dot import DotGeneral, others
from curta.primitives.indexing.dynamic import DynamicUpdateSlice
from curta.primitives.indexing.windows import WindowUpdate, clamp_start

if TYPE_CHECKING:
    from curta.compiler.graph.registers import RegisterMaker

Index = tuple[Any, ...]
MOST_ROWS = 4  # of a reduction that are added up in one expression
MOST_TERMS = 32  # of a sum of products, or updates one after the other


def unroll(
    maker: RegisterMaker, op: Any, args: Sequence[Atom], avals: Sequence[ShapedArray]
) -> list[Atom] | None:
    """The result of such an op, computed; None for any other."""
    if is_fold(op):
        return [_reduction(maker, op, args, avals[0])]
    if isinstance(op, DotGeneral):
        return [_product(maker, op, args, avals[0])]
    if isinstance(op, Cumulative):
        return [_cumulative(maker, op, args, avals[0])]
    if isinstance(op, DynamicUpdateSlice) and args[1].aval.size > MOST_ROWS:
        return [_window(maker, args, avals[0])]
    if isinstance(op, WindowUpdate):
        return [_updates(maker, op, args, avals[0])]
    return None


# ------------------------------------------------------------------ reductions


def _reduction(
    maker: RegisterMaker, op: Any, args: Sequence[Atom], aval: ShapedArray
) -> Atom:
    (operand,) = args
    shape, axes = operand.aval.shape, sorted(op.params()["axes"])
    code = fold_code(op, maker.builder, physical_dtype(operand.aval.dtype))
    reduced = tuple(shape[a] for a in axes)

    def element(row: Any, kept: Index) -> tuple[Any, ...]:
        along = dict(zip(axes, unravel(as_index(row), reduced), strict=True))
        rest = iter(kept)
        index = tuple(along[k] if k in along else next(rest) for k in range(len(shape)))
        place = along[axes[0]] if axes else 0
        return code.inputs(maker.elements.at(operand, index), place)

    rows = _size(reduced)
    return fold_rows(maker, args, aval, rows, element, code)


def fold_rows(
    maker: RegisterMaker,
    args: Sequence[Atom],
    aval: ShapedArray,
    rows: int,
    element: Callable[[Any, Index], tuple[Any, ...]],
    code: FoldCode,
) -> Atom:
    """`element(row, index)` folded over the rows, for each index of the result."""
    b = maker.builder
    while rows > MOST_ROWS:
        half = -(-rows // 2)

        def halved(place: Index, i: int, rows: int = rows, half: int = half) -> Any:
            row, *kept = place
            first = element(row, tuple(kept))
            if rows % 2 == 0:
                return code.combine(first, element(row + half, tuple(kept)))[i]
            there = b.compare("lt", row, rows - half)
            return b.guarded(
                there,
                lambda: code.combine(first, element(row + half, tuple(kept)))[i],
                first[i],
            )

        accumulators = [
            maker.computed(
                ShapedArray((half, *aval.shape), start.dtype),
                args,
                lambda place, i=i, at=halved: at(place, i),
            )
            for i, start in enumerate(code.initial)
        ]
        args = accumulators

        def element(
            row: Any, kept: Index, found: list[Var] = accumulators
        ) -> tuple[Any, ...]:
            return tuple(maker.elements.at(a, (row, *kept)) for a in found)

        rows = half

    def folded(kept: Index) -> Any:
        # A sum begins with 0, which matters if all terms are -0.0.
        terms = [code.initial, *(element(as_index(r), kept) for r in range(rows))]
        while len(terms) > 1:
            pairs = zip(terms[::2], terms[1::2], strict=False)
            last = terms[-1:] if len(terms) % 2 else []
            terms = [code.combine(x, y) for x, y in pairs] + last
        return code.result(terms[0])

    return maker.computed(aval, args, folded)


def _cumulative(
    maker: RegisterMaker, op: Cumulative, args: Sequence[Atom], aval: ShapedArray
) -> Atom:
    b, axis, extent = maker.builder, op.axis, aval.shape[op.axis]
    dtype = physical_dtype(aval.dtype)
    working = FLOAT32 if is_half(dtype) else dtype
    wide = ShapedArray(aval.shape, working)
    (x,) = args
    if working != dtype:
        x = maker.computed(
            wide, args, lambda at: b.convert(maker.elements.at(args[0], at), working)
        )
    distance = 1
    while distance < extent:

        def summed(index: Index, x: Atom = x, by: int = distance) -> Any:
            here, along = maker.elements.at(x, index), as_index(index[axis])
            before = (*index[:axis], along + (by if op.reverse else -by))
            there = (
                b.compare("lt", along, extent - by)
                if op.reverse
                else b.compare("ge", along, by)
            )
            return b.guarded(
                there,
                lambda: op.combine(
                    b, maker.elements.at(x, (*before, *index[axis + 1 :])), here
                ),
                here,
            )

        x = maker.computed(wide, [x], summed)
        distance *= 2
    if working != dtype:
        final = x
        x = maker.computed(
            aval, [final], lambda at: b.convert(maker.elements.at(final, at), dtype)
        )
    return x


# -------------------------------------------------------------------- products


def _product(
    maker: RegisterMaker, op: DotGeneral, args: Sequence[Atom], aval: ShapedArray
) -> Atom:
    (left_sum, right_sum), (left_batch, right_batch) = op.dimension_numbers
    left, right = args
    b, out = maker.builder, physical_dtype(aval.dtype)
    working = FLOAT32 if is_half(out) else out
    left_free = others(left.aval.ndim, left_batch, left_sum)
    right_free = others(right.aval.ndim, right_batch, right_sum)
    first = len(left_batch) + len(left_free)
    summed = tuple(left.aval.shape[d] for d in left_sum)

    def term(row: Any, kept: Index) -> tuple[Any, ...]:
        along = unravel(as_index(row), summed)
        places = (
            dict(zip((*left_batch, *left_free, *left_sum), (*kept[:first], *along))),
            dict(
                zip(
                    (*right_batch, *right_free, *right_sum),
                    (*kept[: len(right_batch)], *kept[first:], *along),
                )
            ),
        )
        x, y = (
            b.convert(
                maker.elements.at(v, tuple(place[d] for d in range(v.aval.ndim))),
                working,
            )
            for v, place in zip(args, places, strict=True)
        )
        return (b.mul(x, y),)

    rows = _size(summed)
    if rows > MOST_TERMS or rows * aval.size <= MOST_TERMS * MOST_ROWS < rows**2:
        code = FoldCode(
            (b.const(0, working),),
            lambda x, _: (x,),
            lambda x, y: (b.add(x[0], y[0]),),
            lambda x: b.convert(x[0], out),
        )
        return fold_rows(maker, args, aval, rows, term, code)

    def total(index: Index) -> Any:
        value = b.const(0, working)
        for row in range(rows):
            value = b.add(value, term(as_index(row), index)[0])
        return b.convert(value, out)

    return maker.computed(aval, args, total)


# --------------------------------------------------------------------- updates


def _updates(
    maker: RegisterMaker, op: WindowUpdate, args: Sequence[Atom], aval: ShapedArray
) -> Atom:
    """Updates of single elements, one after the other."""
    b, elements = maker.builder, maker.elements
    shape = op.update_shape(*[a.aval for a in args])
    if _size(shape) > MOST_TERMS:
        raise NoLowering(f"{_size(shape)} updates in order")
    current = args[0]
    for i in range(_size(shape)):
        operands = [Operand(a.aval, a, elements) for a in args]
        at = unravel(as_index(i), shape)
        place, inside, new = op.lower_update(b, at, *operands)
        target = b.index_value(row_major(place, aval.shape), INT32)

        def updated(
            index: Index, old: Atom = current, target: Any = target,
            inside: Any = inside, new: Callable[[Any], Any] = new,
        ) -> Any:  # fmt: skip
            here = b.index_value(row_major(index, aval.shape), INT32)
            hit = b.compare("eq", here, target)
            before = elements.at(old, index)
            hit = hit if inside is None else b.and_(hit, inside)
            return b.select(hit, new(before), before)

        current = maker.computed(aval, [*args, current], updated)
    return current


def _window(maker: RegisterMaker, args: Sequence[Atom], aval: ShapedArray) -> Atom:
    """`dynamic_update_slice`: each element is that of the window, if it is in it."""
    x, update, *starts = args
    b, elements, sizes = maker.builder, maker.elements, update.aval.shape
    places = []
    for start, extent, size in zip(starts, aval.shape, sizes, strict=True):
        clamped, _ = clamp_start(b, elements.at(start, ()), extent - size)
        places.append(clamped.as_index())

    def updated(index: Index) -> Any:
        old = elements.at(x, index)
        within = b.const(True, "bool")
        source = []
        for i, start, size in zip(index, places, sizes, strict=True):
            inner = as_index(i) - start
            source.append(inner if size > 1 else as_index(0))
            low, high = b.compare("ge", inner, 0), b.compare("lt", inner, size)
            within = b.and_(within, b.and_(low, high))
        return b.guarded(within, lambda: elements.at(update, tuple(source)), old)

    return maker.computed(aval, args, updated)


def _size(shape: tuple[int, ...]) -> int:
    size = 1
    for d in shape:
        size *= d
    return size
