"""All interleavings of a few small processes, explored state by state.

A process is a dict of steps by label. A step is a function `step(s, me)` of the shared
state and the process's own, two dicts that it may change, and stands for one atomic
access of memory; it returns the label that comes next. `sleep` and `wake` are the
system's futex calls.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

State = dict[str, Any]
Step = Callable[[State, State], Any]
END = "end"
_ASLEEP = "asleep"  # with the field and the label that comes after


def sleep(s: State, field: str, value: Any, then: str) -> Any:
    """Sleep until somebody wakes those at a field, if it has this value still."""
    return (_ASLEEP, field, then) if s[field] == value else then


def wake(s: State, field: str) -> None:
    """Wake all that sleep at a field, after the step that says so."""
    s["woken"] = field


def explore(
    shared: State, processes: list[tuple[Mapping[str, Step], str, State]], idle: int
) -> int:
    """Go through all reachable states; how many there are.

    Raises AssertionError where a step does, and where no process can go on though one
    has not come to its end; the last `idle` ones need not.
    """
    programs = [p[0] for p in processes]
    fields = [(*shared, "woken"), *(tuple(p[2]) for p in processes)]
    first = ((*shared.values(), None), *((p[1], *p[2].values()) for p in processes))
    seen, pending = {first}, [first]
    while pending:
        state = pending.pop()
        moved = False
        for i, program in enumerate(programs, 1):
            at = state[i][0]
            if at == END or at[0] == _ASLEEP:
                continue
            moved = True
            following = _after(state, i, program[at], fields)
            if following not in seen:
                seen.add(following)
                pending.append(following)
        at_end = all(own[0] == END for own in state[1 : len(state) - idle])
        assert moved or at_end, f"nobody can go on: {state}"
    return len(seen)


def _after(state: Any, i: int, step: Step, fields: list[tuple[str, ...]]) -> Any:
    """The state after a step of process `i`."""
    s, me = dict(zip(fields[0], state[0])), dict(zip(fields[i], state[i][1:]))
    at = step(s, me)
    field, s["woken"] = s["woken"], None
    own = list(state[1:])
    own[i - 1] = (at, *me.values())
    if field is not None:
        own = [
            (x[0][2], *x[1:]) if x[0][0] == _ASLEEP and x[0][1] == field else x
            for x in own
        ]
    return (tuple(s.values()), *own)
