"""`thread_guard`: the only thread that may run programs over several processes."""

from __future__ import annotations

import threading

_guarded: list[threading.Thread] = []  # one at most


def guard(on: bool) -> None:
    """Let this thread alone run such programs, or any; a guard is lifted by its thread.

    Raises:
        RuntimeError: another thread has a guard.
    """
    thread = threading.current_thread()
    if on and _guarded and _guarded[0] is not thread:
        raise RuntimeError(
            "Nested thread guards in different threads are not supported: thread"
            f" {_guarded[0].name!r} has one, and thread {thread.name!r} is to have one."
            " Leave the block of the first before."
        )
    if on or thread in _guarded:
        _guarded[:] = [thread] if on else []


def kept_out() -> threading.Thread | None:
    """The thread that holds the guard, if this one may not run such programs."""
    other = next(iter(_guarded), None)
    return None if other is threading.current_thread() else other
