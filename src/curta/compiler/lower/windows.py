"""Reductions over sliding windows as work items.

A small window is written out: the result is an element for each window, an expression
of the elements under it, which vectors walk like any other. A large one is a fold. The
gradient of a maximum asks for each element which windows chose it, so that nothing is
updated twice; which element a window chose is a value of its own.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from curta.compiler.loops.element_types import INT32, computed_dtype
from curta.compiler.loops.folds import FoldCode, folding, simple_fold
from curta.compiler.loops.index import as_index
from curta.compiler.loops.lower import loop_dims, variables
from curta.compiler.loops.nodes import Buffer
from curta.compiler.lower.item_builder import ItemBuilder
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Atom, Eqn
from curta.primitives.windowed.reductions import WindowReduction
from curta.primitives.windowed.selection import SelectAndGatherAdd, SelectAndScatterAdd
from curta.primitives.windowed.sliding import Sliding, both

Scalars = tuple[Any, ...]


def window_items(lowering: ItemBuilder, eqn: Eqn, result: Buffer) -> None:
    """Add the items that compute a windowed op into `result`."""
    op = cast(WindowReduction, eqn.op)
    b, dtype = lowering.builder, lowering.dtype(result)
    one = folding(op, b, computed_dtype(dtype), dtype)
    code = dataclasses.replace(one, inputs=lambda xs, _: one.inputs(xs[0], None))
    _fold_windows(lowering, eqn.invars, op, code, result)


def choice_items(lowering: ItemBuilder, eqn: Eqn, result: Buffer) -> None:
    """Add the items that take the companion of the chosen element of each window."""
    op = cast(SelectAndGatherAdd, eqn.op)
    compared = eqn.invars[1]
    code = _chosen(lowering, op, compared.aval.dtype, lowering.dtype(result), 0)
    _fold_windows(lowering, eqn.invars[::-1], op, code, result, _in_any_order)


def _chosen(
    lowering: ItemBuilder,
    op: SelectAndGatherAdd | SelectAndScatterAdd,
    dtype: Any,
    carried: Any,
    start: int,
) -> FoldCode:
    """Choosing the extremum of a window: its value, and something it carries along."""
    b = lowering.builder

    def combine(x: Scalars, y: Scalars) -> Scalars:
        keeps = op.keeps(b, x[0], y[0])
        return b.select(keeps, x[0], y[0]), b.select(keeps, x[1], y[1])

    return FoldCode(
        (b.const(op.worst(dtype), dtype), b.const(start, carried)),
        lambda xs, _: tuple(xs),
        combine,
        lambda pair: pair[1],
    )


def _in_any_order(
    lowering: ItemBuilder,
    op: SelectAndGatherAdd | SelectAndScatterAdd,
    code: FoldCode,
    start: int = -1,
) -> FoldCode:
    """The choice by folds, which take elements in any order, with their numbers.

    Of equal elements the first is chosen; before all is what a tangent starts with.
    """
    b = lowering.builder

    def combine(x: Scalars, y: Scalars) -> Scalars:
        equal, earlier = b.compare("eq", x[0], y[0]), b.compare("lt", x[-1], y[-1])
        keeps = b.select(equal, earlier, op.keeps(b, x[0], y[0]))
        return tuple(b.select(keeps, p, q) for p, q in zip(x, y, strict=True))

    initial = (*code.initial, b.const(start, INT32))
    return FoldCode(initial, code.inputs, combine, lambda x: x[1])


def _fold_windows(
    lowering: ItemBuilder,
    operands: Sequence[Atom],
    op: WindowReduction | SelectAndGatherAdd,
    code: FoldCode,
    result: Buffer,
    numbered: Any = None,
) -> None:
    """Fold `code` over each window of the operands, which have one shape.

    `numbered` makes of it a fold of elements with their numbers, in any order.
    """
    window, shape = op.window, operands[0].aval.shape
    kept = loop_dims(lowering.avals[result].shape)

    def inputs(tap: Sequence[Any]) -> Scalars:
        return _elements(lowering, operands, window, code, kept, tap)

    if math.prod(window.dimensions) <= lowering.tuning.window_taps:
        total = code.initial
        for tap in window.taps() if 0 not in shape else ():
            total = code.combine(total, inputs(tap))
        return lowering.emit_map(result, kept, code.result(total), op.name)
    reduced = loop_dims(window.dimensions, len(variables(kept)))
    if 0 in shape:
        return lowering.emit_map(result, kept, code.result(code.initial), op.name)
    elements = inputs(reduced)
    if numbered is not None:
        elements = (
            *elements,
            lowering.builder.index_value(_flat(window, reduced), INT32),
        )
        code = numbered(lowering, op, code)
    return lowering.emit_fold(result, kept, reduced, elements, code, op.name)


def _elements(
    lowering: ItemBuilder,
    operands: Sequence[Atom],
    window: Sliding,
    code: FoldCode,
    index: Sequence[Any],
    tap: Sequence[Any],
) -> Scalars:
    """What one element under a window contributes; the initial values if not there."""
    b = lowering.builder
    at = tuple(map(as_index, index))
    within = tuple(map(as_index, tap))
    element, inside = window.source(b, at, within, operands[0].aval.shape)

    def read() -> Scalars:
        return code.inputs([lowering.elements.at(x, element) for x in operands], None)

    if inside is None:
        return read()
    return tuple(
        b.guarded(inside, lambda k=k: read()[k], start)  # type: ignore[misc]
        for k, start in enumerate(code.initial)
    )


# ------------------------------------------------------- gradients of maxima


def selected_scatter_items(lowering: ItemBuilder, eqn: Eqn, result: Buffer) -> None:
    op, (source, operand) = cast(SelectAndScatterAdd, eqn.op), eqn.invars
    chosen = lowering.new_buffer(
        ShapedArray(source.aval.shape, INT32), f"{result.name}.chosen"
    )
    if source.aval.size:
        _choose_items(lowering, op, operand, chosen)
    index = loop_dims(operand.aval.shape)
    b, dtype = lowering.builder, lowering.dtype(result)
    wide = computed_dtype(dtype)
    zero = b.const(0, wide)
    at = tuple(map(as_index, index))

    def part(back: Sequence[Any]) -> Any:
        element, tap, inside = _covering(b, op.window, at, back, source.aval.shape)
        where = b.index_value(tap, INT32)

        def taken() -> Any:
            mine = b.compare("eq", lowering.load(chosen, element), where)
            given = b.convert(lowering.elements.at(source, element), wide)
            return b.select(mine, given, zero)

        return b.guarded(inside, taken, zero)

    reaching = _reaching(op.window) if source.aval.size else (0,)
    if math.prod(reaching) <= lowering.tuning.window_taps:
        total = zero
        for back in itertools.product(*map(range, reaching)):
            total = b.add(total, part(back))
        return lowering.emit_map(result, index, b.convert(total, dtype), op.name)
    reduced = loop_dims(reaching, len(variables(index)))
    code = simple_fold(b, wide, dtype, b.sum)
    return lowering.emit_fold(result, index, reduced, (part(reduced),), code, op.name)


def _choose_items(
    lowering: ItemBuilder, op: SelectAndScatterAdd, operand: Atom, chosen: Buffer
) -> None:
    """The items that find the tap which each window chose."""
    b, dtype, window = lowering.builder, operand.aval.dtype, op.window
    compare = _chosen(lowering, op, dtype, INT32, 0)
    kept = loop_dims(lowering.avals[chosen].shape)
    read = dataclasses.replace(compare, initial=compare.initial[:1])

    def candidate(tap: Sequence[Any]) -> Scalars:
        (x,) = _elements(lowering, [operand], window, read, kept, tap)
        return x, b.index_value(_flat(window, tap), INT32)

    if math.prod(window.dimensions) <= lowering.tuning.window_taps:
        best = None
        for tap in window.taps():
            new = candidate(tap)
            best = new if best is None else compare.combine(best, new)
        assert best is not None
        return lowering.emit_map(chosen, kept, best[1], "select")
    reduced = loop_dims(window.dimensions, len(variables(kept)))
    last = np.iinfo(INT32).max
    compare = _in_any_order(lowering, op, read, last)
    return lowering.emit_fold(
        chosen, kept, reduced, candidate(reduced), compare, "select"
    )


def _flat(window: Sliding, tap: Sequence[Any]) -> Any:
    """The number of a tap of a window."""
    flat = as_index(0)
    for k, size in zip(tap, window.dimensions, strict=True):
        flat = flat * size + as_index(k)
    return flat


def _reaching(window: Sliding) -> tuple[int, ...]:
    """How many windows, along each dim, may cover an element."""
    pairs = zip(window.dimensions, window.strides, strict=True)
    return tuple(-(-size // step) for size, step in pairs)


def _covering(
    b: Any, window: Sliding, at: Sequence[Any], back: Sequence[int], shape: Any
) -> tuple[tuple[Any, ...], Any, Any]:
    """The window, some way back from the last one, that covers the element `at`.

    Also the window of the element in it, and the condition that it does cover it.
    """
    element, tap, inside = [], [], None
    for d, i in enumerate(at):
        from_start = i + window.padding[d][0]
        which = from_start // window.strides[d] - as_index(back[d])
        inner = from_start - which * window.strides[d]
        if window.strides[d] > 1:
            inner = (
                from_start % window.strides[d] + as_index(back[d]) * window.strides[d]
            )
        conditions = b.within(which, shape[d]), b.within(inner, window.dimensions[d])
        inside = both(b, inside, *conditions)
        element.append(which)
        tap.append(inner)
    return tuple(element), _flat(window, tap), inside
