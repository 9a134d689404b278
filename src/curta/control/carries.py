"""What loops share: which parts of a carry have something, and bodies with tangents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.memo import kept_with_jaxpr
from curta.core.stage import stage
from curta.transforms.discharge import Flags
from curta.transforms.jaxprs import Pushforward, run_closed


def flagged(xs: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """Those with the flag."""
    return [x for x, f in zip(xs, flags, strict=True) if f]


def unflagged(xs: Sequence[Any], flags: Sequence[bool]) -> list[Any]:
    """Those without."""
    return [x for x, f in zip(xs, flags, strict=True) if not f]


def spread(carry: Flags, after: Callable[[Flags], Sequence[bool]]) -> Flags:
    """The flags of the parts of a carry at the fixed point of `after`.

    `after` says which have it after a step, if these have it before.
    """
    while True:
        joined = tuple(map(any, zip(carry, after(carry), strict=True)))
        if joined == carry:
            return carry
        carry = joined


@kept_with_jaxpr
def body_pushforward(
    body: ClosedJaxpr, push: Pushforward, consts: Flags, carry: Flags, xs: Flags = ()
) -> tuple[ClosedJaxpr, Flags, Flags]:
    """A loop's body with tangents, and which parts of the carry and ys have some.

    The flags say which inputs have tangents. Each group of inputs and outputs is
    followed by its tangents.
    """
    n = len(carry)
    carry = spread(carry, lambda c: push(body, consts + c + xs)[1][:n])
    ys = push(body, consts + carry + xs)[1][n:]
    mixed, _ = push(body, consts + carry + xs, carry + ys)
    groups = consts, carry, xs

    def run(*args: Any) -> list[Any]:
        rest = iter(args)
        primals, tangents = [], []
        for flags in groups:
            primals += [next(rest) for _ in flags]
            tangents += [next(rest) for f in flags if f]
        result = run_closed(mixed, [*primals, *tangents])
        outs, dots = result[: n + len(ys)], result[n + len(ys) :]
        moving = sum(carry)
        return [*outs[:n], *dots[:moving], *outs[n:], *dots[moving:]]

    given, moving = iter(body.in_avals), iter(mixed.in_avals[len(body.in_avals) :])
    avals: list[ShapedArray] = []
    for flags in groups:
        avals += [next(given) for _ in flags]
        avals += [next(moving) for f in flags if f]
    return stage(run, avals, body.jaxpr.debug_info), carry, ys
