"""Products and convolutions of complex numbers, as real ones of their parts."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from curta.compiler.rewrite.inline import Function
from curta.compiler.targets import Target
from curta.core.avals import ShapedArray
from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.dot import DotGeneral
from curta.primitives.elementwise.arithmetic import add, sub
from curta.primitives.elementwise.complex import complex_, imag, part_dtype, real
from curta.primitives.elementwise.convert import convert_element_type


def convolution_by_parts(
    op: ConvGeneralDilated, avals: Sequence[ShapedArray], target: Target
) -> Function | None:
    """Four real convolutions; None if real, or with little to do."""
    if _are_real(avals):
        return None
    features = avals[1].shape[op.dimension_numbers.rhs_spec[0]]
    terms = avals[1].size // max(1, features)
    return _by_parts(op, avals, terms, target.tuning.complex_convolution_work)


def product_by_parts(
    op: DotGeneral, avals: Sequence[ShapedArray], target: Target
) -> Function | None:
    """Four real products; None if real, or if a reduction is as fast."""
    if _are_real(avals):
        return None
    terms = op.terms(*avals)
    batch = math.prod(avals[0].shape[d] for d in op.dimension_numbers[1][0])
    if terms <= 1 or any(a.size <= batch * terms for a in avals):
        return None
    return _by_parts(op, avals, terms, target.tuning.called_dot_work)


def _are_real(avals: Sequence[ShapedArray]) -> bool:
    return all(a.dtype.kind != "c" for a in avals)


def _by_parts(
    op: Any, avals: Sequence[ShapedArray], terms: int, least: int
) -> Function | None:
    out = op.aval(*avals)
    if out.dtype.kind != "c" or out.size * terms < least:
        return None
    each = dataclasses.replace(op, preferred_element_type=part_dtype(out.dtype))

    def run(*args: Any) -> Sequence[Any]:
        x, y = (convert_element_type(v, out.dtype) for v in args)
        a, b, c, d = real(x), imag(x), real(y), imag(y)
        re = sub(each(a, c), each(b, d))
        im = add(each(a, d), each(b, c))
        return [complex_(re, im)]

    return run
