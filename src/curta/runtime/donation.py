"""Donated arguments: results take over their memory, and nobody can use them again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from curta._base.pages import page
from curta._base.user_warnings import warn
from curta.core.avals import ShapedArray
from curta.core.buffers import is_last_reference, unshared
from curta.core.jaxpr import ClosedJaxpr
from curta.core.placement import besides_mesh
from curta.errors import JaxRuntimeError
from curta.runtime.array import ArrayImpl
from curta.runtime.queue import Pending, forget_finished

Donation = Mapping[int, int]
"""Arguments with the results that take over their memory."""


def find_donation(closed: ClosedJaxpr, donated: Sequence[bool]) -> Donation:
    """For each donated argument the first result of its type, if one is left.

    Warns of arguments for which there is none.
    """
    free: dict[Any, deque[int]] = {}  # results by their type
    for k, aval in enumerate(closed.out_avals):
        free.setdefault(_kind(aval), deque()).append(k)
    taken: dict[int, int] = {}
    unusable = []
    for i, (aval, given) in enumerate(zip(closed.in_avals, donated, strict=True)):
        if not given:
            continue
        fitting = free.get(_kind(aval))
        if fitting:
            taken[i] = fitting.popleft()
        else:
            unusable.append(f"ShapedArray({aval.str_short()})")
    if unusable:
        warn(
            f"Some donated buffers were not usable: {', '.join(unusable)}.\n"
            f"See {page('errors', 'donated-or-deleted-arrays')}.",
        )
    return taken


def _kind(aval: ShapedArray) -> tuple[Any, ...]:
    """What the memory of an array is like."""
    return aval.shape, aval.dtype, *besides_mesh(aval.placement)


def donate(
    donation: Donation,
    args: Sequence[Any],
    inputs: list[Any],
    overwritten: Any,
    taken: list[Pending],
) -> None:
    """Delete the donated arrays; `overwritten` inputs get memory of their own.

    That is the array's if nobody else can see it, and a copy of it otherwise; of
    results in the queue those that are the array's are added to `taken`. Raises
    OutOfMemoryError where there is no room for a copy.
    """
    give_up(donation, args)
    forget_finished()
    for i in overwritten:
        if type(inputs[i]) is Pending:
            if inputs[i].donate():
                taken.append(inputs[i])
                continue
            inputs[i] = inputs[i].wait()
        if not is_last_reference(inputs, i):
            inputs[i] = _copy(inputs[i])


def give_up(donated: Iterable[int], args: Sequence[Any]) -> None:
    """Delete the donated arrays."""
    for i in donated:
        if type(args[i]) is ArrayImpl:
            args[i].delete()


def take_back(
    donation: Donation,
    args: Sequence[Any],
    inputs: Sequence[Any],
    taken: Sequence[Pending],
) -> None:
    """Undo `donate`, for a call that did not come to run."""
    for result in taken:
        result.take_back()
    for i in donation:
        if type(args[i]) is ArrayImpl:
            args[i].revive(inputs[i])


def _copy(x: Any) -> Any:
    out = unshared(x.shape, x.dtype)()  # unpooled, so that it can be donated, too
    out[...] = x
    return out


def refuse_twice(
    names: Sequence[str],
    donation: Donation,
    inputs: Sequence[Any],
    read: Sequence[bool] | None = None,
) -> None:
    """Raise JaxRuntimeError where an input is donated and used, or donated twice.

    Inputs that are not `read` are not used; all are, if nothing is said of them. The
    message has the `names` of the arguments, which come last among the inputs.
    """
    if len({*map(id, inputs)}) == len(inputs):
        return
    positions: dict[int, list[int]] = {}
    for k, x in enumerate(inputs):
        if read is None or read[k]:
            positions.setdefault(id(x), []).append(k)
    for i in donation:
        for k in positions.get(id(inputs[i]), ()):
            if k != i:
                captured = len(inputs) - len(names)
                both = [
                    f"`{names[n - captured]}`" if n >= captured else "a captured array"
                    for n in (i, k)
                ]
                raise JaxRuntimeError(_twice(both[0], both[1], k in donation))


def _twice(first: str, second: str, both: bool) -> str:
    what = "a buffer which is also used by the same call to Execute()"
    what = "the same buffer twice in Execute()" if both else what
    return (
        f"INVALID_ARGUMENT: Attempt to donate {what}: {first} and {second} are one"
        " array. Pass a copy as one of the two, or donate neither."
    )
