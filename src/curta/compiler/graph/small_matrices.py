"""Decompositions of small matrices, written out as other ops.

Inside of a loop, a matrix of few elements is factored by straight code: a column
after the other, each step over the whole matrix, with masks that are known
(linalg/ops.py). The values are those of the ops' `eval` rules up to rounding; so is
what happens to NaN and to singular matrices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.compiler.linalg.programs import Program, algorithm, staged
from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.memo import kept_by_settings
from curta.core.op import Op
from curta.primitives.linalg.cholesky import Cholesky
from curta.primitives.linalg.lu import LU, LUPivotsToPermutation
from curta.primitives.linalg.triangular import TriangularSolve

_PROGRAMS: dict[type[Op], Program] = {
    cls: algorithm(cls, unrolled=True)
    for cls in (LU, LUPivotsToPermutation, TriangularSolve, Cholesky)
}


def expanded(op: Any, avals: Sequence[ShapedArray]) -> ClosedJaxpr | None:
    """The jaxpr that such an op stands for; None for any other op."""
    if type(op) not in _PROGRAMS:
        return None
    if any(
        not 0 < d <= config.tuning.small_matrix for d in avals[0].shape[-op.ranks[0] :]
    ):
        return None
    return _expanded(op, tuple(avals))


@kept_by_settings(maxsize=256)
def _expanded(op: Op, avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    return staged(_PROGRAMS[type(op)], op, avals)
