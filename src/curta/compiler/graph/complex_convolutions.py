"""Convolutions of complex numbers, as convolutions of their parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.memo import kept_by_settings
from curta.core.stage import stage
from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.elementwise.arithmetic import add, sub
from curta.primitives.elementwise.complex import complex_, imag, part_dtype, real


def by_parts(
    op: ConvGeneralDilated, avals: Sequence[ShapedArray]
) -> ClosedJaxpr | None:
    """The jaxpr of four real convolutions; None if real, or with little to do."""
    out, rhs = op.aval(*avals), avals[1]
    if out.dtype.kind != "c" or any(a.dtype != out.dtype for a in avals):
        return None
    features = rhs.shape[op.dimension_numbers.rhs_spec[0]]
    if (
        out.size * (rhs.size // max(1, features))
        < config.tuning.complex_convolution_work
    ):
        return None
    return _by_parts(op, tuple(avals))


@kept_by_settings(maxsize=64)
def _by_parts(op: ConvGeneralDilated, avals: tuple[ShapedArray, ...]) -> ClosedJaxpr:
    part = part_dtype(avals[0].dtype)
    convolve = dataclasses.replace(op, preferred_element_type=part)

    def run(lhs: Any, rhs: Any) -> Sequence[Any]:
        a, b, c, d = real(lhs), imag(lhs), real(rhs), imag(rhs)
        re = sub(convolve(a, c), convolve(b, d))
        im = add(convolve(a, d), convolve(b, c))
        return [complex_(re, im)]

    return stage(run, avals)
