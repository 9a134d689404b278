"""Linear algebra evaluated by calls of LAPACK from Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from curta.compiler.host_target import host
from curta.compiler.rewrite.decompositions import decomposed
from curta.config import enable_x64
from curta.core.avals import ShapedArray
from curta.core.evaluate import evaluate, watching
from curta.core.op import Op


def evaluated(op: Op, args: Sequence[Any]) -> list[Any]:
    """Return the results of an op on NumPy arrays.

    Raises:
        ImportError: if OpenBLAS is not installed.
    """
    avals = tuple(ShapedArray(x.shape, x.dtype) for x in args)
    if not all(a.size for a in avals):
        return [np.empty(a.shape, a.dtype) for a in op.aval(*avals)]
    with enable_x64(True):  # whatever the setting, of arrays of 64 bits
        closed = decomposed(op, avals, host())
    if closed is None:
        raise ImportError("linear algebra needs OpenBLAS: pip install scipy-openblas32")
    with watching(None):  # it is one op to the user
        return evaluate(closed.jaxpr, closed.consts, args)
