"""The printed form of schedules: the loops, outermost first."""

from __future__ import annotations

from collections.abc import Iterator

from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import For, Kernel, LoopNest, Region
from curta.compiler.loops.schedule import Loop, NestSchedule, Schedule
from curta.core.dim import is_same


def pretty_schedule(work: Kernel | Region, plan: Schedule) -> str:
    """Print how a kernel or a region runs."""
    return "\n".join(_lines(work, plan))


def _lines(work: Kernel | Region, plan: Schedule) -> Iterator[str]:
    for variable in plan.outer:
        block = plan.block
        if block is not None and block.var == variable:
            yield f"parallel {_text(block)}"
        else:
            yield f"parallel {_extent(variable)}"
    if plan.split is not None:
        yield f"parallel {_extent(plan.split)} in pieces of {plan.piece}"
    if not is_same(plan.chunks, 1):
        yield f"{plan.chunks} chunks of {plan.grain} iterations"
    if isinstance(work, Region):
        yield from _polls(plan)
        return
    for number, (nest, own) in enumerate(zip(work.nests, plan.nests, strict=True)):
        yield from _nest_lines(number, nest, own)


def _nest_lines(number: int, nest: LoopNest, plan: NestSchedule) -> Iterator[str]:
    names = ", ".join(dict.fromkeys(s.buffer.name for s in nest.written()))
    kept = "".join(f", for each {_extent(v)}" for v in nest.dims[: nest.kept])
    yield f"nest {number}: {names}{kept}"
    for loop in plan.loops:
        yield f"  {_text(loop)}"
    if nest.folds:
        rows = f", {plan.rows} rows at once" if plan.rows > 1 else ""
        yield f"  accumulators: {plan.accumulate}{rows}"
    if plan.streamed:
        streamed = ", ".join(nest.stores[i].buffer.name for i in plan.streamed)
        yield f"  bypass the caches: {streamed}"


def _text(loop: Loop) -> str:
    """`vector i0:100 by 16, tail masked`."""
    by = f" by {loop.factor}" if loop.factor > 1 or loop.how != "serial" else ""
    head = f", head {loop.head}" if loop.head else ""
    tail = "" if loop.tail == "none" else f", tail {loop.tail}"
    if loop.tail in ("masked", "overlap") and loop.tail_factor != loop.factor:
        tail += f" by {loop.tail_factor}"
    joined = " in the loop" if loop.joined else ""
    return f"{loop.how} {_extent(loop.var)}{by}{head}{tail}{joined}"


def _polls(plan: Schedule) -> Iterator[str]:
    if plan.polls_between:
        yield f"polls every {plan.polls_between} iterations"
    for loop, count in plan.polls:
        name = f"for {_extent(loop.var)}" if isinstance(loop, For) else "while"
        yield f"{name} polls every {count} iterations"


def _extent(variable: LoopVar) -> str:
    return f"{variable.name}:{variable.extent}"
