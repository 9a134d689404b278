"""Ops on windows that slide over an array."""

from curta.primitives.windowed.reductions import (
    ReduceWindowMax,
    ReduceWindowMin,
    ReduceWindowSum,
    WindowReduction,
)
from curta.primitives.windowed.selection import (
    SelectAndGatherAdd,
    SelectAndScatterAdd,
)
from curta.primitives.windowed.sliding import Sliding, dilated
