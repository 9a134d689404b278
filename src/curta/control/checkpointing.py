"""Running the steps of a loop backwards in bounded memory.

The states of the loop are needed last to first. Some are kept in a stack of a fixed
number of rows, those between are computed again from the one before them: the rows
that are free are spread over the steps to the state needed next, half of them at a
time so that some are left for the steps between two of them. As the steps are undone
their rows are free for the steps before. With `r` rows, `r` steps are computed once
more, `r**2 / 4` steps twice, and so on until no rows are left for the smallest gaps.
(Griewank and Walther, "Algorithm 799: revolve", is the optimum, with a schedule that
a program on the host works out.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta.core.trace import typeof
from curta.primitives.elementwise.arithmetic import add, div, sub
from curta.primitives.elementwise.bitwise import and_
from curta.primitives.elementwise.comparison import eq, gt, le, lt
from curta.primitives.elementwise.convert import ConvertElementType
from curta.primitives.elementwise.magnitude import max_
from curta.primitives.elementwise.rounding import rem
from curta.primitives.elementwise.select import select_n
from curta.primitives.indexing.dynamic import DynamicSlice, DynamicUpdateSlice
from curta.primitives.structure import BroadcastInDim, Reshape

State = Sequence[Any]
Loop = Callable[[Callable[..., Any], Callable[..., State], State], list[Any]]

ZERO, ONE, TWO = np.int32(0), np.int32(1), np.int32(2)


def undo_steps(
    loop: Loop,
    step: Callable[[State], State],
    undo: Callable[[State, State], State],
    count: Any,
    start: State,
    cotangents: State,
    rows: int,
) -> State:
    """`cotangents = undo(state, cotangents)` for the states of a loop, last to first.

    Args:
      loop: `loop(condition, body, carry)` runs a while loop.
      step: from a state to the next.
      undo: from a state and the cotangents after its step to those before.
      count: the number of steps, an int32 scalar.
      start: the first state.
      rows: how many states may be kept.
    """
    size = len(start)
    # One more row, written by states that are not kept.
    kept_steps = np.zeros(rows + 1, np.int32)
    stack = [_repeated(x, rows + 1) for x in start]

    def undo_one(left: Any, top: Any, kept_steps: Any, *rest: Any) -> State:
        needed = sub(left, ONE)
        top, kept_steps, stack, state = _advance(
            loop, step, needed, top, kept_steps, rest[:size], rows
        )
        before = undo(state, rest[size:])
        used = eq(_row(kept_steps, sub(top, ONE)), needed)
        return [needed, sub(top, _int32(used)), kept_steps, *stack, *before]

    def some_left(left: Any, *_: Any) -> Any:
        return gt(left, ZERO)

    carry = [count, ONE, kept_steps, *stack, *cotangents]
    return loop(some_left, undo_one, carry)[3 + size :]


def _advance(
    loop: Loop,
    step: Callable[[State], State],
    needed: Any,
    top: Any,
    kept_steps: Any,
    stack: State,
    rows: int,
) -> tuple[Any, Any, State, State]:
    """The state at step `needed`, from the last one kept, keeping some on the way."""
    size, last = len(stack), sub(top, ONE)
    start = _row(kept_steps, last)
    stride = _stride(sub(needed, start), sub(np.int32(rows), top))

    def on_the_way(at_step: Any, *_: Any) -> Any:
        return lt(at_step, needed)

    def forward(at_step: Any, top: Any, kept_steps: Any, *rest: Any) -> State:
        before, state = rest[:size], step(rest[size:])
        at_step = add(at_step, ONE)
        wanted = and_(eq(rem(sub(at_step, start), stride), ZERO), lt(at_step, needed))
        kept = and_(wanted, lt(top, np.int32(rows)))
        kept_steps = _with_row(kept_steps, at_step, top)
        after = [_with_row(s, x, top) for s, x in zip(before, state, strict=True)]
        return [at_step, add(top, _int32(kept)), kept_steps, *after, *state]

    state = [_row(s, last) for s in stack]
    _, top, kept_steps, *rest = loop(
        on_the_way, forward, [start, top, kept_steps, *stack, *state]
    )
    return top, kept_steps, rest[:size], rest[size:]


def _stride(steps: Any, free: Any) -> Any:
    """From one state to be kept to the next: all if they fit, else by half the rows."""
    parts = add(max_(div(free, TWO), ONE), ONE)
    spread = div(sub(add(steps, parts), ONE), parts)
    return select_n(le(steps, add(free, ONE)), max_(spread, ONE), ONE)


def count_steps(
    loop: Loop,
    goes_on: Callable[[State], Any],
    step: Callable[[State], State],
    start: State,
) -> Any:
    """How many steps a loop takes."""

    def body(count: Any, *state: Any) -> State:
        return [add(count, ONE), *step(state)]

    return loop(lambda _, *state: goes_on(state), body, [ZERO, *start])[0]


def _int32(flag: Any) -> Any:
    return ConvertElementType(np.dtype(np.int32))(flag)


def _repeated(x: Any, count: int) -> Any:
    shape = typeof(x).shape
    return BroadcastInDim((count, *shape), tuple(range(1, len(shape) + 1)))(x)


def _row(x: Any, index: Any) -> Any:
    shape = typeof(x).shape[1:]
    starts = [index, *(ZERO for _ in shape)]
    return Reshape(shape)(DynamicSlice((1, *shape))(x, *starts))


def _with_row(x: Any, row: Any, index: Any) -> Any:
    shape = typeof(row).shape
    starts = [index, *(ZERO for _ in shape)]
    return DynamicUpdateSlice()(x, Reshape((1, *shape))(row), *starts)
