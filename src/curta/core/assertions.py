"""The error of a traced value whose truth is asked for, perhaps by an `assert`."""

from __future__ import annotations

import dis
import sys
from types import FrameType

from curta.core.source_info import is_users
from curta.errors import DescribedTracer, TracerBoolConversionError

_JUMPS = "POP_JUMP"


_CHECKED = (
    "To fix it: an assert cannot look at traced values. Check them when the program"
    " runs: curta.experimental.checkify.check(condition, message) in the function, and"
    " checkify.checkify(f) around it. Shapes and dtypes can be asserted."
)


def unknown_truth(x: DescribedTracer) -> TracerBoolConversionError:
    """Return the error of a tracer that is asked for its truth."""
    return TracerBoolConversionError(x, _CHECKED if is_asserted() else "")


def is_asserted() -> bool:
    """Return True if the user's innermost frame is evaluating an `assert`.

    The bytecode is looked at, since the source may be missing and the statement may
    have several lines: the jump after the value leads to, or past, the instruction that
    loads `AssertionError`.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code):
        frame = frame.f_back
    if frame is None:
        return False
    steps = [x for x in dis.get_instructions(frame.f_code) if x.opname != "CACHE"]
    at = next((i for i, x in enumerate(steps) if x.offset == frame.f_lasti), None)
    if at is None:
        return False
    jump = next((i for i in (at, at + 1) if _JUMPS in steps[i].opname), None)
    if jump is None:
        return False
    targets = [i for i, x in enumerate(steps) if x.offset == steps[jump].argval]
    return any(_raises(steps, i) for i in (jump + 1, *targets))


def _raises(steps: list[dis.Instruction], at: int) -> bool:
    """Return True if the first real instruction from `at` on loads AssertionError."""
    rest = (x for x in steps[at:] if x.opname not in ("NOP", "NOT_TAKEN"))
    first = next(rest, None)
    return first is not None and (
        first.opname == "LOAD_ASSERTION_ERROR" or "AssertionError" in first.argrepr
    )
