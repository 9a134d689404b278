"""Legalisation: ops replaced by others, for which there is code, or better code.

A rule sees an op and the types of its operands; `inline_calls` inserts its expansion.
Rules on several eqns are rewrites (simplify.py).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from curta.compiler.rewrite.buckets import together
from curta.compiler.rewrite.by_class import by_class
from curta.compiler.rewrite.complex_products import (
    convolution_by_parts,
    product_by_parts,
)
from curta.compiler.rewrite.inline import Expand, Function
from curta.compiler.rewrite.written_out import written_out
from curta.compiler.targets import Target
from curta.control.scan import Scan
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.memo import kept_by_settings
from curta.core.op import Op
from curta.core.stage import stage_wide
from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.cumulative import Cumulative
from curta.primitives.dot import DotGeneral
from curta.primitives.fft import Fft
from curta.primitives.host_collectives import HostBucket
from curta.primitives.indexing.gather import ScatterAdd
from curta.primitives.linalg.family import MatrixOp
from curta.primitives.random_bits.gamma import RandomGamma
from curta.primitives.sorting import Sort, TopK

Rule = Callable[[Any, Sequence[ShapedArray], Target], ClosedJaxpr | Function | None]
"""Gives what an op stands for on operands of some types, for a target: a jaxpr, or a
function, which is traced once; None if the op stays."""


def expansions(target: Target) -> Expand:
    """Return the function that replaces ops by jaxprs for which a target has code."""
    return partial(_expanded, target)


def _expanded(
    target: Target, op: Op, avals: Sequence[ShapedArray]
) -> ClosedJaxpr | None:
    rule = by_class(_RULES, op)
    if rule is None:
        return None
    result = rule(op, avals, target)
    if result is not None and not isinstance(result, ClosedJaxpr):
        result = _traced(rule, op, tuple(avals), target)
    return result


@kept_by_settings(maxsize=256)
def _traced(
    rule: Rule, op: Op, avals: tuple[ShapedArray, ...], target: Target
) -> ClosedJaxpr:
    function: Any = rule(op, avals, target)
    return stage_wide(function, avals)


def _any_target(rule: Callable[..., ClosedJaxpr | Function | None]) -> Rule:
    """Return a rule for a function of an op and its operands alone."""
    return lambda op, avals, _: rule(op, avals)


def _decomposed(
    op: Any, avals: Sequence[ShapedArray], target: Target
) -> ClosedJaxpr | None:
    result: ClosedJaxpr | None = _in_lanes(op, avals, target)
    result = result or _by_lapack(op, avals, target)
    return result


def _of(module: str, name: str) -> Callable[..., Any]:
    """A rule in a module that is imported when a program has such an op."""

    def rule(*given: Any) -> Any:
        found = importlib.import_module(f"curta.compiler.rewrite.{module}")
        return getattr(found, name)(*given)

    return rule


def _convolution(
    op: Any, avals: Sequence[ShapedArray], target: Target
) -> Function | None:
    by_parts = convolution_by_parts(op, avals, target)
    return by_parts or _by_winograd(op, avals, target)


_in_lanes = _of("matrix_loops", "matrix_loop")
_by_lapack = _of("decompositions", "decomposed")
_by_winograd = _of("winograd", "by_winograd")
_RULES: dict[type[Op], Rule] = {
    Fft: _of("fourier", "transformed"),
    ConvGeneralDilated: _convolution,
    DotGeneral: product_by_parts,
    MatrixOp: _decomposed,
    Sort: _any_target(_of("sorting", "sorted_by_library")),
    TopK: _of("sorting", "top_k_by_library"),
    Cumulative: _of("scans", "in_blocks"),
    ScatterAdd: _of("scatters", "many_to_few"),
    RandomGamma: _any_target(_of("gamma", "by_draws")),
    HostBucket: _any_target(together),
    Scan: written_out,
}
