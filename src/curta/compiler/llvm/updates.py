"""The updates of ordered nests: how many in an iteration, and which of them at all.

An owner of a part of the operand skips the updates of the other parts. To jump over
them one by one would be to guess wrong time and again, so the indices of its own are
gathered first, by vectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from curta.compiler.llvm.builder import Builder
from curta.compiler.llvm.expressions import Evaluator
from curta.compiler.llvm.types import I64, Value
from curta.compiler.loops.costs import weight
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import Expr, LoopNest
from curta.config import config


def worth_unrolling(nest: LoopNest, lane: LoopVar, lanes: int) -> bool:
    """Whether many small updates go one by one along `lane`."""
    if not nest.ordered or lanes > 1 or lane.extent < config.tuning.many_updates:
        return False
    return sum(weight(e) for e in nest.body) <= config.tuning.light_update


def decides(values: Evaluator, nest: LoopNest, dims: Sequence[LoopVar]) -> bool:
    """Whether the nest's guard varies with the first of the dims, not with others."""
    result = values.depends(nest.guard())
    return dims[0] in result and not result & {*dims[1:]}


def slot_for_choice(b: Builder) -> Value:
    """Memory for the indices chosen, and for a vector beyond them."""
    return b.scratch(config.tuning.indices_at_once * I64.size + b.module.vector_bytes)


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
