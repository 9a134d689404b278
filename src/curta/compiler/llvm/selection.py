"""Selection: the indices of a loop for which a guard holds, collected by vectors."""

from __future__ import annotations

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.expressions import Evaluator
from curta.compiler.llvm.types import I64, Value
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Expr


def slot_for_choice(b: Builder, count: int) -> Value:
    """Memory for so many chosen indices, and for a vector beyond them."""
    return b.scratch(count * I64.size + b.module.vector_bytes)


def choose(
    values: Evaluator,
    lane: LoopVar,
    guard: Expr,
    bounds: tuple[Value, Value],
    chosen: Value,
) -> Value:
    """Write the indices within bounds for which the guard holds; how many they are."""
    b, (first, last), count = values.b, bounds, values.b.const(I64, 0)
    lanes = b.module.vector_bytes // I64.size
    whole = b.sub(last, b.urem(b.sub(last, first), lanes))
    for start, end, width in ((first, whole, lanes), (whole, last, 1)):
        with b.loop(start, end, width, [count]) as loop:
            (count,) = loop.carried
            with values.vectorised(lane, loop.index, width, None):
                holds = values.compute_lanes(guard)
            to = b.offset(chosen, count, I64)
            if width > 1:
                numbers = b.splat(loop.index, width)
                numbers = b.add(numbers, b.lane_index(numbers.type))
                b.compress(numbers, to, holds)
                loop.next(b.add(count, b.count_lanes(holds)))
            else:
                b.store(loop.index, to)
                loop.next(b.add(count, b.convert(holds, "i64", unsigned=True)))
        (count,) = loop.results
    return count
