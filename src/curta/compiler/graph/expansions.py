"""Legalisation: what ops that have no code of their own are replaced by.

`inline_calls` puts it there. It is imported when a program has such an op.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence

from curta.compiler.graph.batched_small_matrices import matrix_program
from curta.compiler.graph.buckets import together
from curta.compiler.graph.complex_convolutions import by_parts
from curta.compiler.graph.routines import barrier
from curta.compiler.graph.small_matrices import expanded
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.op import Op
from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.fft import Fft
from curta.primitives.linalg.family import MatrixOp


def natively(op: Op, avals: Sequence[ShapedArray]) -> ClosedJaxpr | None:
    """The jaxpr with routines of the library that an op stands for, if there is one."""
    result: ClosedJaxpr | None = None
    if isinstance(op, Fft):
        fourier = importlib.import_module("curta.compiler.graph.fourier")
        result = fourier.transformed(op, avals)
    elif isinstance(op, ConvGeneralDilated):
        result = by_parts(op, avals)
    elif isinstance(op, MatrixOp):
        result = matrix_program(op, avals) or _in_lanes(op, avals)
        if result is None:
            others = importlib.import_module("curta.compiler.graph.decompositions")
            result = others.decomposed(op, avals)
    else:
        result = barrier(op, avals) or together(op, avals)
    return result


def natively_in_loop(op: Op, avals: Sequence[ShapedArray]) -> ClosedJaxpr | None:
    """The same inside a loop, where small matrices are factored by ops.

    Many that are too large for registers are better off in lanes.
    """
    result: ClosedJaxpr | None = None
    if isinstance(op, MatrixOp) and matrix_program(op, avals) is None:
        result = _in_lanes(op, avals)
    return result or expanded(op, avals) or natively(op, avals)


def _in_lanes(op: Op, avals: Sequence[ShapedArray]) -> ClosedJaxpr | None:
    loops = importlib.import_module("curta.compiler.graph.batched_matrix_loops")
    result: ClosedJaxpr | None = loops.matrix_loop(op, avals)
    return result
