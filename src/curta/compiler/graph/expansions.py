"""Ops for which the compiler has others: what `inline_calls` puts in their places."""

from __future__ import annotations

from collections.abc import Sequence

from curta.compiler.graph.decompositions import decomposed
from curta.compiler.graph.fourier import transformed
from curta.compiler.graph.lanewise import lanewise
from curta.compiler.graph.small_matrices import expanded
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.op import Op
from curta.primitives.fft import Fft


def natively(op: Op, avals: Sequence[ShapedArray]) -> ClosedJaxpr | None:
    """The jaxpr with routines of the library that an op stands for, if there is one."""
    avals = [a.unplaced() for a in avals]
    if isinstance(op, Fft):
        return transformed(op, avals)
    return lanewise(op, avals) or decomposed(op, avals)


def natively_in_loop(op: Op, avals: Sequence[ShapedArray]) -> ClosedJaxpr | None:
    """The same inside a loop, where small matrices are factored by ops."""
    avals = [a.unplaced() for a in avals]
    return expanded(op, avals) or natively(op, avals)
