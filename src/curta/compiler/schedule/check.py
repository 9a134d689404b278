"""Invariants of a schedule; checked if `CURTA_CHECK` is set."""

from __future__ import annotations

from collections.abc import Iterator

from curta.compiler.loops.nodes import (
    For,
    Kernel,
    LoopNest,
    Region,
    While,
    statements_in,
)
from curta.compiler.loops.schedule import Loop, NestSchedule, Schedule
from curta.compiler.schedule.vectors import may_repeat
from curta.core.dim import is_multiple, is_symbolic_dim


class InvalidSchedule(AssertionError):
    """A schedule that does not run each index of a kernel once."""


def check_schedule(work: Kernel | Region, plan: Schedule) -> None:
    """Raise InvalidSchedule unless every index runs, and runs twice only if it may."""
    if isinstance(work, Region):
        problems = _of_region(work, plan)
    else:
        problems = _of_kernel(work, plan)
    for problem in problems:
        raise InvalidSchedule(problem)


def _of_region(region: Region, plan: Schedule) -> Iterator[str]:
    along = [v for v in (region.lane, region.parts) if v is not None]
    if [*plan.outer] != along:
        yield f"a region over {along} has the parallel loops {plan.outer}"
    loops = {s for s in statements_in(region.body) if isinstance(s, (For, While))}
    for loop, count in plan.polls:
        if loop not in loops:
            yield "a loop polls that is not in the region"
        if count < 1 or count & (count - 1):
            yield f"{count} iterations between two polls"
    if (plan.polls or plan.polls_between) and not plan.takes_token:
        yield "loops poll without a token"
    if plan.block is not None:
        yield from _tail(plan.block)


def _of_kernel(kernel: Kernel, plan: Schedule) -> Iterator[str]:
    parallel = [*plan.outer, *([plan.column] if plan.column else [])]
    if len(parallel) != len(kernel.dims) or {*parallel} != {*kernel.dims}:
        yield f"a kernel of {kernel.dims} has the parallel loops {parallel}"
    if len(plan.nests) != len(kernel.nests):
        yield f"{len(kernel.nests)} nests have {len(plan.nests)} schedules"
    if plan.block is not None:
        yield from _block(plan.block, plan)
    for nest, own in zip(kernel.nests, plan.nests, strict=False):
        yield from _nest(kernel, nest, own, plan)


def _block(block: Loop, plan: Schedule) -> Iterator[str]:
    if not plan.outer or block.var != plan.outer[-1] or block.factor < 2:
        yield f"a block of {block.factor} of {block.var}"
    if block.how == "tile" and block.factor != plan.piece:
        yield f"a tile of {block.factor} by {plan.piece}"
    if block.how != "serial":
        yield from _tail(block)


def _nest(
    kernel: Kernel, nest: LoopNest, own: NestSchedule, plan: Schedule
) -> Iterator[str]:
    dims = [x.var for x in own.loops if x.var != plan.column]
    across = len(own.loops) - len(dims)
    if dims != [*nest.dims[nest.kept :]] or across != (plan.column is not None):
        yield f"a nest of {nest.dims} has the loops {own.loops}"
    for loop in own.loops:
        if loop.how == "selected" and not nest.selective:
            yield "indices are selected for which no guard decides"
        if loop.how == "unrolled" and not (nest.ordered or plan.column):
            yield f"a nest that is not ordered is unrolled along {loop.var}"
        if loop.how != "vector":
            continue
        yield from _tail(loop)
        if loop.tail == "overlap" and not may_repeat(nest, kernel):
            yield f"vectors overlap along {loop.var}, whose elements may not repeat"
        in_pieces = loop.var == plan.split and loop.tail == "none"
        if in_pieces and not is_multiple(plan.piece, loop.factor):
            yield f"pieces of {plan.piece} in vectors of {loop.factor}"
    if own.streamed and (nest.folds or nest.ordered):
        yield "stores of a fold or of updates bypass the caches"


def _tail(loop: Loop) -> Iterator[str]:
    """The problems of a loop over vectors or blocks, and of its tail."""
    extent, factor = loop.var.extent, loop.factor
    if loop.how == "vector" and (factor < 1 or factor & (factor - 1)):
        yield f"vectors of {factor} lanes along {loop.var}"
    if loop.tail == "none" and (loop.head or not is_multiple(extent, factor)):
        yield f"no tail along {loop.var}, which has no multiple of {factor} indices"
    if loop.joined and loop.tail not in ("masked", "overlap"):
        yield f"the tail along {loop.var} is in the loop, and is {loop.tail}"
    if loop.tail == "overlap" and is_symbolic_dim(extent):
        yield f"vectors overlap along {loop.var}, whose end is unknown"
    if (loop.tail == "none") != (loop.tail_factor == 0):
        yield f"a tail {loop.tail} of {loop.tail_factor} lanes along {loop.var}"
