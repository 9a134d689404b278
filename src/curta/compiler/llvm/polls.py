"""Loops that look now and then whether their call was cancelled.

A loop polls if nobody knows its trip count, or if it may take longer than a signal
should wait. Between two looks are so many iterations that nobody notices them. The code
that looks is outside of the loop over those iterations, so that it takes none of its
registers.
"""

from __future__ import annotations

from collections.abc import Callable

from curta.compiler.callee import UNKNOWN
from curta.compiler.llvm.builder import Builder, Values
from curta.compiler.llvm.functions import function
from curta.compiler.llvm.types import I1, I8, I64, PTR, Value
from curta.compiler.support import cancellation_code
from curta.config import config
from curta.core.dim import typical


def iterations_between(cost: int) -> int:
    """How many iterations of a loop pass without a look, a power of two.

    An iteration of unknown cost has a loop that looks by itself, if it takes long.
    """
    tuning, iterations = config.tuning, 1
    cost = typical(cost)
    if cost >= UNKNOWN:
        return tuning.polled_iterations_outside
    while (
        iterations < tuning.polled_iterations
        and 2 * iterations * cost <= tuning.polled_cost
    ):
        iterations *= 2
    return iterations


def is_cancelled(b: Builder, token: Value) -> Value:
    """Whether the call was cancelled, as far as was seen."""
    text = f"load atomic i64, ptr {token} monotonic, align 8"
    return b.ne(b.instruction(text, I64), 0)


@function(PTR, result=I1)
def poll(b: Builder, token: Value) -> Value:
    """Look whether the call was cancelled."""
    code = b.load(PTR, b.offset(token, cancellation_code.POLL, I8))
    cancelled = is_cancelled(b, token)
    b.return_when(cancelled | b.is_null(code), cancelled)
    return b.ne(b.call(code, I64, token), 0)


def polled_while(
    b: Builder,
    first: Values,
    condition: Callable[[Values], Value],
    body: Callable[[Values], Values],
    token: Value,
    iterations: int,
) -> Values:
    """`b.while_loop`, which also ends where the call was cancelled."""
    return b.while_in_blocks(
        first, condition, body, iterations, lambda: ~poll(b, token)
    )


def polled_loop(
    b: Builder,
    length: int,
    carried: Values,
    body: Callable[[Value, Values], Values],
    token: Value,
    iterations: int,
) -> Values:
    """What `length` iterations make of values, unless the call was cancelled."""

    def block(state: Values) -> Values:
        end = b.min(state[0] + iterations, length)
        with b.loop(state[0], end, carried=state[1:-1]) as loop:
            loop.next(*body(loop.index, loop.carried))
        done = b.eq(end, length)
        return [end, *loop.results, _goes_on(b, done, token)]

    start = [b.const(I64, 0), *carried, b.const(I1, 1)]
    return b.while_loop(start, lambda state: state[-1], block)[1:-1]


def _goes_on(b: Builder, done: Value, token: Value) -> Value:
    """Whether a loop that is not done is to go on."""
    no = b.const(I1, 0)
    return b.choose(done, lambda: no, lambda: ~poll(b, token))
