"""How many bytes leave each host, by collective.

The counts are those of the best known algorithms for long messages, a ring's: a gather
of parts of b bytes on n hosts sends each part n - 1 times, a fold over n hosts sends
2(n - 1)/n of its operand.

    before = traffic.sent()
    step(x)
    after = traffic.sent()  # {0: {"all_reduce": 98304, ...}, 1: ...}
"""

from __future__ import annotations

from typing import Any

import numpy as np

from curta._base.once import once

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute")


class Traffic:
    """The counts of one host: for each collective the bytes, then the calls.

    They lie in memory as 64-bit words, so that compiled code can add to them.
    """

    def __init__(self) -> None:
        self.words: Any = np.zeros((len(COLLECTIVES), 2), np.int64)

    def add(self, collective: str, nbytes: int) -> None:
        """Count a call."""
        self.words[COLLECTIVES.index(collective)] += (nbytes, 1)

    def total_calls(self) -> int:
        """The calls of all collectives."""
        return int(self.words[:, 1].sum())

    def address(self, collective: str) -> int:
        """Where the bytes of a collective are counted; the calls are the next word."""
        return int(self.words[COLLECTIVES.index(collective)].ctypes.data)


def leaving(collective: str, operand: int, members: int) -> int:
    """The bytes that leave a host, on the mean, for an operand of so many bytes.

    `permute` counts each time that a host sends it.
    """
    others = members - 1
    if collective == "all_gather":
        return operand * others
    if collective == "permute":
        return operand if others else 0
    times = 2 if collective == "all_reduce" else 1
    return times * others * operand // members


@once
def of_host(host: int) -> Traffic:
    """The counts of a host that this process runs."""
    result = Traffic()
    _known()[host] = result
    return result


@once
def _known() -> dict[int, Traffic]:
    return {}


def sent() -> dict[int, dict[str, int]]:
    """The bytes that have left each host that this process runs, by collective."""
    return _column(0)


def calls() -> dict[int, dict[str, int]]:
    """How often each host that this process runs has called each collective."""
    return _column(1)


def _column(column: int) -> dict[int, dict[str, int]]:
    return {
        host: dict(zip(COLLECTIVES, map(int, t.words[:, column]), strict=True))
        for host, t in sorted(_known().items())
    }
