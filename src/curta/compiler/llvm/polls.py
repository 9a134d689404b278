"""Loops that poll for cancellation of the call, as their schedule says.

The code that polls is outside of the loop over the iterations between two polls, so
that it takes none of its registers.
"""

from __future__ import annotations

from collections.abc import Callable

from curta.compiler.callee import POLL
from curta.compiler.llvm.builder import Builder, Values
from curta.compiler.llvm.functions import function
from curta.compiler.llvm.types import I1, I8, I64, PTR, Value


def is_cancelled(b: Builder, token: Value) -> Value:
    """Whether the call was seen to be canceled."""
    text = f"load atomic i64, ptr {token} monotonic, align 8"
    return b.ne(b.instruction(text, I64), 0)


@function(PTR, result=I1)
def poll(b: Builder, token: Value) -> Value:
    """Poll whether the call was canceled."""
    code = b.load(PTR, b.offset(token, POLL, I8))
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
    """`b.while_loop`, which also ends if the call was canceled."""
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
    """The values after `length` iterations, unless the call was canceled."""

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
