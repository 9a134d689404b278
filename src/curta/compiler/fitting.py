"""Programs that are to fit in so many bytes (`checkpoint_policies.fit_in`).

How many bytes a program takes follows from its plan: kernels, what they share, and the
arena. That is made for the program as it is; if it takes too many, for programs that
compute values again (`rewrite/rematerialisation.py`), with smaller and smaller budgets,
since these go by an estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from curta._base.advisor import advise
from curta.compiler.rewrite.rematerialisation import rematerialised
from curta.compiler.rewrite.values import var_bytes
from curta.compiler.targets import Tuning
from curta.core.dim import is_symbolic_dim
from curta.core.jaxpr import ClosedJaxpr, Eqn, Jaxpr

_TRIES = 8
_LESS = 0.98  # of the target that proportion suggests next


def memory_limit(closed: ClosedJaxpr) -> int | None:
    """The bytes in which a program is to fit, if one of its calls says so."""
    limits = [e.op.memory_limit for e in _eqns(closed)]
    return min((x for x in limits if x is not None), default=None)


def _eqns(closed: ClosedJaxpr) -> Iterator[Eqn]:
    for eqn in closed.eqns:
        yield eqn
        for part in eqn.op.parts_run:
            yield from _eqns(part)


def fitted(
    closed: ClosedJaxpr,
    limit: int,
    temporaries: Callable[[ClosedJaxpr], int],
    in_place: Iterable[int],
    tuning: Tuning,
) -> ClosedJaxpr:
    """The program, or one that computes values again to fit in `limit` bytes.

    Args:
        closed: a program that is ready to be cut into items.
        limit: the bytes of arguments, results and temporaries together.
        temporaries: gives the bytes of temporaries of a program.
        in_place: arguments in which results lie.
        tuning: the limits of the target.
    """
    fixed = _ends(closed.jaxpr, in_place)
    if is_symbolic_dim(fixed):
        return closed  # sizes are known only when it is called
    best, least = closed, temporaries(closed)
    budget = limit - fixed
    if least <= budget:
        return closed
    low, high = 0.0, float(least)  # targets: infeasible, feasible
    target = float(budget)
    for _ in range(_TRIES):
        made = None
        if target > 0:
            made = rematerialised(closed.jaxpr, int(target), tuning)
        if made is None:
            low, target = max(target, low), (max(target, low) + high) / 2
            continue
        other = ClosedJaxpr(made, closed.consts)
        taken = temporaries(other)
        if taken <= budget:
            return other
        if taken < least:
            best, least = other, taken
        high, target = target, _LESS * target * max(budget / taken, 0.5)
        if target <= low:
            target = (low + high) / 2
    return best


def advise_of_limit(
    closed: ClosedJaxpr, temporaries: int, in_place: Iterable[int]
) -> None:
    """Say that a compiled program does not fit in the bytes that it names, if so.

    Asked of each program that is compiled, or found compiled.
    """
    limit = memory_limit(closed)
    if limit is None:
        return
    ends = _ends(closed.jaxpr, in_place)
    if ends + temporaries <= limit:
        return
    name = closed.jaxpr.debug_info.name if closed.jaxpr.debug_info else "a program"
    advise(
        "memory",
        (name, limit, ends, temporaries),
        f"{name} does not fit in {_text(limit)}: its arguments and results take"
        f" {_text(ends)}, its temporaries {_text(temporaries)} at least, with values"
        " computed again where that helps. Give fit_in a larger limit, donate"
        " arguments, or use smaller batches; what a loop keeps for its gradient becomes"
        " less with `checkpoint` of its body.",
    )


def _ends(jaxpr: Jaxpr, in_place: Iterable[int]) -> int:
    """The bytes of arguments, constants and results, without those overwritten."""
    ends = (*jaxpr.invars, *jaxpr.constvars, *jaxpr.outvars)
    overwritten = sum(var_bytes(jaxpr.invars[i]) for i in in_place)
    return sum(map(var_bytes, ends)) - overwritten


def _text(nbytes: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= size:
            return f"{nbytes / size:.4g} {unit}"
    return f"{nbytes} bytes"
