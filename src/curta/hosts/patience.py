"""Long waits for other hosts: what a process waits for is said on stderr."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence

from curta.config import config
from curta.hosts.collectives import CollectiveCall

_SAME = 1.0  # seconds between what two looks at one wait take for its begin


class Patience:
    """Says once of each wait longer than `curta_hosts_patience` what it is for.

    `states` asks other processes where they are. It takes seconds, and the thread that
    calls `look` has to answer others meanwhile: so a thread of its own asks.
    """

    def __init__(self, index: int, states: Callable[[Sequence[int]], str]) -> None:
        self._index = index
        self._states = states
        self._said: float | None = None

    def look(self, call: CollectiveCall, since: float, seconds: float) -> None:
        """The process has been in a collective since a time, for so many seconds."""
        if seconds <= config.curta_hosts_patience:
            return
        if self._said is not None and abs(since - self._said) < _SAME:
            return
        self._said = since
        threading.Thread(
            target=self._say, args=(call, seconds), name="curta-patience", daemon=True
        ).start()

    def _say(self, call: CollectiveCall, seconds: float) -> None:
        others = [m for m in call.members if m != self._index]
        sys.stderr.write(
            f"curta: process {self._index} has waited {seconds:.0f} s in {call}:"
            f" {self._states(others)}\n"
        )
        sys.stderr.flush()
