"""Ops that move random keys, as ops on their words along a last dim."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from curta.compiler.stablehlo.types import physical
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr, jaxprs_of
from curta.core.op import Op
from curta.core.stage import stage
from curta.dtypes import KeyDType, KeyFill
from curta.primitives.structure import move_dim
from curta.transforms.vmap import BatchAxis


def moves_keys(op: Op, avals: Sequence[ShapedArray]) -> bool:
    """Whether keys are among the operands of an op that holds no jaxprs."""
    for aval in avals:
        if type(aval.dtype) is KeyDType:
            return not any(jaxprs_of(op))
    return False


def on_words(op: Op, avals: Sequence[ShapedArray]) -> ClosedJaxpr:
    """The op over a batch of words, which are the last dim of operands and results."""
    dims = [a.ndim if isinstance(a.dtype, KeyDType) else None for a in avals]
    words = next(a.dtype.words for a in avals if isinstance(a.dtype, KeyDType))
    result = op.aval(*avals)
    outs = result if op.multiple_results else [result]

    def run(*args: Any) -> list[Any]:
        out, out_dims = _of_words(op).batch(BatchAxis(words), args, dims)
        pairs = (
            zip(out, out_dims, strict=True)
            if op.multiple_results
            else [(out, out_dims)]
        )
        return [
            move_dim(x, d, aval.ndim) if isinstance(aval.dtype, KeyDType) else x
            for (x, d), aval in zip(pairs, outs, strict=True)
        ]

    return stage(run, [physical(a) for a in avals])


def _of_words(op: Op) -> Op:
    """The op with parameters that are keys as those of one word."""
    changed = {
        name: value.word
        for name, value in op.params().items()
        if isinstance(value, KeyFill)
    }
    if not changed:
        return op
    return dataclasses.replace(op, **changed)  # type: ignore[type-var]
