"""Legalisation: ops without code are replaced by others.

`inline_calls` puts it there. It is imported when a program has such an op.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

from curta.compiler.graph.buckets import together
from curta.compiler.graph.by_class import by_class
from curta.compiler.graph.complex_products import (
    convolution_by_parts,
    product_by_parts,
)
from curta.compiler.graph.small_matrices import expanded
from curta.compiler.graph.written_out import written_out
from curta.config import config
from curta.control.scan import Scan
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.op import Op
from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.dot import DotGeneral
from curta.primitives.fft import Fft
from curta.primitives.host_collectives import HostBucket
from curta.primitives.linalg.family import MatrixOp


def natively(op: Op, avals: Sequence[ShapedArray]) -> ClosedJaxpr | None:
    """The jaxpr with routines of the library that an op stands for, if there is one."""
    rule = by_class(_RULES, op)
    return None if rule is None else rule(op, avals)


def natively_in_loop(op: Any, avals: Sequence[ShapedArray]) -> ClosedJaxpr | None:
    """The same inside a loop, where small matrices are factored by ops.

    Many that are too large for registers are better off in lanes.
    """
    if by_class(_RULES, op) is not _decomposed:
        return natively(op, avals)
    small = expanded(op, avals)
    result = None if small and _are_lanes(op, avals) else _in_lanes(op, avals)
    return result or small or _decomposed(op, avals)


def _are_lanes(op: Any, avals: Sequence[ShapedArray]) -> bool:
    """Whether a loop over many examples may have a matrix of each in registers."""
    count = math.prod(avals[0].shape[: avals[0].ndim - op.ranks[0]])
    outs = op.aval(*avals)
    values = (*avals, *(outs if op.multiple_results else [outs]))
    most = count * config.tuning.lane_vectors
    return count >= config.tuning.fewest_lanes and all(a.size <= most for a in values)


def _decomposed(op: Any, avals: Sequence[ShapedArray]) -> ClosedJaxpr | None:
    result = _in_lanes(op, avals)
    if result is None:
        others = importlib.import_module("curta.compiler.graph.decompositions")
        result = others.decomposed(op, avals)
    return result


def _in_lanes(op: Any, avals: Sequence[ShapedArray]) -> ClosedJaxpr | None:
    loops = importlib.import_module("curta.compiler.graph.batched_matrix_loops")
    result: ClosedJaxpr | None = loops.matrix_loop(op, avals)
    return result


def _transformed(op: Any, avals: Sequence[ShapedArray]) -> ClosedJaxpr | None:
    fourier = importlib.import_module("curta.compiler.graph.fourier")
    result: ClosedJaxpr | None = fourier.transformed(op, avals)
    return result


_RULES: dict[type[Op], Callable[..., ClosedJaxpr | None]] = {
    Fft: _transformed,
    ConvGeneralDilated: convolution_by_parts,
    DotGeneral: product_by_parts,
    MatrixOp: _decomposed,
    HostBucket: together,
    Scan: written_out,
}
