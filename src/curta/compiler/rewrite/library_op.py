"""Ops that routines of the library run.

Expansions (sorting.py, fourier.py, lapack_ops.py) express public ops by these. Users
never see them.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from curta.compiler.library.routine import Routine
from curta.compiler.targets import Target
from curta.core.avals import ShapedArray
from curta.core.op import Op


class LibraryOp(Op):
    """An op for which there is a routine."""

    orders_rows: ClassVar[bool] = False
    """Whether results are indices of elements along the last dim."""

    @abstractmethod
    def routine(self, target: Target, *avals: ShapedArray) -> Routine:
        """Return the routine for operands of these avals on a target."""
