"""Logs of backward passes: named values that backward rules give besides cotangents.

A pass that starts in `collecting` gathers them. Those of rules that run in another
trace (in the body of a loop, say) cannot leave it: they are dropped, or refused where
logs are wanted. Keys are unique within a pass.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from curta.config import backward_logs, config
from curta.core.trace import Trace, current_trace


class _Collected:
    def __init__(self, trace: Trace, wanted: bool):
        self.trace = trace
        self.wanted = wanted
        self.entries: dict[str, Any] = {}


class _LogState(threading.local):
    collected: _Collected | None = None


_state = _LogState()


@contextlib.contextmanager
def collecting(wanted: bool) -> Iterator[dict[str, Any]]:
    """Gather the logs of the backward pass in the block.

    Yields:
      The dict that they come into. Without `wanted` keys are checked, and that is all.
    """
    before = _state.collected
    _state.collected = made = _Collected(current_trace(), wanted)
    # Part of the keys of what is kept with jaxprs: a rule that ran before may not be
    # left out where its log is wanted.
    same = wanted == bool(config.curta_backward_logs)
    try:
        with contextlib.nullcontext() if same else backward_logs(wanted or None):
            yield made.entries
    finally:
        _state.collected = before


def wants_logs() -> bool:
    """Return True if rules that run now can give logs that are wanted."""
    collected = _state.collected
    if collected is None or not collected.wanted:
        return False
    return current_trace() is collected.trace


def record(log: dict[str, Any] | None, rule: str) -> None:
    """Add what a rule logs.

    Raises:
      ValueError: a key is there already.
      NotImplementedError: the rule runs in another trace than the pass.
    """
    collected = _state.collected
    if not log or collected is None:
        return
    if current_trace() is not collected.trace:
        if not collected.wanted:
            return
        raise NotImplementedError(
            f"{rule} logs {sorted(log)} in the body of a loop, a branch or a mapped"
            " function, and logs cannot leave it. Call the pullback without with_logs,"
            " or apply the function outside."
        )
    for key in log:
        if key in collected.entries:
            raise ValueError(
                f"Duplicate backward-pass log key {key!r} from {rule}. Each key must be"
                " unique within a backward pass."
            )
    collected.entries.update(log)
