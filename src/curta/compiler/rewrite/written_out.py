"""Scans of few iterations over large arrays, written out: `unroll` says all of them.

Elementwise work of an iteration then fuses with the next one, whereas a loop would go
through memory (Horner's rule for the values of a polynomial).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from curta.compiler.rewrite.inline import Function
from curta.compiler.targets import Target
from curta.control.scan import Scan
from curta.core.avals import ShapedArray
from curta.core.jaxpr import eval_jaxpr
from curta.core.trace import typeof
from curta.primitives.base import Elementwise
from curta.primitives.joining import Stack
from curta.primitives.slicing import Slice
from curta.primitives.structure import AddAny, BroadcastInDim, Reshape


def written_out(
    op: Scan, avals: Sequence[ShapedArray], target: Target
) -> Function | None:
    """All iterations; None if it is to be a loop, or better is one."""
    _, carry, _ = op.parts(avals)
    eqns, tuning = op.jaxpr.eqns, target.tuning
    if not op.length or op.length > op.unroll:
        return None
    if op.length * len(eqns) > tuning.written_out_eqns:
        return None
    if all(a.size <= tuning.register_elements for a in carry):
        return None
    by_element = (Elementwise, AddAny, BroadcastInDim, Reshape)
    if not all(isinstance(e.op, by_element) for e in eqns):
        return None
    step = functools.partial(eval_jaxpr, op.jaxpr.jaxpr, op.jaxpr.consts)

    def run(*args: Any) -> list[Any]:
        consts, carry, xs = op.parts(args)
        rows: list[list[Any]] = [[] for _ in range(op.length)]
        for i in range(op.length)[:: -1 if op.reverse else 1]:
            outs = step(*consts, *carry, *(_row(x, i) for x in xs))
            carry, rows[i] = outs[: op.num_carry], outs[op.num_carry :]
        return [*carry, *(Stack(0)(*ys) for ys in zip(*rows, strict=True))]

    return run


def _row(x: Any, i: int) -> Any:
    shape = typeof(x).shape
    start, limit = (i, *[0] * (len(shape) - 1)), (i + 1, *shape[1:])
    return Reshape(shape[1:])(Slice(start, limit)(x))
