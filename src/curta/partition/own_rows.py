"""Which rows of a dim that is cut a host has."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta.hosts.group import HostGroup
from curta.primitives.elementwise import mul
from curta.primitives.host_collectives import HostIndex

_MOST = np.iinfo(np.int32).max


def first_row(group: HostGroup, every: int) -> Any:
    """The number of a host in its group times `every`, an int32.

    Raises:
        NotImplementedError: an int32 cannot count the rows of all hosts.
    """
    if group.size * abs(every) > _MOST:
        raise NotImplementedError(
            f"a dim of {group.size * abs(every):,} rows over {group.size} hosts is read"
            " by the numbers of its rows, which are at most 2**31 - 1. Give the array"
            " another dim, and cut it along that."
        )
    return mul(HostIndex(group)(), np.int32(every))
