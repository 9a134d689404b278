"""The schedule of a region: its vectors of examples, its chunks, and where it polls.

A loop polls for cancellation if its trip count is unknown, or if it may take longer
than a signal should wait. Between two polls are so many iterations that they cost
nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from curta.compiler.callee import UNKNOWN
from curta.compiler.loops.costs import (
    STORE,
    block_cost,
    compute_size,
    weight,
)
from curta.compiler.loops.index import LoopVar
from curta.compiler.loops.nodes import (
    Block,
    Call,
    For,
    Instr,
    Load,
    LoopNest,
    Region,
    While,
    blocks_in,
    statements_in,
    walk,
)
from curta.compiler.loops.schedule import Loop, Schedule
from curta.compiler.schedule.vectors import chains_of
from curta.compiler.targets import Target
from curta.core.dim import may_exceed, typical


def region_schedule(region: Region, target: Target) -> Schedule:
    """Return the schedule of a region, from its shapes alone."""
    tuning = target.tuning
    plan = Schedule(
        takes_token=any(p.cancellable for p in region.programs),
        scalars=tuning.register_scalars,
        inlined_math=tuning.inlined_math,
    )
    if region.chunk is not None and region.parts is not None:
        grain = -(-region.parts.extent // region.chunk.extent)
        plan = replace(plan, outer=(region.parts,), grain=grain)
    elif region.lane is not None:
        plan = _in_vectors(plan, region, region.lane, target)
    if not _is_long(region, target):
        return plan
    between = _between(block_cost(region.body), target) if plan.outer else 0
    polls = (*_polls(region.body, target),)
    return replace(plan, polls=polls, polls_between=between, takes_token=True)


def _in_vectors(
    plan: Schedule, region: Region, lane: LoopVar, target: Target
) -> Schedule:
    """The schedule with vectors of examples.

    Short code takes several registers a vector, which hides latency. A chunk is worth
    some work, and there are enough for every thread.
    """
    nests = (s for s in statements_in(region.body) if isinstance(s, LoopNest))
    body = walk(x.value for s in nests for x in s.stores if not x.buffer.in_memory)
    sizes = [compute_size(e) for e in body if isinstance(e, (Instr, Load))]
    native = max(1, target.vector_bytes // max(sizes, default=4))
    lanes = native * chains_of(sum(map(weight, body)), target)
    while lanes >= 2 * lane.extent:
        lanes //= 2
    tuning, count = target.tuning, -(-lane.extent // lanes)
    cost = 2 * block_cost(region.body, tuning.assumed_trip_count) // STORE * lanes
    least = 4 * tuning.chunk_cost  # four times as much, as trip counts are guessed
    grain = max(1, -(-least // max(1, cost)), -(-count // tuning.most_chunks))
    vectors = Loop(lane, "vector", lanes)
    if lane.extent % lanes:
        vectors = Loop(lane, "vector", lanes, "masked", lanes, joined=True)
    return replace(plan, outer=(lane,), block=vectors, grain=min(grain, count))


# ------------------------------------------------------------------------- polls


def _is_long(region: Region, target: Target) -> bool:
    """Whether the code polls: in a loop, or between its blocks of examples."""
    if not target.services.cancellation:
        return False
    along = region.lane or region.parts
    if along is None or _has_polled_loop(region.body, target):
        return _has_polled_loop(region.body, target)
    cost = along.extent * block_cost(region.body)
    return may_exceed(cost, target.tuning.interruptible_cost)


def _has_polled_loop(block: Block, target: Target) -> bool:
    """Whether there is a loop that may take too long to be left alone."""
    return any(
        _is_polled(s, target)
        if isinstance(s, (For, While))
        else any(_has_polled_loop(inner, target) for inner in blocks_in(s))
        for s in block
    )


def _is_polled(loop: For | While, target: Target) -> bool:
    """Whether a loop may take too long to be left alone.

    One that calls Python lets that answer signals instead.
    """
    calls = (s for s in statements_in((loop,)) if isinstance(s, Call))
    if any(call.program.runs_python for call in calls):
        return False
    return may_exceed(block_cost((loop,)), target.tuning.interruptible_cost)


def _polls(block: Block, target: Target) -> Iterator[tuple[For | While, int]]:
    """The loops that poll, and their iterations between two polls."""
    for s in statements_in(block):
        if isinstance(s, While) and _is_polled(s, target):
            yield s, _between(block_cost(s.condition + s.body), target)
        elif isinstance(s, For) and s.bounds is None and _is_polled(s, target):
            iterations = _between(block_cost(s.body), target)
            if may_exceed(s.var.extent, iterations):
                yield s, iterations


def _between(cost: int, target: Target) -> int:
    """The iterations of a loop between two polls, a power of two.

    An iteration of unknown cost has a loop that polls by itself, if it takes long.
    """
    tuning, iterations = target.tuning, 1
    cost = typical(cost)
    if cost >= UNKNOWN:
        return tuning.polled_iterations_outside
    while (
        iterations < tuning.polled_iterations
        and 2 * iterations * cost <= tuning.polled_cost
    ):
        iterations *= 2
    return iterations
